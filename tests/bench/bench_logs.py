"""The log view beside less, lnav and Textual's own log widgets, in the same run.

    python tests/bench/bench_logs.py [--large] [--quick]

Makes a log of 1,000,000 vLLM-like lines (150 MB; with ``--large`` also one of 8,000,000, 1.2 GB) in a temporary
folder. Terminal programs run in a real pseudo-terminal of 200x50. Prints what was measured, and ratios.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import random
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

COLUMNS, ROWS = 200, 50
PROCESSES = (
    "(APIServer pid=3453) ",
    "(EngineCore pid=3821) ",
    "(EngineCore pid=3821) (RayWorkerProc pid=4100) (Worker_TP0 pid=4100) ",
    "(EngineCore pid=3821) (RayWorkerProc pid=4100, ip=10.0.0.2) (Worker_TP1 pid=4100) ",
    "",
)
WORDS = tuple(
    f"{word} {other}"
    for word in ("loading", "engine", "tensor", "parallel", "cache", "block")
    for other in ("weights", "shard", "memory", "GiB", "graph", "rank")
)


def make_log(path: Path, lines: int) -> None:
    """A log as vLLM writes it: five processes, one line in twelve with colours, some with markup."""
    random.seed(1)
    tails = [" ".join(random.choices(WORDS, k=5)) for _ in range(5000)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            level = "INFO" if number % 500 else ("ERROR" if number % 1000 else "WARNING")
            at = f"11-30 {20 + number // 3600000:02d}:{number // 60000 % 60:02d}:{number // 1000 % 60:02d}"
            line = (
                f"{PROCESSES[number % 5]}{level} {at} [gpu_worker.py:{number % 900}] "
                f"{tails[number * 7919 % 5000]}{' [red]x[/]' if number % 97 == 0 else ''} {number}"
            )
            file.write(f"\x1b[36m{line}\x1b[0m\n" if number % 12 == 0 else f"{line}\n")


@dataclass
class Usage:
    """Of a process: seconds of CPU, peak resident memory in bytes."""

    cpu: float
    memory: int


class Terminal:
    """A program in a pseudo-terminal; answers nothing, reads everything."""

    def __init__(self, argv: list[str], **env: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(
                {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LINES": "", "COLUMNS": ""} | env
            )
            for name in ("LINES", "COLUMNS"):
                os.environ.pop(name, None)
            try:
                os.chdir(ROOT)
                time.sleep(0.05)
                os.execvp(argv[0], argv)
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.began = time.perf_counter() + 0.05
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

    def until(self, text: bytes, seconds: float = 120.0) -> float:
        """Seconds until ``text`` is on its way to the screen; nan when it never is."""
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            if text in self.seen:
                return time.perf_counter() - began
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
        peak = next(
            line
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines()
            if line.startswith("VmHWM")
        )
        tick = os.sysconf("SC_CLK_TCK")
        return Usage((int(fields[11]) + int(fields[12])) / tick, int(peak.split()[1]) * 1024)

    def close(self) -> None:
        """End the program."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


VIEW = "import sys; from pathlib import Path; from cockpit.tui.view_app import view_files; view_files([Path(sys.argv[1])])"
BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("HERE")
Bare().run()
"""
WIDGET = """
import sys
from textual.app import App
from textual.widgets import Log, RichLog
class Show(App):
    def compose(self):
        yield Log() if sys.argv[2] == "Log" else RichLog()
    def on_ready(self):
        log = self.query_one(Log if sys.argv[2] == "Log" else RichLog)
        text = open(sys.argv[1], errors="replace").read(int(sys.argv[3]))
        if sys.argv[2] == "Log":
            log.write(text)
        else:
            for line in text.split("\\n"):
                log.write(line)
        log.write("\\nTHE-END" if sys.argv[2] == "Log" else "THE-END")
