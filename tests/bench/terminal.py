"""A program in a pseudo-terminal, for benchmarks: what it writes, what it costs."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COLUMNS, ROWS = 200, 50
_START = 0.05


@dataclass
class Usage:
    """Of a process: seconds of CPU, peak resident memory in bytes."""

    cpu: float
    memory: int


class Terminal:
    """A program in a pseudo-terminal; answers nothing, reads everything."""

    def __init__(self, argv: list[str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            for name in ("LINES", "COLUMNS"):
                os.environ.pop(name, None)
            os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor"})
            try:
                os.chdir(ROOT)
                # The size is set before the program looks.
                time.sleep(_START)
                os.execvp(argv[0], argv)
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.began = time.perf_counter() + _START
        self.seen = bytearray()
        self.bytes = 0

    def read(self, seconds: float) -> bytes:
        """What comes within ``seconds``, at most one read."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return b""
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            return b""
        self.bytes += len(data)
        self.seen += data
        del self.seen[: -(1 << 20)]
        return data

    def until(self, text: bytes, seconds: float = 120.0, *, since: float = 0.0) -> float:
        """Seconds until ``text`` is on its way to the screen, from now or from ``since``; nan when it never is."""
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            if text in self.seen:
                return time.perf_counter() - (since or began)
            self.read(0.01)
        return float("nan")

    def settle(self, seconds: float) -> None:
        """Read on for ``seconds``."""
        stop = time.perf_counter() + seconds
        while (left := stop - time.perf_counter()) > 0:
            self.read(left)

    def press(self, keys: bytes) -> None:
        """Type, having forgotten what was on the screen."""
        self.seen.clear()
        os.write(self.fd, keys)

    def usage(self) -> Usage:
        """So far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        peak = next(line for line in status if line.startswith("VmHWM"))
        tick = os.sysconf("SC_CLK_TCK")
        return Usage((int(fields[11]) + int(fields[12])) / tick, int(peak.split()[1]) * 1024)

    def close(self) -> None:
        """End the program."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table in Markdown."""
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for each in rows:
        row(each)


def row(cells: tuple[str, ...]) -> None:
    """Print one row of the table begun last."""
    print(f"| {' | '.join(cells)} |", flush=True)
