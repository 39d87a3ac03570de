"""What ``hosts.host.Host`` promises, held by SSH and on this machine alike."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cockpit.hosts.errors import CommandFailed, ConnectionLost, NotConnected, TimedOut
from cockpit.hosts.factory import open_host
from cockpit.hosts.host import Host, Stream
from cockpit.model.command import SecretMissingError, script
from tests.hosts.sshd import command, eventually, running, spec

STUBBORN = "trap '' HUP TERM; echo started; while :; do sleep 0.1; done"
WORDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    min_size=1,
    max_size=6,
)


async def test_status_outputs_and_time(host: Host) -> None:
    done = await host.run(script("spark-1", "echo out; echo err >&2; exit 3", "try"), check=False)
    assert (done.status, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert done.seconds > 0


async def test_a_failed_command_says_host_command_status_and_output(host: Host) -> None:
    with pytest.raises(CommandFailed) as caught:
        await host.run(script("spark-1", "echo some cause >&2; exit 7", "start Ray"))
    assert caught.value.completed.status == 7
    for part in ("spark-1", "start Ray", "sh -s", "status 7", "some cause"):
        assert part in str(caught.value)


async def test_ended_by_a_signal_is_128_and_its_number(host: Host) -> None:
    done = await host.run(command("sh", "-c", "kill -9 $$"), check=False)
    assert done.status == 137


async def test_a_command_of_its_own_status_124_is_no_timeout(host: Host) -> None:
    assert (await host.run(command("sh", "-c", "exit 124"), check=False)).status == 124


async def test_a_missing_program_is_told(host: Host) -> None:
    with pytest.raises(CommandFailed) as caught:
        await host.run(command("no-such-program"))
    assert caught.value.completed.status == 127
    assert "no-such-program" in str(caught.value)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=WORDS)
def test_any_words_arrive_as_they_are(quoted: Quoter, words: list[str]) -> None:
    got = quoted(words)
    assert got == "".join(f"{word}\0" for word in words).encode()


class Quoter:
    """Runs words through a host from hypothesis' synchronous tests."""

    def __init__(self, loop: asyncio.AbstractEventLoop, made: Host) -> None:
        self._loop, self._host = loop, made

    def __call__(self, words: list[str]) -> bytes:
        return self._loop.run_until_complete(self._host.run(command("printf", "%s\\0", *words))).stdout


@pytest.fixture(params=["ssh", "local"])
def quoted(request: pytest.FixtureRequest) -> object:
    """A ``Quoter`` of each kind of host."""
    config = request.getfixturevalue("sshd").config() if request.param == "ssh" else ""
    loop = asyncio.new_event_loop()
    made = open_host(spec("local" if request.param == "local" else "spark-1"), ssh_config=config)
    loop.run_until_complete(made.connect())
    yield Quoter(loop, made)
    loop.run_until_complete(made.close())
    loop.close()


async def test_standard_input_arrives_and_ends(host: Host) -> None:
    text = "line\n" * 100_000
    done = await host.run(command("sha256sum", stdin=text))
    assert done.text.split()[0] == hashlib.sha256(text.encode()).hexdigest()


async def test_a_command_that_reads_no_input_is_not_held_up(host: Host) -> None:
    assert (await host.run(command("true", stdin="x" * 5_000_000))).status == 0


async def test_50_mb_of_bytes_arrive_intact(host: Host) -> None:
    make = "import hashlib,sys; b=bytes(range(256))*4096; h=hashlib.sha256()\n"
    make += "for i in range(50): h.update(b); sys.stdout.buffer.write(b)\nprint(h.hexdigest(), file=sys.stderr)"
    done = await host.run(command("python3", "-c", make, limit=120))
    assert len(done.stdout) == 50 * 256 * 4096
    assert hashlib.sha256(done.stdout).hexdigest() == done.error_text.strip()


async def test_past_its_limit_a_command_is_ended_on_the_host(host: Host) -> None:
    marker = uuid.uuid4().hex
    with pytest.raises(TimedOut) as caught:
        await host.run(command("sh", "-c", "echo so far; sleep 600", marker, limit=1))
    assert caught.value.limit == 1
    assert "so far" in str(caught.value)
    await eventually(lambda: not running(marker))


async def test_a_command_deaf_to_sigterm_is_ended_too(host: Host) -> None:
    marker = uuid.uuid4().hex
    with pytest.raises(TimedOut):
        await host.run(command("sh", "-c", STUBBORN, marker, limit=1))
    await eventually(lambda: not running(marker))