Show().run()
"""


def view(path: Path) -> list[str]:
    return [sys.executable, "-c", VIEW, str(path)]


def open_and_jump(
    name: str, argv: list[str], last: bytes, home: bytes, first: bytes, end: bytes
) -> tuple[str, ...]:
    """Time to the end shown, peak memory, time of a jump to the start and back to the end."""
    terminal = Terminal(argv)
    try:
        shown = terminal.until(last)
        terminal.settle(2.0)
        terminal.press(home)
        to_start = terminal.until(first, 30)
        terminal.settle(0.5)
        terminal.press(end)
        to_end = terminal.until(last, 30)
        memory = terminal.usage().memory
    finally:
        terminal.close()
    return name, f"{shown:.3f}", f"{memory / 1e6:.0f}", f"{to_start * 1e3:.0f}", f"{to_end * 1e3:.0f}"


def bare_start() -> float:
    """Seconds until a Textual app that shows one word shows it: what of a view's time is not the view's."""
    terminal = Terminal([sys.executable, "-c", BARE])
    try:
        return terminal.until(b"HERE")
    finally:
        terminal.close()


def widget(name: str, path: Path, size: int) -> tuple[str, ...]:
    """Textual's own widget given the first ``size`` bytes."""
    terminal = Terminal([sys.executable, "-c", WIDGET, str(path), name, str(size)])
    try:
        shown = terminal.until(b"THE-END")
        memory = terminal.usage().memory
    finally:
        terminal.close()
    return f"Textual {name}, first {size / 1e6:.0f} MB", f"{shown:.3f}", f"{memory / 1e6:.0f}", "", ""


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def engine(path: Path) -> list[tuple[str, ...]]:
    """Index and search without a terminal."""
    from cockpit.logs.blocks import LogFile
    from cockpit.logs.filters import Errors, Filter
    from cockpit.logs.index import LineIndex
    from cockpit.logs.search import Query
    from cockpit.logs.sieve import Sieve

    rows: list[tuple[str, ...]] = []
    with LogFile(path) as file:
        index = LineIndex(file)

        def whole(step: Callable[[], bool]) -> Callable[[], None]:
            def run() -> None:
                while step():
                    pass

            return run

        seconds = timed(whole(index.extend))
        rows.append(
            ("complete index", f"{seconds:.3f}", f"{file.size / seconds / 1e9:.2f}", f"{index.lines:,}")
        )
        finders = {
            "literal, absent": Query("NCCL WARN", case=True).finder(),
            "literal, rare": Query("999999", case=True).finder(),
            "literal, any case": Query("nccl warn").finder(),
            "expression": Query(r"\d+\.\d+ TiB", regex=True, case=True).finder(),
            "errors": Errors(),
            "filter by level": Filter(level="ERROR").finder(),
        }
        for name, finder in finders.items():
            sieve = Sieve(file, finder)
            seconds = timed(whole(sieve.extend))
            rows.append((name, f"{seconds:.3f}", f"{file.size / seconds / 1e9:.2f}", f"{len(sieve):,}"))
    return rows


def follow(folder: Path, rate: int, seconds: float) -> tuple[str, ...]:
    """The view on a file that grows by ``rate`` bytes a second."""
    path = folder / "growing.log"
    line = b"(EngineCore pid=3821) INFO 11-30 20:00:00 [gpu_worker.py:1] weights shard engine worker tensor rank %09d\n"
    path.write_bytes(line % 0)
    terminal = Terminal(view(path))
    try:
        terminal.until(b"weights shard")
        terminal.settle(1.0)
        before, sent, number = terminal.usage(), terminal.bytes, 0
        lags: list[float] = []
        began = time.perf_counter()
        written = 0
        with path.open("ab", buffering=0) as file:
            while (passed := time.perf_counter() - began) < seconds:
                count = max(0, int((rate * passed - written) / len(line)))
                if count:
                    file.write(b"".join(line % (number + at) for at in range(count)))
                    number += count
                    written += count * len(line)
                terminal.settle(0.02)
                at = terminal.seen.rfind(b"tensor rank ")
                figure = bytes(terminal.seen[at + 12 : at + 21])
                if figure.isdigit():
                    lags.append((number - int(figure)) * len(line) / rate)
        after = terminal.usage()
    finally:
        terminal.close()
        path.unlink()
    lags.sort()
    return (
        f"{written / seconds / 1e6:.1f} MB/s",
        f"{100 * (after.cpu - before.cpu) / seconds:.0f}",
        f"{(terminal.bytes - sent) / seconds / 1e3:.0f}",
        f"{lags[len(lags) // 2] * 1e3:.0f}" if lags else "",
        f"{lags[-1] * 1e3:.0f}" if lags else "",
        f"{after.memory / 1e6:.0f}",
    )


def table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def compare(path: Path, lines: int, quick: bool) -> None:
    size = path.stat().st_size
    last = f" {lines - 1}".encode()
    first = b"20:00:00"
    rows = [open_and_jump("Spark Cockpit", view(path), last, b"g", first, b"G")]
    if shutil.which("less"):
        rows.append(open_and_jump("less -n +G", ["less", "-n", "-R", "+G", str(path)], last, b"g", first, b"G"))
    if shutil.which("lnav"):
        rows.append(open_and_jump("lnav", ["lnav", str(path)], last, b"g", first, b"G"))
    if not quick and lines <= 1_000_000:
        rows.append(widget("Log", path, size))
        rows.append(widget("RichLog", path, 2_000_000))
    bare = bare_start()
    table(
        f"Opened at its end: {size / 1e6:.0f} MB, {lines:,} lines (a bare Textual app takes {bare:.3f} s)",
        ("", "end shown, s", "peak memory, MB", "to start, ms", "to end, ms"),
        rows,
    )
    own = float(rows[0][1]), float(rows[0][2])
    for row in rows[1:]:
        print(
            f"{row[0]}: {float(row[1]) / own[0]:.1f} times our time, {float(row[2]) / own[1]:.1f} times our memory"
        )
    table(f"Engine, {size / 1e6:.0f} MB", ("", "s", "GB/s", "found"), engine(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 1.2 GB")
    parser.add_argument("--quick", action="store_true", help="without Textual's own widgets")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for lines in (1_000_000, 8_000_000) if options.large else (1_000_000,):
            path = folder / f"{lines}.log"
            make_log(path, lines)
            compare(path, lines, options.quick)
            path.unlink()
        table(
            f"Following, {COLUMNS}x{ROWS}",
            ("written", "CPU, % of a core", "terminal, kB/s", "lag p50, ms", "lag max, ms", "peak memory, MB"),
            [follow(folder, rate, 8.0) for rate in (1_000_000, 50_000_000)],
        )


if __name__ == "__main__":
    main()
