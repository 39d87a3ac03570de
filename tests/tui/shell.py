"""A shell in a terminal, to run the real program in as an operator does."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path


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
