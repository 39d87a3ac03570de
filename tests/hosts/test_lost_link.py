"""A link that goes: never a result, always an error of its own, and nothing of ours left on the host."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cockpit.hosts import quoting
from cockpit.hosts.errors import ConnectionLost, SessionRefused
from cockpit.hosts.factory import open_host
from cockpit.hosts.host import Host
from tests.hosts.sshd import Link, Sshd, command, eventually, link_to, running, serve, spec

SLEEP = "echo begun; sleep 600"
STUBBORN = "trap '' HUP TERM; echo begun; while :; do sleep 0.1; done"


@dataclass
class Far:
    """A host behind a link that can be cut."""

    host: Host
    link: Link
    server: Sshd


@pytest.fixture
async def far(sshd: Sshd) -> AsyncIterator[Far]:
    """A connected one."""
    async with link_to(sshd.port) as link:
        host = open_host(spec(), ssh_config=sshd.config(port=link.port))
        await host.connect()
        yield Far(host, link, sshd)
        await host.close()


@pytest.mark.parametrize("way", ["cut", "drop", "sshd"])
async def test_a_command_in_the_middle_never_has_a_result(far: Far, way: str) -> None:
    marker = uuid.uuid4().hex
    task = asyncio.ensure_future(far.host.run(command("sh", "-c", SLEEP, marker, limit=20), check=False))
    await eventually(lambda: running(marker))
    lose(far, way)
    with pytest.raises(ConnectionLost) as caught:
        await task
    for part in ("spark-1", "try something", "unknown", marker):
        assert part in str(caught.value)
    assert caught.value.command is not None
    assert not far.host.connected
    await eventually(lambda: not running(marker), 30)  # timeout(1) holds the limit over there


def lose(far: Far, way: str) -> None:
    if way == "cut":
        far.link.cut()
    elif way == "drop":
        far.link.drop()
    else:
        far.server.drop_connections()


async def test_after_the_loss_everything_says_so_until_connected_again(far: Far) -> None:
    far.link.drop()
    await eventually(lambda: not far.host.connected)
    for call in (far.host.run(command("true")), far.host.ping()):
        with pytest.raises(ConnectionLost):
            await call
    with pytest.raises(ConnectionLost):
        async with far.host.open(command("true")):
            raise AssertionError("there is no stream")
    with pytest.raises(ConnectionLost):
        async with far.host.forward(1):
            raise AssertionError("there is no port")
    await asyncio.gather(*(far.host.connect() for _ in range(3)))
    assert (await far.host.run(command("echo", "back"))).text == "back\n"


@pytest.mark.parametrize("way", ["cut", "drop", "sshd"])
async def test_a_stream_raises_after_its_last_bytes(far: Far, way: str) -> None:
    async with far.host.open(command("sh", "-c", SLEEP)) as stream:
        assert await stream.read() == b"begun\n"
        lose(far, way)
        with pytest.raises(ConnectionLost):
            await stream.read()
        with pytest.raises(ConnectionLost):
            await stream.wait()


async def test_a_command_begun_in_the_dead_time_is_lost_too(far: Far) -> None:
    far.link.cut()
    with pytest.raises(ConnectionLost):
        await far.host.run(command("true"))


@pytest.mark.parametrize("behaviour", [SLEEP, STUBBORN])
async def test_a_stream_ends_on_the_host_when_its_connection_does(far: Far, behaviour: str) -> None:
    marker = uuid.uuid4().hex
    async with far.host.open(command("sh", "-c", behaviour, marker)) as stream:
        assert await stream.read() == b"begun\n"
        far.server.drop_connections()
        with pytest.raises(ConnectionLost):
            await stream.read()
    await eventually(lambda: not running(marker))


async def test_a_stream_whose_connection_ended_before_it_began_does_not_begin(tmp_path: Path) -> None:
    began, over = tmp_path / "began", tmp_path / "over"
    late = ["sh", "-c", 'while test ! -e "$0"; do sleep 0.02; done; exec "$@"', str(tmp_path / "go")]
    argv = [*late, *quoting.stream_argv(["touch", str(began)])]
    orphan = ["sh", "-c", '("$@"; touch "$0") </dev/null >/dev/null 2>&1 &', str(over), *argv]
    process = await asyncio.create_subprocess_exec(*orphan, start_new_session=True)
    await process.wait()
    (tmp_path / "go").touch()
    await eventually(over.exists)
    assert began.exists()  # its parent is a shell, not the process that orphans go to
    began.unlink()
    over.unlink()
    argv = [*late, *quoting.stream_argv(["touch", str(began)])]
    (tmp_path / "go").unlink()
    orphan = ["sh", "-c", '"$@" </dev/null >/dev/null 2>"$0" &', str(over), *argv]
    process = await asyncio.create_subprocess_exec(*orphan, start_new_session=True)
    await process.wait()
    (tmp_path / "go").touch()
    await eventually(lambda: not running(str(tmp_path)))
    assert not began.exists()


async def test_a_stream_ends_on_the_host_once_the_cut_link_is_mended(far: Far) -> None:
    """While the link is cut sshd knows nothing of it and the process goes on; TCP's reset ends both."""
    marker = uuid.uuid4().hex
    async with far.host.open(command("sh", "-c", STUBBORN, marker)) as stream:
        assert await stream.read() == b"begun\n"
        far.link.cut()
        with pytest.raises(ConnectionLost):
            await stream.read()
        assert running(marker)
    far.link.mend()
    await eventually(lambda: not running(marker))


async def test_a_commands_limit_holds_on_a_host_that_was_lost(far: Far) -> None:
    marker = uuid.uuid4().hex
    task = asyncio.ensure_future(far.host.run(command("sh", "-c", STUBBORN, marker, limit=2)))
    await eventually(lambda: running(marker))
    far.link.drop()
    with pytest.raises(ConnectionLost):
        await task
    await eventually(lambda: not running(marker))


async def test_closing_leaves_what_runs_detached(far: Far) -> None:
    marker = uuid.uuid4().hex
    await far.host.run(
        command("sh", "-c", f"setsid sleep 600.{int(marker[:6], 16)} >/dev/null 2>&1 </dev/null &")
    )
    name = f"600.{int(marker[:6], 16)}"
    await far.host.close()
    assert running(name)
    await far.host.connect()
    await far.host.run(command("pkill", "-f", f"^sleep {name}$"))


async def test_a_host_that_opens_no_session_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serve(tmp_path_factory.mktemp("few"), "MaxSessions 1") as server:
        host = open_host(spec(), ssh_config=server.config())
        await host.connect()
        marker = uuid.uuid4().hex
        async with host.open(command("sh", "-c", SLEEP, marker)):
            with pytest.raises(SessionRefused) as caught:
                await host.run(command("true"))
            assert "MaxSessions" in caught.value.remedy
            assert host.connected
        await host.close()
        await eventually(lambda: not running(marker))


async def test_a_forward_to_nobody_ends_at_once(ssh_host: Host) -> None:
    async with ssh_host.forward(1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()
    assert ssh_host.connected
