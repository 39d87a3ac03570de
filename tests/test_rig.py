"""The rig itself: what the tests of everything else stand on."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.profile import DockerRuntime, NativeRuntime
from cockpit.model.profile_yaml import parse
from tests.rig import FABRIC, MANAGEMENT, Rig, RigError
from tests.rig.layout import STATE, Layout
from tests.rig.needs import require
from tests.rig.profile import rig_profile
from tests.rig.shell import Result, run, wait_for

pytestmark = pytest.mark.rig


def ssh(rig: Rig, host: str, command: str, *, timeout: float = 60) -> Result:
    """``command`` on ``host`` by the OpenSSH client, as the operator's own."""
    options = ["-F", str(rig.ssh_config), "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]
    return run(["ssh", *options, host, command], timeout=timeout, check=False)


def container(rig: Rig, command: str, *flags: str) -> str:
    """The command line that runs ``command`` in a container with the rig's mounts, past its entrypoint."""
    mounts = [part for mount in rig.mounts for part in ("-v", mount)]
    argv = ["docker", "run", *flags, *mounts, "--entrypoint", "/bin/sh", rig.image, "-c", command]
    return shlex.join(argv)


def traces(number: int) -> dict[str, list[str]]:
    """All that a rig with this number leaves on the machine while it stands."""
    names = re.compile(rf"sc{number}-\w+")
    groups = [str(path) for path in Path("/sys/fs/cgroup").rglob(f"sc{number}-*")]
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mounts, words = (process / "mountinfo").read_text(), (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        if f"{STATE}/{number}/" in mounts:
            processes.append(words.decode(errors="replace"))
    return {
        "namespaces": [path.name for path in Path("/run/netns").glob(f"sc{number}-*")],
        "interfaces": [path.name for path in Path("/sys/class/net").iterdir() if names.fullmatch(path.name)],
        "mounts": [
            line for line in Path("/proc/mounts").read_text().splitlines() if f"{STATE}/{number}/" in line
        ],
        "groups": groups,
        "processes": processes,
        "state": [str(STATE / str(number))] if (STATE / str(number)).exists() else [],
    }


def nothing_left(number: int) -> bool:
    """Whether no trace of the rig is left."""
    return not any(traces(number).values())


@pytest.mark.parametrize("host", ["spark-1", "spark-2"])
def test_a_host_answers_by_ssh_with_its_own_name_user_and_file_system(rig: Rig, host: str) -> None:
    said = ssh(rig, host, "hostname; id -un; id -nG; ls /root /home; cat /proc/1/comm; echo it > ~/mine")
    assert said.status == 0, said.err
    assert said.out.split("\n")[:2] == [host, "aurora"]
    assert "docker" in said.out.split("\n")[2].split()
    assert "tini" in said.out
    other = "spark-2" if host == "spark-1" else "spark-1"
    assert ssh(rig, other, "cat ~/mine").status != 0


def test_the_second_host_is_reached_through_the_first(rig: Rig) -> None:
    assert ssh(rig, "spark-2-via-1", "hostname").out == "spark-2\n"


def test_every_host_has_the_same_image_in_an_engine_of_its_own(rig: Rig) -> None:
    ids = {name: ssh(rig, name, f"docker image inspect -f '{{{{.Id}}}}' {rig.image}").out for name in rig.hosts}
    assert ids["spark-1"].startswith("sha256:")
    assert ids["spark-1"] == ids["spark-2"]
    engines = {ssh(rig, name, "docker info -f '{{.ID}} {{.Name}}'").out for name in rig.hosts}
    assert len(engines) == 2


def test_the_image_has_an_entrypoint_that_gets_in_the_way(rig: Rig) -> None:
    said = ssh(rig, "spark-1", f"docker run --rm {rig.image} true")
    assert said.status == 127
    assert '"vllm": executable file not found' in said.err


def test_a_container_started_with_gpus_finds_the_stand_in(rig: Rig) -> None:
    asked = "nvidia-smi -L; nvidia-smi --query-compute-apps=pid --format=csv,noheader; cat /proc/1/comm"
    said = ssh(rig, "spark-1", container(rig, asked, "--rm", "--init", "--gpus", "all"))
    assert said.status == 0, said.err
    first, *rest = said.out.splitlines()
    assert first.startswith("GPU 0: NVIDIA GB10 (stand-in) (UUID: GPU-")
    assert rest == ["docker-init"]
    without = ssh(rig, "spark-1", container(rig, "nvidia-smi -L", "--rm"))
    assert without.status == 127


def test_vllm_and_ray_of_the_environment_run_in_a_container(rig: Rig) -> None:
    script = "import ray, torch, vllm; print(ray.__version__, vllm.__version__)"
    asked = f"for c in python vllm ray; do command -v $c; done; python -c '{script}'; ls /models/tiny"
    said = ssh(rig, "spark-2", container(rig, asked, "--rm", "--network", "host"), timeout=120)
    assert rig.environment is not None
    places = [f"{rig.environment.venv}/bin/{name}" for name in ("python", "vllm", "ray")]
    assert said.out.splitlines()[:3] == places, said.err
    assert re.search(r"^\d+\.\d+\S* \d+\.\d+", said.out, re.MULTILINE), said.err
    assert "model.safetensors.index.json" in said.out


def test_the_environment_runs_natively_for_the_user_too(rig: Rig) -> None:
    assert rig.environment is not None
    python = f"{rig.environment.venv}/bin/python"
    said = ssh(rig, "spark-1", f"{python} -c 'import ray; print(ray.__version__)'", timeout=120)
    assert re.match(r"\d+\.\d+", said.out), said.err
    with pytest.raises(RigError, match="Read-only file system"):
        rig.hosts["spark-1"].exec(["touch", f"{rig.environment.venv}/new"])


def test_an_image_nobody_has_is_refused_at_once(rig: Rig) -> None:
    said = ssh(rig, "spark-1", "docker run --rm rig/nosuch:test true", timeout=15)
    assert said.status == 125
    assert "lookup" in said.err


def test_nvidia_smi_lists_real_workers_with_their_real_memory(plain_rig: Rig) -> None:
    host = plain_rig.hosts["spark-1"]
    fields = "--query-compute-apps=pid,process_name,used_memory"
    assert host.exec(["nvidia-smi", fields, "--format=csv"]).out == (
        "pid, process_name, used_gpu_memory [MiB]\n"
    )
    keep = 'import time; b = b"x" * (200 << 20); time.sleep(300)'
    argv = ["bash", "-c", f"exec -a ray::RayWorkerProc.run python3 -c '{keep}' >/dev/null 2>&1 &"]
    host.exec(argv, user="aurora")

    def listed() -> list[str]:
        return host.exec(["nvidia-smi", fields, "--format=csv,noheader,nounits"]).out.split(", ")

    wait_for(lambda: len(listed()) == 3 and int(listed()[2]) >= 200, "the worker is listed", timeout=20)
    pid, name, used = listed()
    assert name == "ray::RayWorkerProc.run"
    resident = int(host.exec(["ps", "-o", "rss=", "-p", pid]).out) // 1024
    assert abs(int(used) - resident) <= 2
    assert "ray::RayWorkerProc.run" in host.exec(["nvidia-smi"]).out
    assert "RayWorker" not in plain_rig.hosts["spark-2"].exec(["nvidia-smi"]).out


def test_a_gb10_tells_no_memory_total(plain_rig: Rig) -> None:
    fields = "--query-gpu=index,name,memory.total,memory.used,compute_cap"
    said = plain_rig.hosts["spark-1"].exec(["nvidia-smi", fields, "--format=csv,noheader"])
    assert said.out == "0, NVIDIA GB10 (stand-in), [N/A], [N/A], 12.1\n"


def meminfo(rig: Rig, host: str) -> dict[str, int]:
    """/proc/meminfo of the host, in kB."""
    lines = rig.hosts[host].exec(["cat", "/proc/meminfo"]).out.splitlines()
    return {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}


def test_memory_looks_like_a_sparks_and_follows_what_the_host_uses(plain_rig: Rig) -> None:
    before = {name: meminfo(plain_rig, name)["MemAvailable"] for name in plain_rig.hosts}
    assert meminfo(plain_rig, "spark-1")["MemTotal"] == 125_513_136
    keep = 'import time; b = b"x" * (300 << 20); time.sleep(300)'
    argv = ["sh", "-c", f"python3 -c '{keep}' >/dev/null 2>&1 &"]
    plain_rig.hosts["spark-1"].exec(argv, user="aurora")
    taken = 290 << 10

    def used(host: str) -> int:
        return before[host] - meminfo(plain_rig, host)["MemAvailable"]

    wait_for(lambda: used("spark-1") > taken, "the memory is in use", timeout=20)
    assert used("spark-2") < taken // 2
    plain_rig.reset()
    wait_for(lambda: used("spark-1") < taken // 2, "the memory is given back", timeout=20)


def test_a_memory_limit_is_real_and_told(plain_rig: Rig) -> None:
    host = plain_rig.hosts["spark-2"]
    host.limit_memory(512 << 20)
    wait_for(lambda: meminfo(plain_rig, "spark-2")["MemTotal"] == 512 << 10, "the limit is told", timeout=10)
    ended = host.exec(["python3", "-c", "b = b'x' * (900 << 20)"], check=False)
    assert ended.status in (137, -signal.SIGKILL)


def test_processes_and_containers_survive_a_pulled_cable(rig: Rig) -> None:
    host = rig.hosts["spark-2"]
    started = ssh(rig, "spark-2", container(rig, "sleep 300", "-d", "--name", "stays"))
    assert started.status == 0, started.err
    host.link("down")
    assert ssh(rig, "spark-2", "true", timeout=30).status == 255
    carrier = host.exec(["cat", f"/sys/class/net/{MANAGEMENT}/carrier"]).out
    assert carrier == "0\n"
    host.link("up")
    wait_for(lambda: ssh(rig, "spark-2", "true").status == 0, "SSH answers again", timeout=30)
    assert ssh(rig, "spark-2", "docker ps --format '{{.Names}}'").out == "stays\n"


def reaches(rig: Rig, size: int = 64) -> bool:
    """Whether an unfragmented packet of ``size`` bytes gets over the fabric and back."""
    ping = ["ping", "-c", "1", "-W", "1", "-M", "do", "-s", str(size - 28), rig.hosts["spark-2"].fabric]
    return rig.hosts["spark-1"].exec(ping, check=False).status == 0


def test_the_fabric_is_one_cable_with_large_frames(plain_rig: Rig) -> None:
    assert reaches(plain_rig, 9000)
    second = plain_rig.hosts["spark-2"]
    second.mtu(FABRIC, 1500)
    assert not reaches(plain_rig, 9000)
    assert reaches(plain_rig, 1500)
    second.link("down", FABRIC)
    for host in plain_rig.hosts.values():
        assert host.exec(["cat", f"/sys/class/net/{FABRIC}/carrier"]).out == "0\n"
    assert ssh(plain_rig, "spark-2", "true").status == 0
    plain_rig.reset()
    assert reaches(plain_rig, 9000)


def test_a_black_hole_keeps_the_carrier_and_passes_nothing(plain_rig: Rig) -> None:
    second = plain_rig.hosts["spark-2"]
    second.drop("on", FABRIC)
    assert second.exec(["cat", f"/sys/class/net/{FABRIC}/carrier"]).out == "1\n"
    assert not reaches(plain_rig)
    second.drop("off", FABRIC)
    assert reaches(plain_rig)


def test_loss_loses_some_and_not_all(plain_rig: Rig) -> None:
    plain_rig.hosts["spark-2"].loss(30, FABRIC)
    ping = ["ping", "-q", "-c", "100", "-i", "0.01", "-W", "1", plain_rig.hosts["spark-2"].fabric]
    said = plain_rig.hosts["spark-1"].exec(ping, check=False).out
    arrived = re.search(r"(\d+) received", said)
    assert arrived is not None, said
    assert 10 < int(arrived[1]) < 90


def test_a_limited_rate_holds_packets_back(plain_rig: Rig) -> None:
    second = plain_rig.hosts["spark-2"]
    second.rate("8mbit")
    assert len(ssh(plain_rig, "spark-2", "head -c 1000000 /dev/zero").out) == 1_000_000
    told = second.exec(["tc", "-s", "qdisc", "show", "dev", MANAGEMENT]).out
    held_back = re.search(r"overlimits (\d+)", told)
    assert "tbf" in told and held_back is not None and int(held_back[1]) > 0, told
    second.rate("")
    assert "tbf" not in second.exec(["tc", "qdisc", "show", "dev", MANAGEMENT]).out


def test_a_delay_holds_both_ways_and_lets_everything_through(plain_rig: Rig) -> None:
    plain_rig.delay(40)
    address = plain_rig.hosts["spark-1"].address
    said = run(["ping", "-q", "-c", "5", "-i", "0.2", address]).out
    fastest = re.search(r"= ([\d.]+)/", said)
    assert fastest is not None and float(fastest[1]) >= 80, said
    assert len(ssh(plain_rig, "spark-2", "head -c 1000000 /dev/zero").out) == 1_000_000


def test_a_power_cut_is_silent_and_the_disk_survives_it(rig: Rig) -> None:
    host = rig.hosts["spark-2"]
    assert ssh(rig, "spark-2", "echo kept > ~/kept").status == 0
    assert ssh(rig, "spark-2", container(rig, "sleep 300", "-d", "--name", "lost")).status == 0
    with socket.create_connection((host.address, 22), timeout=5) as connection:
        assert connection.recv(4) == b"SSH-"
        connection.settimeout(0.5)
        while True:
            # sshd's first packets; then silence, and neither an end nor a reset.
            try:
                assert connection.recv(4096)
            except TimeoutError:
                break
            if host.running:
                host.crash()
    assert not host.running
    with pytest.raises(RigError, match="spark-2 is off"):
        host.exec(["true"])
    host.boot()
    assert ssh(rig, "spark-2", "cat ~/kept").out == "kept\n"
    assert ssh(rig, "spark-2", "docker ps -a --format '{{.Names}} {{.Status}}'").out.startswith(
        "lost Exited (255)"
    )


def test_reset_leaves_nothing_of_a_test(rig: Rig) -> None:
    assert ssh(rig, "spark-1", "touch ~/file /dev/shm/segment; setsid sleep 300 >/dev/null 2>&1 &").status == 0
    assert ssh(rig, "spark-1", container(rig, "sleep 300", "-d", "--restart", "always")).status == 0
    rig.hosts["spark-2"].crash()
    rig.reset()
    assert ssh(rig, "spark-1", "docker ps -aq; ls ~ /dev/shm -A; pgrep -x sleep").out.split() == [
        *("/dev/shm:", "/home/aurora:", ".ssh")
    ]
    assert ssh(rig, "spark-2", "hostname").out == "spark-2\n"


def test_a_command_on_a_host_has_a_time_limit(plain_rig: Rig) -> None:
    host = plain_rig.hosts["spark-1"]
    assert host.exec(["sleep", "300"], timeout=0.5, check=False).status == 124
    assert host.exec(["pgrep", "-x", "sleep"], check=False).out == ""


@pytest.mark.parametrize("kind", ["docker", "native"])
def test_profiles_for_the_rig_are_sound(rig: Rig, tmp_path: Path, kind: str) -> None:
    path = rig_profile(rig, tmp_path, runtime="docker" if kind == "docker" else "native")
    profile = parse(path.read_bytes(), str(path))
    assert [host.fabric.address for host in profile.hosts if host.fabric] == [
        host.fabric for host in rig.hosts.values()
    ]
    assert isinstance(profile.runtime, DockerRuntime if kind == "docker" else NativeRuntime)


def test_two_rigs_stand_side_by_side_and_one_goes_without_the_other(plain_rig: Rig) -> None:
    other = Rig.start(docker=False, n_hosts=1)
    try:
        assert other.layout.number != plain_rig.layout.number
        assert ssh(other, "spark-1", "hostname").out == "spark-1\n"
        assert ssh(plain_rig, "spark-1", "hostname").out == "spark-1\n"
        assert any(traces(other.layout.number).values())
    finally:
        other.stop()
    assert traces(other.layout.number) == {key: [] for key in traces(other.layout.number)}
    assert ssh(plain_rig, "spark-2", "hostname").out == "spark-2\n"


OWNER = """
import sys, time
from tests.rig import Rig
rig = Rig.start(docker=sys.argv[1] == "docker", n_hosts=1)
print(rig.layout.number, flush=True)
time.sleep(600)
"""


@pytest.fixture
def owner() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that has started a rig, and the rig's number."""
    require()
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, "docker"],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    yield process, int(line)
    process.kill()
    process.wait()


def test_a_rig_whose_owner_is_killed_goes_by_itself(owner: tuple[subprocess.Popen[str], int]) -> None:
    process, number = owner
    assert traces(number)["processes"]
    process.send_signal(signal.SIGKILL)
    wait_for(lambda: nothing_left(number), "nothing of the rig is left", timeout=60)


def test_the_next_start_clears_away_a_rig_that_lost_its_supervisor_too(
    owner: tuple[subprocess.Popen[str], int],
) -> None:
    process, number = owner
    for supervisor in supervisors(number):
        os.kill(supervisor, signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert any(traces(number).values())
    next_rig = Rig.start(docker=False, n_hosts=1)
    try:
        if next_rig.layout.number != number:
            assert nothing_left(number)
        assert ssh(next_rig, "spark-1", "hostname").out == "spark-1\n"
    finally:
        next_rig.stop()
    assert nothing_left(number)


def supervisors(number: int) -> list[int]:
    """The process ids of the supervisor of rig ``number``."""
    wanted = ["-m", "tests.rig.supervisor", str(number)]
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has just ended
        if words[1:4] == wanted:
            found.append(int(process.name))
    return found


def test_a_range_that_is_routed_here_is_left_alone() -> None:
    require()
    first = Rig.start(docker=False, n_hosts=1)
    number = first.layout.number
    first.stop()
    run(["ip", "route", "add", "blackhole", f"{Layout(number, 1).address(7)}/32"])
    try:
        second = Rig.start(docker=False, n_hosts=1)
        assert second.layout.number != number
        second.stop()
    finally:
        run(["ip", "route", "delete", "blackhole", f"{Layout(number, 1).address(7)}/32"])
