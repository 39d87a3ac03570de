"""Ray for real: two nodes on loopback addresses, started, asked and stopped by the commands that hosts get."""

from __future__ import annotations

import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cockpit.cluster import ray
from cockpit.cluster.environment import TOKEN
from cockpit.cluster.versions import parse_versions, versions_command
from cockpit.model.facts import MemberState
from cockpit.runtime.detached import ProcessState
from tests.cluster.real import Cluster, ray_profile
from tests.rig.environment import Environment

pytestmark = pytest.mark.lab


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for ``condition``, at most 60 s."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"never came true: {what}"
        time.sleep(0.2)


def states(cluster: Cluster) -> list[MemberState]:
    return [member.state for member in cluster.membership().members]


@pytest.fixture(scope="module")
def venv(vllm_environment: Environment) -> str:
    return str(vllm_environment.venv)


@pytest.fixture(scope="module")
def cluster(venv: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both nodes up, for users who have Ray tokens of their own, by variable and by file."""
    folder = tmp_path_factory.mktemp("cluster")
    made = Cluster(ray_profile(venv), folder, extra_env={"RAY_AUTH_TOKEN": "f" * 32})
    for host in made.profile.hosts:
        (made.home(host.name) / ".ray").mkdir(parents=True)
        (made.home(host.name) / ".ray/auth_token").write_text("e" * 32)
    try:
        assert made.start_head().startswith("started ")
        assert made.join().startswith("started ")
        yield made
    finally:
        made.stop()
        made.clear()
        assert made.processes() == {}


@pytest.fixture
def other(venv: str, tmp_path: Path) -> Iterator[Cluster]:
    """A second Ray of another cluster, its head alone."""
    made = Cluster(ray_profile(venv, "ray-other", net=26, port=25479), tmp_path)
    try:
        made.start_head()
        yield made
    finally:
        made.stop()
        made.clear()
        assert made.processes() == {}


def test_both_hosts_join_with_their_fabric_addresses_and_gpus(cluster: Cluster) -> None:
    membership = cluster.membership()
    assert membership.complete
    assert [(m.host, m.address, m.gpus) for m in membership.members] == [
        ("spark-1", "127.0.25.2", 1.0),
        ("spark-2", "127.0.25.3", 1.0),
    ]
    assert membership.ray_version.count(".") == 2


def test_starting_again_starts_nothing(cluster: Cluster) -> None:
    before = cluster.processes()
    assert cluster.start_head() == "already running\n"
    assert cluster.join() == "already running\n"
    assert cluster.processes().keys() == before.keys()
    assert all(cluster.state(host).up for host in cluster.profile.hosts)


def test_the_dashboard_answers_to_the_token_alone(cluster: Cluster) -> None:
    url = f"http://127.0.0.1:{cluster.profile.ray.dashboard_port}/api/v0/nodes"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url, timeout=10)
    path = cluster.state_folder("spark-1") / TOKEN
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text()) == 64
    assert (cluster.state_folder("spark-2") / TOKEN).read_text() == path.read_text()
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {path.read_text()}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


@pytest.mark.full
def test_the_node_runs_with_its_hosts_environment(cluster: Cluster) -> None:
    raylets = {}
    for pid, text in cluster.processes().items():
        if "raylet" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode() and text:
            raw = Path(f"/proc/{pid}/environ").read_bytes().decode()
            environ = dict(line.split("=", 1) for line in raw.split("\0") if "=" in line)
            raylets[environ["VLLM_HOST_IP"]] = environ
    assert sorted(raylets) == ["127.0.25.2", "127.0.25.3"]
    for environ in raylets.values():
        assert environ["GLOO_SOCKET_IFNAME"] == environ["NCCL_SOCKET_IFNAME"] == "lo"
        assert environ["RAY_memory_monitor_refresh_ms"] == "0"
        assert "RAY_ADDRESS" not in environ


@pytest.mark.full
def test_a_worker_that_leaves_is_missing_and_comes_back(cluster: Cluster) -> None:
    worker = cluster.profile.workers[0]
    stopped = cluster.good(ray.stop_command(cluster.profile, cluster.runtime, worker))
    assert stopped.startswith("SIGTERM ended its ")
    until(lambda: states(cluster) == [MemberState.JOINED, MemberState.MISSING], "worker missing")
    assert cluster.state(worker).process.state is ProcessState.ABSENT, "stopped, not died"
    assert not (cluster.state_folder("spark-2") / TOKEN).exists()
    assert cluster.join().startswith("started ")
    assert cluster.membership().complete


@pytest.mark.full
def test_a_raylet_that_dies_takes_its_node_down_and_nothing_stays(cluster: Cluster) -> None:
    worker = cluster.profile.workers[0]
    for pid in cluster.processes():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if words[0].endswith(b"raylet") and b"--node_ip_address=127.0.25.3" in words:
            os.kill(pid, signal.SIGKILL)
    until(lambda: cluster.state(worker).process.state is ProcessState.ENDED, "ray start --block ended")
    assert cluster.state(worker).process.status == 1
    assert cluster.join().startswith("started ")
    until(lambda: cluster.membership().complete, "complete again, the dead node not counted")


@pytest.mark.full
def test_another_ray_on_the_port_is_named_and_left_alone(cluster: Cluster, venv: str, tmp_path: Path) -> None:
    rival = Cluster(replace(cluster.profile, name="ray-rival"), tmp_path)
    refused = rival.run(ray.head_command(rival.profile, rival.runtime))
    assert refused.returncode == 1
    said = refused.stderr.decode()
    assert f"Port {cluster.profile.ray.port} is taken by another Ray, process " in said
    assert said.startswith("spark-1: ")
    assert rival.state(rival.profile.head).process.state is ProcessState.ABSENT
    assert cluster.membership().complete


def test_another_cluster_survives_the_end_of_ours(cluster: Cluster, other: Cluster) -> None:
    theirs = other.processes()
    cluster.stop()
    assert cluster.processes() == {}
    assert not (cluster.state_folder("spark-1") / TOKEN).exists()
    for host in cluster.profile.hosts:
        assert cluster.state(host).process.state is ProcessState.ABSENT, "stopped, not died"
    assert other.processes().keys() == theirs.keys()
    assert states(other) == [MemberState.JOINED, MemberState.MISSING]
    gone = cluster.membership()
    assert (gone.reachable, gone.complete) == (False, False)
    assert "nothing listens on port" in gone.error
    # At once on the same ports: the stop has waited until they were free.
    cluster.start_head()
    cluster.join()
    assert cluster.membership().complete


@pytest.mark.full
def test_a_dead_head_is_told_at_once_and_nothing_is_started(venv: str, tmp_path: Path) -> None:
    lonely = Cluster(ray_profile(venv, "ray-lonely", net=27, port=25579), tmp_path, {ray.SECRET: "a" * 64})
    refused = lonely.run(ray.worker_command(lonely.profile, lonely.runtime, lonely.profile.workers[0]))
    assert refused.returncode == 1
    assert refused.stderr.decode().startswith(
        "spark-2 can't reach spark-1's Ray at 127.0.27.2:25579: connection refused. Does Ray's head run"
    )
    assert lonely.state(lonely.profile.workers[0]).process.state is ProcessState.ABSENT


@pytest.mark.full
def test_a_wrong_token_is_refused_with_rays_own_words(other: Cluster) -> None:
    other.secrets[ray.SECRET] = "d" * 64
    refused = other.run(ray.worker_command(other.profile, other.runtime, other.profile.workers[0]))
    assert refused.returncode == 1
    said = refused.stderr.decode()
    assert "spark-2: Ray ended while it started:" in said
    assert "AuthenticationError" in said
    assert states(other) == [MemberState.JOINED, MemberState.MISSING]


@pytest.mark.full
def test_versions_are_asked_without_starting_vllm(cluster: Cluster) -> None:
    output = cluster.good(versions_command(cluster.runtime, cluster.profile.head))
    versions = parse_versions(output.encode())
    assert versions.ray == cluster.membership().ray_version
    assert versions.vllm
    assert versions.python_series.startswith("3.")


def test_a_start_whose_starter_died_is_waited_for(venv: str, tmp_path: Path) -> None:
    made = Cluster(ray_profile(venv, "ray-left", net=28, port=25679), tmp_path)
    head = made.profile.head
    try:
        starter = made.start(ray.head_command(made.profile, made.runtime))
        until(lambda: made.state(head).process.state is ProcessState.RUNNING, "Ray's process runs")
        starter.kill()
        starter.wait()
        assert not made.state(head).up
        assert made.start_head() == "already running\n"
        assert made.state(head).up
    finally:
        made.stop()
        made.clear()
        assert made.processes() == {}
