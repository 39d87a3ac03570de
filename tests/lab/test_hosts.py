"""The lab's SSH servers, met by the OpenSSH client and by asyncssh, behave as sshd does."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from cockpit.lab.lab import LabInfo
from tests.lab.ssh import ssh, ssh_argv

pytestmark = pytest.mark.lab


@pytest.fixture
async def connection(lab_info: LabInfo) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """A connection to the first host by asyncssh, with the lab's ssh_config."""
    async with asyncssh.connect("spark-1", config=[str(lab_info.ssh_config)]) as connected:
        yield connected


def home(info: LabInfo, name: str) -> Path:
    assert info.ssh_config
    return info.ssh_config.parent / "hosts" / name / "home"


async def gone(pid: int) -> None:
    """Wait until the process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(30):
            await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


def test_status_and_both_outputs(lab_info: LabInfo) -> None:
    done = ssh(lab_info, "spark-2", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_bytes_come_through_both_ways(lab_info: LabInfo) -> None:
    data = os.urandom(3_000_001)
    assert ssh(lab_info, "spark-1", "cat", stdin=data).stdout == data


def test_a_command_that_does_not_read_its_input_ends(lab_info: LabInfo) -> None:
    done = ssh(lab_info, "spark-1", "exec 0<&-; echo done", stdin=os.urandom(2_000_000))
    assert (done.returncode, done.stdout) == (0, b"done\n")


def test_each_host_has_its_own_home_and_environment(lab_info: LabInfo) -> None:
    for name in ("spark-1", "spark-2"):
        lines = ssh(lab_info, name, 'echo "$HOME"; pwd; echo "$XDG_STATE_HOME"; command -v nvidia-smi').stdout
        place = str(home(lab_info, name))
        expected = [place, place, f"{place}/.local/state", f"{place}/bin/nvidia-smi"]
        assert lines.decode().splitlines() == expected


def test_the_cockpits_own_environment_is_not_there(
    lab_info: LabInfo,
) -> None:
    names = {line.split("=")[0] for line in ssh(lab_info, "spark-1", "env").stdout.decode().splitlines()}
    assert not {"SPARK_COCKPIT_LAB", "XDG_DATA_HOME", "PYTHONPATH", "PYTEST_CURRENT_TEST"} & names


def test_another_host_key_is_refused(lab_info: LabInfo, tmp_path: Path) -> None:
    assert lab_info.ssh_config
    lines = lab_info.ssh_config.with_name("known_hosts").read_text().splitlines()
    (first, _, _), (_, _, key) = (line.split() for line in lines)
    swapped = tmp_path / "known_hosts"
    swapped.write_text(f"{first} ssh-ed25519 {key}\n")
    argv = list(ssh_argv(lab_info, "spark-1", "true"))
    argv[1:1] = ["-o", f"UserKnownHostsFile={swapped}"]
    done = subprocess.run(argv, capture_output=True, timeout=30)
    assert done.returncode == 255
    assert b"Host key verification failed" in done.stderr


def test_another_user_or_no_key_is_refused(lab_info: LabInfo) -> None:
    for option in ("User=somebody", "IdentityFile=/dev/null"):
        config = ["-F", "none"] if option.startswith("Identity") else []
        argv = list(ssh_argv(lab_info, "spark-1", "true"))
        argv[1:1] = ["-o", option]
        if config:
            host = lab_info.hosts[0]
            argv = ["ssh", *config, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"]
            argv += [
                "-o",
                "UserKnownHostsFile=/dev/null",
                "-o",
                option,
                "-p",
                str(host.port),
                host.address,
                "true",
            ]
        done = subprocess.run(argv, capture_output=True, timeout=30)
        assert done.returncode == 255
        assert b"Permission denied" in done.stderr


async def test_a_signal_reaches_the_whole_group(connection: asyncssh.SSHClientConnection) -> None:
    async with connection.create_process("sleep 1000 & echo $!; sleep 1000") as process:
        background = int(await process.stdout.readline())
        process.send_signal("TERM")
        done = await process.wait()
        assert done.exit_signal and done.exit_signal[0] == "TERM"
    await gone(background)


async def test_a_closed_channel_leaves_a_command_without_terminal_running(
    connection: asyncssh.SSHClientConnection,
) -> None:
    process = await connection.create_process("echo $$; exec sleep 1000")
    pid = int(await process.stdout.readline())
    process.close()
    await process.wait_closed()
    await connection.run("true", check=True)
    assert (await connection.run(f"cat /proc/{pid}/comm", check=True)).stdout == "sleep\n"
    await connection.run(f"kill {pid}", check=True)
    await gone(pid)


async def test_a_closed_channel_ends_a_command_that_writes(connection: asyncssh.SSHClientConnection) -> None:
    process = await connection.create_process("echo $$; exec yes")
    pid = int(await process.stdout.readline())
    process.close()
    await gone(pid)


async def test_a_closed_terminal_hangs_up(connection: asyncssh.SSHClientConnection) -> None:
    process = await connection.create_process("echo $$; exec sleep 1000", term_type="xterm")
    pid = int(await process.stdout.readline())
    process.close()
    await gone(pid)


async def test_a_terminal_has_its_size_and_its_end(connection: asyncssh.SSHClientConnection) -> None:
    shell = await connection.create_process(term_type="xterm", term_size=(132, 43))
    shell.stdin.write("stty size; echo term=$TERM; exit 3\n")
    text = await shell.stdout.read()
    done = await shell.wait()
    assert "43 132" in text
    assert "term=xterm" in text
    assert done.exit_status == 3


async def test_output_ends_when_the_last_writer_is_gone(
    connection: asyncssh.SSHClientConnection, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = await connection.create_process(f"cat {fifo} & echo started")
    assert await process.stdout.readline() == "started\n"
    await connection.run(f"echo late > {fifo}", check=True)
    assert await process.stdout.read() == "late\n"
    assert (await process.wait()).exit_status == 0


async def test_ten_sessions_and_no_more(connection: asyncssh.SSHClientConnection) -> None:
    held = [await connection.create_process("cat") for _ in range(10)]
    with pytest.raises(asyncssh.ChannelOpenError):
        await connection.create_process("cat")
    held[0].stdin.write_eof()
    await held[0].wait()
    assert (await connection.run("echo again", check=True)).stdout == "again\n"


async def test_any_port_is_forwarded(connection: asyncssh.SSHClientConnection) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read())
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, connection.forward_local_port("127.0.0.1", 0, *server.sockets[0].getsockname()) as local:
        reader, writer = await asyncio.open_connection("127.0.0.1", local.get_port())
        writer.write(b"through")
        writer.write_eof()
        assert await reader.read() == b"through"
        writer.close()
