"""Ray in the containers of two real hosts, over their fabric."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cockpit.cluster import ray
from cockpit.cluster.membership import (
    identity_command,
    membership_command,
    parse_identity,
    parse_membership,
)
from cockpit.model.command import Command
from cockpit.model.facts import Membership, MemberState
from cockpit.model.profile import Profile
from cockpit.model.profile_yaml import parse
from cockpit.runtime.docker import DockerEnvironment
from cockpit.runtime.environment import environment
from tests.rig.layout import FABRIC
from tests.rig.profile import rig_profile
from tests.rig.rig import Rig
from tests.rig.shell import Result, run

pytestmark = [pytest.mark.rig, pytest.mark.full]


class Pair:
    """The profile's two hosts, by the OpenSSH client."""

    def __init__(self, rig: Rig, profile: Profile) -> None:
        self.rig = rig
        self.profile = profile
        runtime = environment(profile)
        assert isinstance(runtime, DockerEnvironment)
        self.runtime = runtime
        self.secrets: dict[str, str] = {}

    def run(self, command: Command) -> Result:
        argv = ["ssh", "-F", str(self.rig.ssh_config), command.host, shlex.join(command.remote_argv)]
        stdin = command.stdin_bytes(self.secrets).decode()
        done = run(argv, stdin=stdin, timeout=command.limit + 20, check=False)
        if command.gives and done.status == 0:
            self.secrets[command.gives] = done.out.rstrip("\n")
        return done

    def good(self, command: Command) -> str:
        done = self.run(command)
        assert done.status == 0, done.out + done.err
        return done.out

    def up(self) -> None:
        for host in self.profile.hosts:
            self.good(self.runtime.container_start(host))
        self.good(ray.head_command(self.profile, self.runtime))
        self.good(ray.token_command(self.profile, self.runtime))
        self.good(ray.worker_command(self.profile, self.runtime, self.profile.workers[0]))

    def membership(self) -> Membership:
        identities = {
            host.name: parse_identity(self.good(identity_command(self.runtime, host)).encode())
            for host in self.profile.hosts
        }
        output = self.good(membership_command(self.profile, self.runtime)).encode()
        return parse_membership(output, self.profile, identities)


@pytest.fixture
def pair(rig: Rig, tmp_path: Path) -> Pair:
    path = rig_profile(rig, tmp_path)
    return Pair(rig, parse(path.read_bytes(), str(path)))


def test_two_hosts_join_and_leave_nothing(pair: Pair) -> None:
    pair.up()
    membership = pair.membership()
    assert membership.complete
    assert [m.address for m in membership.members] == [host.cluster_address for host in pair.profile.hosts]
    again = pair.good(ray.head_command(pair.profile, pair.runtime))
    assert again == "already running\n"
    worker = pair.profile.workers[0]
    logs = pair.runtime.host_script(worker, 'ls "$STATE"/ray/tmp/session_2*/logs', "find Ray's logs")
    assert "raylet.out" in pair.good(logs).split()
    for command in ray.stop_commands(pair.profile, pair.runtime):
        assert pair.good(command).startswith("SIGTERM ended its ")
    for host in pair.profile.hosts:
        left = pair.good(pair.runtime.script(host, "ps -eo args", "look"))
        assert "ray" not in left.replace(f"{pair.rig.environment}", "")
        taken = pair.good(pair.runtime.host_script(host, "ss -Htln", "look"))
        assert f":{pair.profile.ray.port} " not in taken
        pair.good(pair.runtime.container_remove(host))
    pair.up()
    assert pair.membership().complete


def test_a_worker_that_joined_by_its_management_address_is_told(pair: Pair) -> None:
    pair.up()
    worker = pair.profile.workers[0]
    pair.good(ray.stop_command(pair.profile, pair.runtime, worker))
    management = pair.rig.hosts[worker.name].address
    by_hand = (
        f"RAY_AUTH_MODE=token RAY_AUTH_TOKEN={pair.secrets[ray.SECRET]} ray start --num-gpus=1 "
        f"--address={pair.profile.head.cluster_address}:{pair.profile.ray.port} --node-ip-address={management}"
    )
    pair.good(pair.runtime.script(worker, by_hand, "join by hand", limit=60))
    member = pair.membership().members[1]
    assert (member.host, member.state, member.address) == (worker.name, MemberState.WRONG_ADDRESS, management)


def test_a_head_behind_a_dead_fabric_is_told_within_the_limit(pair: Pair) -> None:
    pair.up()
    worker = pair.profile.workers[0]
    pair.good(ray.stop_command(pair.profile, pair.runtime, worker))
    pair.rig.hosts[worker.name].drop("on", FABRIC)
    refused = pair.run(ray.worker_command(pair.profile, pair.runtime, worker))
    assert refused.status == 1
    head = pair.profile.head
    assert f"{worker.name} can't reach {head.name}'s Ray at {head.cluster_address}:" in refused.err
    assert "no answer within 5 s" in refused.err
