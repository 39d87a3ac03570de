"""The docker runtime against real engines: the very commands that hosts get, by the OpenSSH client."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cockpit.model.command import Command
from cockpit.model.profile import DockerRuntime, HostSpec, Profile
from cockpit.model.profile_yaml import parse
from cockpit.runtime import detached
from cockpit.runtime.containers import Container, ContainerKind, container_name, parse_container
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.docker import DockerEnvironment
from tests.rig.profile import rig_profile
from tests.rig.rig import Rig
from tests.rig.shell import Result, run, wait_for

pytestmark = pytest.mark.rig


@dataclass(frozen=True, slots=True)
class Bench:
    """The runtime of a profile on the rig's first host."""

    rig: Rig
    profile: Profile

    @property
    def host(self) -> HostSpec:
        return self.profile.head

    @property
    def spec(self) -> DockerRuntime:
        assert isinstance(self.profile.runtime, DockerRuntime)
        return self.profile.runtime

    @property
    def runtime(self) -> DockerEnvironment:
        return DockerEnvironment(self.profile, self.spec)

    def changed(self, **changes: object) -> Bench:
        return Bench(self.rig, replace(self.profile, runtime=replace(self.spec, **changes)))  # type: ignore[arg-type]

    def run(self, command: Command, **secrets: str) -> Result:
        argv = ["ssh", "-F", str(self.rig.ssh_config), command.host, shlex.join(command.remote_argv)]
        return run(argv, stdin=command.stdin_bytes(secrets).decode(), timeout=command.limit + 20, check=False)

    def good(self, command: Command, **secrets: str) -> str:
        done = self.run(command, **secrets)
        assert done.status == 0, done.out + done.err
        return done.out

    def sh(self, text: str, **options: object) -> str:
        return self.good(self.runtime.script(self.host, text, "try it", **options))  # type: ignore[arg-type]

    def on_host(self, text: str) -> str:
        return self.good(self.runtime.host_script(self.host, text, "look"))

    def start(self) -> str:
        return self.good(self.runtime.container_start(self.host)).strip()

    def container(self) -> Container:
        return parse_container(self.good(self.runtime.container_state(self.host)))

    def process(self) -> detached.Process:
        return detached.parse_state(self.sh(detached.state("unit")))


@pytest.fixture
def bench(rig: Rig, tmp_path: Path) -> Bench:
    path = rig_profile(rig, tmp_path)
    return Bench(rig, parse(path.read_bytes(), str(path)))


def test_without_a_container_a_script_ends_with_97(bench: Bench) -> None:
    assert bench.container() == Container(ContainerKind.ABSENT)
    ended = bench.run(bench.runtime.script(bench.host, "echo never", "try"))
    assert (ended.status, ended.out) == (97, "")
    assert ended.err == "No container of the cluster rig runs here.\n"


def test_started_once_whatever_the_entrypoint(bench: Bench) -> None:
    first = bench.start()
    assert bench.start() == first
    assert bench.container() == Container(ContainerKind.RUNNING, first)
    assert bench.on_host("docker ps -q --no-trunc | wc -l").strip() == "1"
    assert bench.sh("head -n 1 /etc/rig-image; hostname") == bench.sh("cat /etc/rig-image; uname -n")
    inspected = "{{.HostConfig.NetworkMode}} {{.HostConfig.IpcMode}} {{.HostConfig.RestartPolicy.Name}}"
    assert bench.on_host(f"docker inspect -f '{inspected}' {first}").split()[:2] == ["host", "host"]
    assert "always" not in bench.on_host(f"docker inspect -f '{inspected}' {first}")