async def test_a_cancelled_command_is_ended_on_the_host(host: Host) -> None:
    marker = uuid.uuid4().hex
    task = asyncio.ensure_future(host.run(command("sh", "-c", STUBBORN, marker, limit=600)))
    await eventually(lambda: running(marker))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not running(marker))


async def test_what_a_command_leaves_behind_does_not_hold_it_up(host: Host) -> None:
    marker = uuid.uuid4().hex
    try:
        done = await host.run(
            script("spark-1", f"setsid sh -c 'sleep 600; : {marker}' & echo done", "try", limit=60)
        )
        assert done.stdout == b"done\n"
        assert running(marker)
    finally:
        for pid in running(marker):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


async def test_thirty_commands_at_once(host: Host) -> None:
    done = await asyncio.gather(*(host.run(command("sh", "-c", f"sleep 0.1; echo {n}")) for n in range(30)))
    assert [int(one.text) for one in done] == list(range(30))


async def test_commands_run_beside_open_streams(host: Host) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(host.open(command("sleep", "600")))
        done = await asyncio.gather(*(host.run(command("echo", str(n))) for n in range(12)))
    assert [int(one.text) for one in done] == list(range(12))


async def test_secrets_are_put_in_on_the_way(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    asked = script("spark-1", "echo '${HF_TOKEN}'", "fetch a model", secrets=("HF_TOKEN",))
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    assert (await host.run(asked)).text == "hf_very_secret\n"
    monkeypatch.setenv("HF_TOKEN", os.fsdecode(b"hf_\xff"))
    assert (await host.run(asked)).stdout == b"hf_\xff\n"
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(SecretMissingError):
        await host.run(asked)


async def read_all(stream: Stream) -> bytes:
    output = b""
    while data := await stream.read():
        output += data
    return output


async def test_a_stream_is_read_written_and_ends_with_its_status(host: Host) -> None:
    async with host.open(command("sh", "-c", "read line; echo got $line; echo oops >&2; exit 5")) as stream:
        await stream.write(b"hello\n")
        assert await stream.read() == b"got hello\n"
        assert await stream.wait() == 5
        await eventually(lambda: stream.error_text == "oops\n")


async def test_a_stream_that_was_given_a_script_sees_its_input_end(host: Host) -> None:
    async with host.open(command("python3", "-", stdin="print(6 * 7)")) as stream:
        assert await read_all(stream) == b"42\n"
        assert await stream.wait() == 0


@pytest.mark.parametrize("behaviour", [STUBBORN, f"({STUBBORN}) & {STUBBORN}", "echo started; exec sleep 600"])
async def test_a_left_stream_is_gone_from_the_host(host: Host, behaviour: str) -> None:
    marker = uuid.uuid4().hex
    async with host.open(command("sh", "-c", behaviour, marker)) as stream:
        assert (await stream.read()).startswith(b"started")
    await eventually(lambda: not running(marker))


async def test_a_left_stream_that_nobody_read_is_gone_too(host: Host) -> None:
    marker = uuid.uuid4().hex
    async with host.open(command("sh", "-c", "exec yes $0", marker)):
        await eventually(lambda: running(marker))
    await eventually(lambda: not running(marker))


async def test_a_forwarded_port_reaches_the_hosts_own(host: Host) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"answer to " + await reader.readline())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, host.forward(server.sockets[0].getsockname()[1]) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"question\n")
        assert await reader.read() == b"answer to question\n"
        writer.close()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_ping_is_a_time(host: Host) -> None:
    assert 0 < await host.ping() <= 5


async def test_connect_again_is_nothing(host: Host) -> None:
    await asyncio.gather(*(host.connect() for _ in range(5)))
    assert host.connected
    assert (await host.run(command("echo", "here"))).text == "here\n"


async def test_without_a_connection_nothing_is_run(host: Host, tmp_path: Path) -> None:
    await host.close()
    assert not host.connected
    with pytest.raises(ConnectionLost) as caught:
        await host.run(command("touch", str(tmp_path / "made")))
    assert isinstance(caught.value, NotConnected)
    assert "Nothing was run to " in str(caught.value)
    assert "unknown" not in str(caught.value)
    assert "spark-1" in str(caught.value)
    assert not (tmp_path / "made").exists()
    await host.connect()
    await host.run(command("touch", str(tmp_path / "made")))
    assert (tmp_path / "made").exists()
