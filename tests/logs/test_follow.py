"""Following a growing file, on this machine and through a real sshd, whatever happens to file and link."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from cockpit.hosts.factory import open_host
from cockpit.hosts.host import Host
from cockpit.logs.follow import CaughtUp, Follower, FollowEvent, Gap, Grown, Lost, Resumed, Waiting
from cockpit.logs.spool import Spool
from cockpit.model.command import Command, script
from tests.hosts.sshd import Sshd, eventually, link_to, running, serve, spec


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(params=["ssh", "local"])
async def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    if request.param == "ssh":
        made = open_host(spec(), ssh_config=request.getfixturevalue("sshd").config())
    else:
        made = open_host(spec("local"))
    yield made
    await made.close()


def build(text: str, why: str) -> Command:
    return script("spark-1", text, why)


class Watch:
    """A follower at work, and what it tells."""

    def __init__(self, host: Host, log: Path, spool_file: Path, lease: int = 900) -> None:
        self.spool = Spool(spool_file)
        self.events: list[FollowEvent] = []
        self.follower = Follower("serve", host, build, str(log), self.spool, self.events.append, lease=lease)

    def kinds(self, *kinds: type) -> list[FollowEvent]:
        return [event for event in self.events if isinstance(event, kinds)]

    async def has(self, size: int, seconds: float = 30.0) -> None:
        await eventually(lambda: self.spool.size >= size, seconds)


@asynccontextmanager
async def following(host: Host, log: Path, spool_file: Path, lease: int = 900) -> AsyncIterator[Watch]:
    watch = Watch(host, log, spool_file, lease)
    task = asyncio.ensure_future(watch.follower.run())
    try:
        yield watch
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        watch.spool.close()


def gaps(watch: Watch) -> list[tuple[int, str, bool]]:
    return [(mark.at, mark.kind, mark.exact) for mark in watch.spool.marks]


async def test_arbitrary_bytes_arrive_as_they_are(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    content = os.urandom(3_000_000)
    log.write_bytes(content)
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(len(content))
        with log.open("ab") as file:
            file.write(b"no newline at the end")
        await watch.has(len(content) + 21)
        await eventually(lambda: watch.events[-1] == CaughtUp("serve", len(content) + 21))
        assert watch.kinds(Grown)[-1] == Grown("serve", len(content) + 21)
        assert len(watch.kinds(Resumed)) == 1
    assert (tmp_path / "spool").read_bytes() == log.read_bytes()
    assert watch.spool.marks == ()
    await eventually(lambda: not running(str(log)))


async def test_a_file_that_appears_later(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "later" / "serve.log"
    async with following(host, log, tmp_path / "spool") as watch:
        await eventually(lambda: watch.kinds(Waiting))
        log.parent.mkdir()
        log.write_bytes(b"here\n")
        await watch.has(5)
    assert watch.kinds(Lost) == []


async def test_resumes_where_it_stopped(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    for part in (b"one\n" * 5000, b"two\n" * 5000, b"three\n"):
        with log.open("ab") as file:
            file.write(part)
        async with following(host, log, tmp_path / "spool") as watch:
            await watch.has(log.stat().st_size)
    assert (tmp_path / "spool").read_bytes() == log.read_bytes()
    assert watch.spool.marks == ()


async def test_truncation_is_marked(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(b"before\n" * 100)
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(700)
        os.truncate(log, 0)
        with log.open("ab") as file:
            file.write(b"after\n")
        await watch.has(706)
        assert gaps(watch) == [(700, "truncated", False)]
        assert len(watch.kinds(Gap)) == 1
    assert (tmp_path / "spool").read_bytes() == b"before\n" * 100 + b"after\n"


async def test_truncated_and_grown_past_the_offset_while_away(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(b"before\n" * 100)
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(700)
    with log.open("r+b") as file:
        file.truncate(0)
        file.write(b"other!\n" * 200)
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(2100)
        assert gaps(watch) == [(700, "replaced", False)]
    assert (tmp_path / "spool").read_bytes() == b"before\n" * 100 + b"other!\n" * 200


async def test_rotation_loses_nothing(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(b"old 1\n")
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(6)
        writer = log.open("ab")
        log.rename(tmp_path / "serve.log.1")
        writer.write(b"old 2\n")
        writer.flush()
        log.write_bytes(b"new 1\n")
        await watch.has(18)
        writer.close()
        assert gaps(watch) == [(12, "rotated", True)]
    assert (tmp_path / "spool").read_bytes() == b"old 1\nold 2\nnew 1\n"


async def test_rotated_twice_while_away(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(b"first file, ")
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(12)
    with log.open("ab") as file:
        file.write(b"its rest\n")
    os.utime(log, (1000, 1000))
    log.rename(tmp_path / "serve.log.2")
    log.write_bytes(b"second file\n")
    os.utime(log, (2000, 2000))
    log.rename(tmp_path / "serve.log.1")
    log.write_bytes(b"third file\n")
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(44)
        assert gaps(watch) == [(21, "rotated", True), (33, "rotated", True)]
    assert (tmp_path / "spool").read_bytes() == b"first file, its rest\nsecond file\nthird file\n"


async def test_replaced_while_away(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(b"one\n")
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(4)
    (tmp_path / "new").write_bytes(b"another file altogether\n")
    (tmp_path / "new").replace(log)
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(28)
        assert gaps(watch) == [(4, "replaced", False)]


async def test_removed_and_made_again(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(b"one\n")
    async with following(host, log, tmp_path / "spool") as watch:
        await watch.has(4)
        log.unlink()
        await eventually(lambda: watch.kinds(Waiting))
        log.write_bytes(b"two\n")
        await watch.has(8)
        assert gaps(watch) == [(4, "rotated", True)]
    assert (tmp_path / "spool").read_bytes() == b"one\ntwo\n"


async def test_a_file_that_may_not_be_read(host: Host, tmp_path: Path) -> None:
    (tmp_path / "serve.log").mkdir()
    async with following(host, tmp_path / "serve.log", tmp_path / "spool") as watch:
        await eventually(lambda: watch.kinds(Lost))
        lost = watch.kinds(Lost)[0]
        assert isinstance(lost, Lost)
        assert "serve.log: Is a directory" in lost.why


async def test_a_follower_ends_with_its_lease_and_is_started_anew(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(b"")
    async with following(host, log, tmp_path / "spool", lease=1) as watch:
        await eventually(lambda: running(str(log)))
        first = set(running(str(log)))
        await eventually(lambda: first.isdisjoint(running(str(log))) and running(str(log)))
        log.write_bytes(b"still there\n")
        await watch.has(12)
        assert watch.kinds(Lost) == []


async def test_a_link_cut_again_and_again_while_the_log_is_written(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    log = tmp_path / "serve.log"
    log.touch()
    size = 60_000_000
    async with link_to(sshd.port) as link:
        host = open_host(spec(), ssh_config=sshd.config(port=link.port))
        writer = await asyncio.create_subprocess_exec("sh", "-c", f"seq 1 100000000 | head -c {size} >> {log}")
        for part in range(1, 6):
            async with following(host, log, tmp_path / "spool") as watch:
                await watch.has(part * size // 8)
                link.drop()
                await eventually(lambda: watch.kinds(Lost))
                await watch.has(part * size // 8 + 1_000_000)
        async with following(host, log, tmp_path / "spool") as watch:
            assert await writer.wait() == 0
            await watch.has(size)
            assert watch.spool.marks == ()
        await host.close()
    with log.open("rb") as ours, (tmp_path / "spool").open("rb") as theirs:
        assert sha256(ours.read()).digest() == sha256(theirs.read()).digest()


async def test_a_silent_link_is_noticed_and_resumed(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    log = tmp_path / "serve.log"
    log.write_bytes(b"one\n")
    async with link_to(sshd.port) as link:
        host = open_host(spec(), ssh_config=sshd.config(port=link.port))
        async with following(host, log, tmp_path / "spool") as watch:
            await watch.has(4)
            link.cut()
            with log.open("ab") as file:
                file.write(b"two\n")
            await eventually(lambda: watch.kinds(Lost), 30)
            link.mend()
            await watch.has(8, 60)
            assert len(watch.kinds(Resumed)) == 2
        await host.close()
    assert (tmp_path / "spool").read_bytes() == b"one\ntwo\n"