def test_a_script_finds_environment_state_and_secrets(bench: Bench) -> None:
    bench = bench.changed(env={"FROM": "runtime", "ODD": "a 'b' $HOME\n\"c\" \\"})
    bench.start()
    text = 'printf "%s|" "$STATE" "$FROM" "$ODD" "$MINE"; command -v python3; command -v vllm; echo it >"$STATE/file"'
    said = bench.sh(text, env={"MINE": "x y"})
    assert bench.rig.environment is not None
    bin_folder = f"{bench.rig.environment.venv}/bin"
    expected = "/spark-cockpit|runtime|a 'b' $HOME\n\"c\" \\|x y|"
    assert said == f"{expected}{bin_folder}/python3\n{bin_folder}/vllm\n"
    assert bench.on_host('cat "$STATE/file"; stat -c "%a %U" "$STATE"') == "it\n700 aurora\n"
    command = bench.runtime.script(bench.host, "cat <<'E'\n${KEY} ${HOME}\nE\n", "read", secrets=("KEY",))
    assert "s3cret" not in command.stdin
    assert bench.good(command, KEY="s3cret") == "s3cret ${HOME}\n"


def test_a_script_that_is_given_up_on_ends_in_the_container(bench: Bench) -> None:
    bench.start()
    ended = bench.run(bench.runtime.script(bench.host, "sleep 4321", "hang", limit=2))
    assert ended.status == 124
    wait_for(lambda: "sleep 4321" not in bench.sh("ps -eo args"), "the process is gone", timeout=15)


def test_exit_statuses_and_output_come_through(bench: Bench) -> None:
    bench.start()
    done = bench.run(bench.runtime.script(bench.host, "echo out; echo err >&2; exit 41", "try"))
    assert (done.status, done.out, done.err) == (41, "out\n", "err\n")


def test_a_detached_process_outlives_the_exec_and_its_record_outlives_the_container(bench: Bench) -> None:
    bench.start()
    text = detached.start("unit", ["sh", "-c", "echo begun; sleep 1000"])
    assert bench.sh(text).startswith("started ")
    assert bench.sh(text).startswith("already running ")
    assert bench.process().state is ProcessState.RUNNING
    assert bench.on_host('cat "$STATE/unit/log"') == "begun\n"
    assert bench.sh(detached.stop("unit", grace=5)).startswith("SIGINT ended its ")
    assert bench.process().status == 130
    bench.sh(detached.start("unit", ["sleep", "1000"]))
    bench.good(bench.runtime.container_remove(bench.host))
    assert bench.on_host('cat "$STATE/unit/log"; ls "$STATE/unit"').split() == [
        *("begun", "launch.sh", "lock", "log", "output-from", "pid", "program", "supervise.sh")
    ]
    bench.start()
    assert bench.process().state is ProcessState.GONE


def test_orphans_are_reaped(bench: Bench) -> None:
    bench.start()
    bench.sh("(sleep 0.1 &) ; setsid -f sleep 0.1")
    wait_for(lambda: "sleep 0.1" not in bench.sh("ps -eo args"), "they ended", timeout=10)
    assert "defunct" not in bench.sh("ps -eo stat,args")


def test_a_profile_with_other_mounts_makes_it_stale_and_other_variables_do_not(bench: Bench) -> None:
    identity = bench.start()
    assert bench.changed(env={"NEW": "1"}).container().kind is ContainerKind.RUNNING
    edited = bench.changed(mounts=(*bench.spec.mounts, "~:/operator:ro"))
    stale = edited.container()
    assert (stale.kind, stale.id) == (ContainerKind.STALE, identity)
    assert "other mounts or flags" in stale.detail
    refused = edited.run(edited.runtime.container_start(edited.host))
    assert refused.status == 1
    assert "other mounts or flags" in refused.err
    edited.good(edited.runtime.container_remove(edited.host))
    edited.start()
    assert edited.sh("ls -A /operator").split() == bench.on_host("ls -A ~").split()


def test_another_image_under_the_same_name_makes_it_stale(bench: Bench) -> None:
    bench.on_host(f"docker tag {bench.spec.image} mine:latest")
    mine = bench.changed(image="mine:latest")
    mine.start()
    mine.on_host("printf x >/tmp/x; tar -C /tmp -cf - x | docker import - mine:latest")
    found = mine.container()
    assert found.kind is ContainerKind.STALE
    assert "another image" in found.detail
    mine.on_host("docker rmi -f mine:latest")


