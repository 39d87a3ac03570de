"""On two real hosts: whatever happens to link, cockpit, host and file, no byte is lost, doubled or silently gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.logs.marks import Mark
from tests.e2e.cockpit import Cockpit
from tests.logs.rig_logs import (
    RAY,
    RUN,
    SERVE_LOG,
    VENV,
    Followed,
    Writer,
    make_run,
    profile_of,
    sha256_of,
    sha256_on,
    shell,
    until,
)
from tests.rig.profile import rig_profile
from tests.rig.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.timeout(1200)]


@pytest.fixture
def profile(plain_rig: Rig, tmp_path: Path) -> Path:
    """The profile of a rig whose head has a run."""
    make_run(plain_rig.hosts["spark-1"])
    return profile_of(plain_rig, tmp_path)


@pytest.fixture
def followed(profile: Path, tmp_path: Path) -> Iterator[Followed]:
    """``logs -f`` on the serve log, printing safe lines."""
    made = Followed(Cockpit(tmp_path), profile, tmp_path)
    yield made
    made.kill()


@pytest.mark.parametrize(
    ("size", "cuts", "kills"),
    [
        pytest.param(20_000_000, 1, 1, id="20 MB"),
        pytest.param(2_000_000_000, 5, 2, id="2 GB", marks=pytest.mark.full),
    ],
)
def test_a_log_written_at_full_speed_arrives_byte_for_byte(
    plain_rig: Rig, followed: Followed, size: int, cuts: int, kills: int
) -> None:
    host = plain_rig.hosts["spark-1"]
    writer = Writer(host)
    faults = ["cut"] * cuts
    for at in range(kills):
        faults.insert((at + 1) * (cuts + kills) // (kills + 1), "kill")
    for number, fault in enumerate(faults):
        before = writer.size
        writer.burst(size // (len(faults) + 1))
        followed.has(before + 1)
        if fault == "kill":
            followed.kill()
            followed.restart()
            continue
        cut = 1 + faults[:number].count("cut")
        host.link("down")
        followed.says("lost: ", times=cut)
        host.link("up")
        followed.says("read again after", times=cut)
    writer.burst(size - writer.size)
    writer.done()
    followed.has(size)
    assert followed.size == size
    assert sha256_of(followed.spool) == sha256_on(host)
    assert followed.marks == ()


def test_rotation_truncation_and_a_reboot_are_marked(plain_rig: Rig, followed: Followed) -> None:
    host = plain_rig.hosts["spark-1"]
    shell(host, f"echo one >>{SERVE_LOG}")
    followed.has(4)
    shell(host, f"mv {SERVE_LOG} {SERVE_LOG}.1; echo two >{SERVE_LOG}")
    followed.has(8)
    shell(host, f": >{SERVE_LOG}; sleep 0.3; echo three >>{SERVE_LOG}")
    followed.has(14)
    host.crash()
    followed.says("lost: ")
    host.boot()
    shell(host, f"echo four >>{SERVE_LOG}")
    followed.has(19)
    assert followed.marks == (
        Mark(4, "rotated", 0, True),
        Mark(8, "truncated", 0, False),
        Mark(14, "restarted", 0, True),
    )
    assert followed.spool.read_text() == "one\ntwo\nthree\nfour\n"
    for mark in followed.marks:
        followed.says(mark.words())
    followed.says("read again after")
    followed.kill()
    shown = [line for line in followed.printed.read_text().splitlines() if not line.startswith("── ")]
    assert shown == ["one", "two", "three", "four"]
    assert followed.printed.read_text().count("── ") == 3


def test_a_log_removed_and_made_anew_while_the_cockpit_is_away(plain_rig: Rig, followed: Followed) -> None:
    host = plain_rig.hosts["spark-1"]
    shell(host, f"echo before >>{SERVE_LOG}")
    followed.has(7)
    followed.kill()
    shell(host, f"rm {SERVE_LOG}; sleep 0.1; echo something else >{SERVE_LOG}")
    followed.restart()
    followed.has(22)
    assert followed.marks == (Mark(7, "replaced", 0, False),)
    assert followed.spool.read_text() == "before\nsomething else\n"


def test_two_hosts_by_time(plain_rig: Rig, profile: Path, tmp_path: Path) -> None:
    """Without a host, the head's serve log and the other host's worker log are one, each line with its host."""
    cockpit = Cockpit(tmp_path)
    head, worker = plain_rig.hosts.values()
    at = "INFO 11-30 20:00:0{} [a.py:1]"
    shell(head, f"printf '{at.format(1)} one\\n{at.format(3)} three\\033[2J\\nunfinished' >>{SERVE_LOG}")
    alone = cockpit("logs", profile)
    assert (alone.status, alone.err) == (0, "")
    assert alone.out == f"{at.format(1)} one\n{at.format(3)} three␛[2J\nunfinished\n"
    shell(worker, f"mkdir -p {VENV}/bin {RAY}/session_1/logs; ln -s /usr/bin/python3 {VENV}/bin/python")
    shell(worker, f"ln -s session_1 {RAY}/session_latest")
    shell(worker, f"printf '{at.format(2)} two\\n{at.format(4)} four\\n' >{RAY}/session_1/logs/worker-a-1.out")
    both = cockpit("logs", profile)
    assert (both.status, both.err) == (0, "")
    assert both.out.splitlines() == [
        f"spark-1: {at.format(1)} one",
        f"spark-2: {at.format(2)} two",
        f"spark-1: {at.format(3)} three␛[2J",
        f"spark-2: {at.format(4)} four",
        "spark-1: unfinished",
    ]
    since = cockpit("logs", profile, "--since", "20:00:03")
    assert [line.split()[-1] for line in since.out.splitlines()] == ["three␛[2J", "four", "unfinished"]
    exact = cockpit("logs", profile, "--raw")
    assert exact.out == shell(head, f"cat {SERVE_LOG}")
    worker.link("down")
    lost = cockpit("logs", profile)
    assert lost.status == 3
    assert "spark-2" in lost.err and "its log is not shown" in lost.err
    assert lost.out.startswith(f"{at.format(1)} one")


@pytest.mark.full
def test_a_later_run_is_picked_up(plain_rig: Rig, followed: Followed) -> None:
    """Its serve log is printed too, each line with its host from then on."""
    host = plain_rig.hosts["spark-1"]
    shell(host, f"echo first run >>{SERVE_LOG}")
    followed.has(10)
    runs = SERVE_LOG.removesuffix(f"/{RUN}/serve.log")
    shell(host, f"cd {runs}; mkdir later; echo second run >later/serve.log; ln -sfn later current")
    followed.says("later/serve.log has begun")
    until(lambda: "second run" in followed.printed.read_text(), 30, "the later run is printed")
    shell(host, f"echo more of the first >>{SERVE_LOG}")
    until(lambda: "more of the first" in followed.printed.read_text(), 30, "the first run is still followed")
    lines = followed.printed.read_text().splitlines()
    assert lines == ["first run", "spark-1: second run", "spark-1: more of the first"]


def test_the_containers_log_survives_docker_rm(rig: Rig, tmp_path: Path) -> None:
    host, cockpit = rig.hosts["spark-1"], Cockpit(tmp_path)
    profile = rig_profile(rig, tmp_path)

    def write(text: str) -> str:
        container = host.exec(["docker", "ps", "-q", "--no-trunc"]).out.strip()
        host.exec(["docker", "exec", container, "sh", "-c", f"echo {text} >/proc/1/fd/1"])
        return container

    assert cockpit("up", profile, "--through", "containers", "--json").outcome == "ready"
    container = write("first life")
    followed = Followed(cockpit, profile, tmp_path, "container")
    try:
        until(lambda: "first life" in text_of(followed.spool), 60, "the first container's log")
        host.exec(["docker", "rm", "-f", container])
        followed.says("was removed")
        assert "first life" in text_of(followed.spool)
        assert cockpit("up", profile, "--through", "containers", "--json").outcome == "ready"
        write("second life")
        until(lambda: "second life" in text_of(followed.spool), 60, "the second container's log")
    finally:
        followed.kill()
    at = text_of(followed.spool).index("first life") + len("first life\n")
    assert followed.marks == (Mark(at, "remade", 0, False),)
    assert text_of(followed.spool).count("life") == 2
    followed.says(followed.marks[0].words())


def text_of(path: Path) -> str:
    """What a file holds; nothing where there is none yet."""
    return path.read_text() if path.exists() else ""
