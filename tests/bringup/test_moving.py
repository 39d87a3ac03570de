"""Bytes from folder to folder by two real ends on this machine, with real rsync: begun, broken off, gone on with."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.bringup.errors import StepError, StepFailed
from cockpit.bringup.preparation import pipe, rsync
from cockpit.bringup.preparation.moving import ONE_TIME, Move, knock_command, move
from cockpit.bringup.preparation.task import Kind, Task, TaskEvent, TaskProgress
from cockpit.bringup.session import Session
from cockpit.hosts.local import LocalHost
from cockpit.model.profile import Fabric, HostSpec, NativeRuntime, Profile, Role, ServeSpec
from cockpit.runtime.environment import environment
from tests.bringup.test_preparation import free_port
from tests.rig.needs import strict

pytestmark = pytest.mark.skipif(shutil.which("rsync") is None and not strict(), reason="there is no rsync here")

ONE = HostSpec("one", "local", Role.HEAD, Fabric("127.0.0.1"))
TWO = HostSpec("two", "local", Role.WORKER, Fabric("127.0.0.1"))
COPY = Task(Kind.MODEL, "two", "copy", ())


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    """Two names of this machine."""
    given: dict[str, str] = {}
    profile = Profile("here", (ONE, TWO), NativeRuntime("/opt/none"), ServeSpec("/m"))
    hosts = {spec.name: LocalHost(spec, secrets=lambda: given) for spec in (ONE, TWO)}
    for host in hosts.values():
        await host.connect()
    yield Session(profile, hosts, environment(profile), secrets=given)
    for host in hosts.values():
        await host.close()


def by_rsync(source: Path, target: Path, total: int) -> Move:
    """As the model's copy has it."""
    port = free_port()
    offer = rsync.offer_command(ONE, TWO, str(source), port)
    take = rsync.take_command(TWO, ONE, str(target), port)
    return Move(offer, take, knock_command(TWO, ONE, port), rsync.parse, total)


def daemons(source: Path) -> str:
    """What still runs of an offer."""
    return "".join(line for line in subprocess.check_output(["ps", "-eo", "args"], text=True).splitlines()
                   if "--daemon" in line and str(source) in line)  # fmt: skip


async def test_a_folder_is_brought_over_and_nothing_stays_behind(session: Session, tmp_path: Path) -> None:
    source, target = tmp_path / "from here", tmp_path / "to" / "there"
    (source / "blobs").mkdir(parents=True)
    (source / "blobs/a").write_bytes(os.urandom(3_000_000))
    (source / "link").symlink_to("blobs/a")
    (source / "half.incomplete").write_bytes(b"x")
    told: list[TaskEvent] = []
    await move(session, COPY, by_rsync(source, target, 3_000_000), told.append)
    assert (target / "link").read_bytes() == (source / "blobs/a").read_bytes()
    assert (target / "link").is_symlink() and not (target / "half.incomplete").exists()
    done = [event.done for event in told if isinstance(event, TaskProgress)]
    assert done == sorted(done) and done[-1] >= 3_000_000
    assert ONE_TIME not in session.secrets, "the secret was for this copy alone"
    assert not daemons(source)


async def test_a_copy_that_is_cancelled_ends_both_ends_and_is_gone_on_with(
    session: Session, tmp_path: Path
) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    (source / "large").write_bytes(os.urandom(1 << 20) * 300)
    how = by_rsync(source, target, 300 << 20)
    copying = asyncio.create_task(move(session, COPY, how, lambda _event: None))
    end = time.monotonic() + 30
    while not target.exists() or not sum(path.stat().st_size for path in target.iterdir()):
        assert time.monotonic() < end and not copying.done()
        await asyncio.sleep(0.02)
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    while subprocess.run(["pgrep", "-f", f"rsync.*{target}"], capture_output=True).stdout:
        assert time.monotonic() < end
        await asyncio.sleep(0.1)
    await move(session, COPY, by_rsync(source, target, 300 << 20), lambda _event: None)
    assert (target / "large").read_bytes() == (source / "large").read_bytes()


async def test_what_can_not_be_written_is_told_at_once(session: Session, tmp_path: Path) -> None:
    source = tmp_path / "from"
    source.mkdir()
    (source / "a").write_bytes(b"a")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StepError) as caught:
        await move(session, COPY, by_rsync(source, tmp_path / "file" / "to", 1), lambda _event: None)
    assert caught.value.host == "two" and caught.value.line


async def test_the_line_that_says_why_is_shown(session: Session, tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    for folder in (source, target):
        folder.mkdir()
    (source / "a").write_bytes(b"a" * 100_000)
    (target / "a").mkdir()
    (target / "a" / "in the way").write_bytes(b"")
    with pytest.raises(StepFailed) as caught:
        await move(session, COPY, by_rsync(source, target, 1), lambda _event: None)
    assert caught.value.line.startswith(("rsync: ", "could not make way", "cannot delete"))
    assert "a" in caught.value.line and "exit status 23" in caught.value.message
    assert caught.value.remedy


async def test_an_end_that_does_not_come_up_is_told(session: Session, tmp_path: Path) -> None:
    with pytest.raises(StepFailed) as caught:
        await move(session, COPY, by_rsync(tmp_path / "a", tmp_path / "b", 1), lambda _e: None, patience=0)
    assert caught.value.message


async def test_nobody_at_the_other_end_is_tried_again_and_given_up(session: Session, tmp_path: Path) -> None:
    port = free_port()
    give = pipe.give_command(ONE, TWO, port, ("cat", "/dev/null"), "offer")
    take = pipe.take_command(TWO, ONE, free_port(), ("cat",), "take")
    how = Move(give, take, knock_command(TWO, ONE, port), pipe.parse, None, again=False)
    with pytest.raises(StepFailed) as caught:
        await move(session, COPY, how, lambda _event: None)
    assert "ConnectionRefusedError" in caught.value.line
