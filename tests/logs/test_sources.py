"""What a host's logs are: the texts run for real, their answers parsed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from cockpit.hosts.factory import open_host
from cockpit.logs.follow import FollowEvent, Gap, JournalFollower
from cockpit.logs.sources import (
    KERNEL_TEXT,
    SERVE_TEXT,
    Kind,
    Reach,
    Source,
    container_source,
    parse_sources,
    ray_text,
)
from cockpit.logs.spool import Spool
from cockpit.model.command import Command, script
from tests.hosts.sshd import eventually, spec


def run(text: str, **env: str) -> bytes:
    return subprocess.run(
        ["sh", "-s"], input=text.encode(), env=os.environ | env, capture_output=True, check=True, timeout=30
    ).stdout


def test_serve_logs_of_all_runs(tmp_path: Path) -> None:
    for name in ("20261130-1", "20261130-2", "odd\nname"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "serve.log").write_bytes(b"x" * 7)
    (tmp_path / "runs" / "20261130-1" / "other.txt").touch()
    (tmp_path / "runs" / "current").symlink_to("20261130-2")
    os.utime(tmp_path / "runs" / "20261130-1" / "serve.log", (10, 10))
    os.utime(tmp_path / "runs" / "odd\nname" / "serve.log", (20, 20))
    found = parse_sources("spark-1", run(SERVE_TEXT, STATE=str(tmp_path)))
    assert [(source.run, source.current, source.size) for source in found] == [
        ("20261130-2", True, 7),
        ("odd\nname", False, 7),
        ("20261130-1", False, 7),
    ]
    assert found[2] == Source(
        "spark-1",
        "serve",
        Kind.SERVE,
        Reach.HOST,
        str(tmp_path / "runs" / "20261130-1" / "serve.log"),
        "20261130-1",
        False,
        7,
        10.0,
    )


def test_no_runs_yet(tmp_path: Path) -> None:
    assert parse_sources("spark-1", run(SERVE_TEXT, STATE=str(tmp_path))) == ()


def test_rays_logs_of_the_present_session(tmp_path: Path) -> None:
    logs = tmp_path / "session_1" / "logs"
    logs.mkdir(parents=True)
    (tmp_path / "session_latest").symlink_to("session_1")
    for name in (
        "worker-ab-01000000-7.out",
        "worker-ab-01000000-7.err",
        "raylet.out",
        "gcs_server.err",
        "dashboard.log",
    ):
        (logs / name).touch()
    found = parse_sources("spark-2", run(ray_text(str(tmp_path))))
    assert {source.name for source in found} == {
        "worker-ab-01000000-7.out",
        "worker-ab-01000000-7.err",
        "raylet.out",
        "gcs_server.err",
    }
    assert all(source.reach is Reach.ENVIRONMENT and source.kind is Kind.RAY for source in found)
    assert parse_sources("spark-2", run(ray_text(str(tmp_path / "none")))) == ()


def test_the_kernels_log_is_asked_for(tmp_path: Path) -> None:
    (found,) = parse_sources("spark-1", run(KERNEL_TEXT))
    assert found.kind is Kind.KERNEL
    assert found.path in ("journal", "kmsg")


def test_what_to_grant() -> None:
    (found,) = parse_sources("spark-1", b"kernel\tdenied-journal\tada\0")
    assert found.grant == "sudo usermod -aG systemd-journal ada   (then log in anew)"
    assert found.path == "journal"
    (found,) = parse_sources("spark-1", b"kernel\tdenied-kmsg\t\0")
    assert found.grant == "sudo sysctl kernel.dmesg_restrict=0"


def test_noise_is_no_source() -> None:
    assert parse_sources("spark-1", b"Welcome!\n\0serve\tx\ty\tz\0ray\t\0") == ()
    assert container_source("spark-1", "abc").kind is Kind.CONTAINER


@asynccontextmanager
async def following(spool: Spool, events: list[FollowEvent]) -> AsyncIterator[None]:
    host = open_host(spec("local"))

    def build(text: str, why: str) -> Command:
        return script("spark-1", text, why)

    task = asyncio.ensure_future(JournalFollower("kernel", host, build, "kmsg", "", spool, events.append).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await host.close()
        spool.close()


def holds(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()


def say(text: str) -> None:
    with open("/dev/kmsg", "w", encoding="ascii") as kernel:  # noqa: PTH123 - a device, not a file
        kernel.write(f"<14>{text}\n")


@pytest.mark.skipif(not os.access("/dev/kmsg", os.W_OK), reason="needs to write to the kernel's log")
async def test_the_kernels_log_is_followed_at_its_cursor(tmp_path: Path) -> None:
    path = tmp_path / "kernel.log"
    mine = f"spark-cockpit test {uuid4().hex}"
    events: list[FollowEvent] = []
    for part in range(3):
        text = f"{mine} {part}"
        async with following(Spool(path), events):
            say(text)
            await eventually(partial(holds, path, text))
    with path.open("ab") as file:
        file.write(b"a crash left this, past the cursor\n")
    async with following(Spool(path), events):
        say(f"{mine} last")
        await eventually(partial(holds, path, f"{mine} last"))
    lines = [line for line in path.read_text().splitlines() if mine in line]
    assert [line.rpartition(" ")[2] for line in lines] == ["0", "1", "2", "last"]
    assert "a crash left this" not in path.read_text()
    assert [event for event in events if isinstance(event, Gap)] == []


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="needs to read the kernel's log")
async def test_another_boot_is_a_gap(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "kernel.log")
    spool.append(b"from the boot before\n")
    spool.set_cursor("00000000-0000-0000-0000-000000000000:5")
    events: list[FollowEvent] = []
    async with following(spool, events):
        await eventually(lambda: spool.size > 21)
    assert [(mark.at, mark.kind) for mark in spool.marks] == [(21, "gone")]
    assert (tmp_path / "kernel.log").read_bytes().startswith(b"from the boot before\n")