def test_a_container_that_ended_is_started_anew(bench: Bench) -> None:
    first = bench.start()
    began = time.monotonic()
    bench.on_host(f"docker stop -t 20 {first}")
    assert time.monotonic() - began < 15, "PID 1 did not end at SIGTERM"
    stopped = bench.container()
    assert (stopped.kind, stopped.id) == (ContainerKind.STOPPED, first)
    assert bench.run(bench.runtime.script(bench.host, "true", "try")).status == 97
    second = bench.start()
    assert second != first
    assert bench.container().kind is ContainerKind.RUNNING
    bench.rig.hosts[bench.host.name].crash()
    bench.rig.hosts[bench.host.name].boot()
    assert bench.container().kind is ContainerKind.STOPPED
    assert bench.start() not in (first, second)


def test_a_strangers_container_with_our_name_is_left_alone(bench: Bench) -> None:
    name = container_name(bench.profile)
    stranger = bench.on_host(f"docker run -d --name {name} --entrypoint sleep {bench.spec.image} 1000").strip()
    found = bench.container()
    assert (found.kind, found.id) == (ContainerKind.FOREIGN, stranger)
    refused = bench.run(bench.runtime.container_start(bench.host))
    assert refused.status == 1
    assert (
        refused.err
        == f"The container {name} has the name of this cluster's, and isn't ours: it is left alone.\n"
    )
    assert bench.good(bench.runtime.container_remove(bench.host)) == "no container of ours is here\n"
    assert bench.run(bench.runtime.script(bench.host, "true", "try")).status == 97
    assert bench.on_host("docker ps -q --no-trunc").strip() == stranger


def test_remove_takes_ours_and_nobody_elses(bench: Bench) -> None:
    other = bench.on_host(f"docker run -d --entrypoint sleep {bench.spec.image} 1000").strip()
    cousin = Bench(bench.rig, replace(bench.profile, name="rig2"))
    theirs = cousin.start()
    ours = bench.start()
    assert bench.good(bench.runtime.container_remove(bench.host)) == f"removed {ours}\n"
    assert set(bench.on_host("docker ps -aq --no-trunc").split()) == {other, theirs}
    assert bench.container().kind is ContainerKind.ABSENT


def test_a_missing_image_or_folder_is_told_and_nothing_is_made(bench: Bench) -> None:
    nowhere = bench.changed(image="nowhere/none:1")
    for command in (
        nowhere.runtime.container_start(bench.host),
        nowhere.runtime.image_script(bench.host, ":", "x"),
    ):
        refused = nowhere.run(command)
        assert refused.status == 1
        assert refused.err.endswith(
            "The image nowhere/none:1 is not on this host; nothing is pulled by the cockpit.\n"
        )
    missing = bench.changed(mounts=("~/models here:/m",))
    refused = missing.run(missing.runtime.container_start(bench.host))
    assert refused.status == 1
    assert refused.err == "There is no /home/aurora/models here here, which the profile mounts.\n"
    assert bench.on_host("docker ps -aq; ls ~") == ""


def test_the_image_can_be_asked_before_the_container_runs(bench: Bench) -> None:
    command = bench.runtime.image_script(bench.host, "nvidia-smi -L | head -c 5; cat; exit 3", "ask")
    ended = bench.run(command)
    assert (ended.status, ended.out) == (3, "GPU 0")
    late = bench.run(bench.runtime.image_script(bench.host, "sleep 1000", "hang", limit=3))
    assert late.status == 124
    wait_for(lambda: bench.on_host("docker ps -aq") == "", "the throw-away container is gone", timeout=15)


def test_without_an_engine_the_reason_comes_through(bench: Bench) -> None:
    text = bench.runtime.script(bench.host, "true", "try").stdin.replace(
        "docker ", "DOCKER_HOST=unix:///no docker "
    )
    ended = bench.run(Command(bench.host.name, ("sh", "-s"), "try", text))
    assert ended.status == 1
    assert "Cannot connect to the Docker daemon" in ended.err


def test_the_gpu_flag_is_ours_until_the_profile_has_its_own(bench: Bench) -> None:
    bench = bench.changed(run_flags=(*bench.spec.run_flags, "--gpus", "none"))
    bench.start()
    assert bench.run(bench.runtime.script(bench.host, "nvidia-smi -L", "ask")).status == 127
