"""The real program in a shell's terminal: resized, suspended, resumed, and the terminal closed under it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cockpit.lab import folders, lab
from cockpit.lab.environment import Environment
from cockpit.lab.lab import LabInfo
from tests.lab.fixtures import lab_of_its_own

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


class Shell:
    """An interactive bash in a pseudo-terminal of its own."""

    def __init__(self, rows: int, columns: int) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm-256color", "PS1": "shell> "})
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.seen = bytearray()
        self.size(rows, columns)

    def size(self, rows: int, columns: int) -> None:
        """Another size; the kernel tells the foreground."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        """Type, having forgotten what was shown."""
        self.seen.clear()
        os.write(self.fd, keys)

    def until(self, shown: Callable[[bytes], bool], what: str, seconds: float = 60.0) -> None:
        """Read until ``shown`` holds of what came."""
        stop = time.monotonic() + seconds
        while not shown(bytes(self.seen)):
            assert time.monotonic() < stop, f"{what}: {bytes(self.seen[-2000:])!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                self.seen += os.read(self.fd, 1 << 16)

    def children(self) -> list[int]:
        """The processes that it started and that live."""
        text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def close(self) -> None:
        """Take the terminal away."""
        os.close(self.fd)


@pytest.fixture(scope="module")
def up(
    lab_environment: Environment, lab_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabInfo]:
    """A lab of these tests' own."""
    with lab_of_its_own("terminal", tmp_path_factory.mktemp("data")) as info:
        yield info


def files(info: LabInfo) -> set[Path]:
    """Every file in the folders of the lab's hosts, but that of the stand-in for nvidia-smi."""
    assert info.profile is not None
    found = info.profile.parent.rglob("*")
    return {path for path in found if path.is_file() and path.name != "nvidia-smi.last"}


def ended(pid: int) -> bool:
    """Whether a process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_suspend_resize_and_a_closed_terminal_leave_all_as_it_was(
    up: LabInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell gets its terminal back while it is suspended; after the end no process is left on any host."""
    assert up.profile is not None
    monkeypatch.setenv("XDG_DATA_HOME", str(up.profile.parents[3]))
    monkeypatch.setenv(folders.NAME, "terminal")
    before = files(up)
    shell = Shell(40, 120)
    try:
        shell.until(lambda text: b"shell> " in text, "the shell")
        # readline may export the size it saw, which would then stand for good.
        shell.type(f"env -u COLUMNS -u LINES {sys.executable} -m cockpit {up.profile}\n".encode())
        shell.until(lambda text: b"Nothing runs yet" in text, "the first screen")
        shell.seen.clear()
        shell.size(24, 80)
        shell.until(lambda text: b"\x1b[24;1H" in text, "the footer in the last of 24 rows")
        cockpit = shell.children()[0]
        shell.type(b"\x1a")
        shell.until(lambda text: b"Stopped" in text, "suspended")
        shell.type(b"stty -a | tr '\\n' ' '\n")
        shell.until(lambda text: b" icanon" in text and b" echo " in text, "the terminal as it was")
        shell.type(b"fg\n")
        shell.until(lambda text: b"Connect" in text, "resumed")
    finally:
        shell.close()
    stop = time.monotonic() + 30
    while not ended(cockpit) and time.monotonic() < stop:
        time.sleep(0.2)
    alive = not ended(cockpit)
    if alive:
        os.kill(cockpit, signal.SIGKILL)
    assert not alive, "the cockpit outlived its terminal"
    stop = time.monotonic() + 15
    while any(host.processes for host in lab.status().hosts) and time.monotonic() < stop:
        time.sleep(0.5)
    assert [host.processes for host in lab.status().hosts] == [0, 0]
    assert sorted(files(up) ^ before) == []
