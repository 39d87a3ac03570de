"""The log view beside less, lnav and Textual's own log widgets, its engine beside wc and grep, its way over SSH
beside OpenSSH's client: all in the same run.

    python tests/bench/bench_logs.py [--large] [--quick] [--lines N] [--part PART]

Makes a log of 1,000,000 vLLM-like lines (150 MB; with ``--large`` also one of 8,000,000, 1.2 GB) in a temporary
folder. Terminal programs run in a real pseudo-terminal of 200x50. Prints what was measured, and ratios: on a
machine with other work the ratios tell more than the figures. ``--quick`` leaves Textual's own widgets out.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.terminal import COLUMNS, ROWS, Terminal, row, table

PEERS = {"less": "less", "lnav": "lnav", "ssh": "openssh-client", "sshd": "openssh-server"}
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
FOLLOWED = 6.0
TURNS = 5
PARTS = ["open", "engine", "ssh", "follow"]

VIEW = """
import asyncio, sys, time
from pathlib import Path
from cockpit.tui.view_app import ViewApp, open_logs
async def probe(path):
    lags = []
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.01)
        lags.append(time.perf_counter() - began - 0.01)
        if len(lags) % 100 == 0:
            path.write_text(str(sorted(lags)[len(lags) * 99 // 100]))
class Probed(ViewApp):
    def on_mount(self):
        if len(sys.argv) > 2:
            self.probing = asyncio.create_task(probe(Path(sys.argv[2])))
Probed(open_logs([Path(sys.argv[1])])).run()
"""
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
TAIL = """
import asyncio, sys
from textual.app import App
from textual.widgets import Log
class Tail(App):
    def compose(self):
        yield Log(max_lines=10_000)
    def on_ready(self):
        self.file = open(sys.argv[1], errors="replace")
        self.set_interval(0.1, self.more)
    def more(self):
        if text := self.file.read():
            self.query_one(Log).write(text)
Tail().run()
"""


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


def view(path: Path, *words: str) -> list[str]:
    return [sys.executable, "-c", VIEW, str(path), *words]


def there(program: str) -> bool:
    """Whether a peer is there; says so where it is not."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is not None
    if not found:
        print(f"\n{program} is left out: it is not installed (Debian: {PEERS[program]}).")
    return found


# Opening, jumping, searching


def opened(name: str, argv: list[str], lines: int, indexed: bytes, hit: bytes = b"") -> tuple[str, ...]:
    """Time to the end shown and to the complete index, peak memory, time of a jump to the start and back to the
    end, and of a search from the start for a line at the end: until that is shown, or ``hit`` is."""
    last, first = f" {lines - 1}".encode(), b"20:00:00"
    terminal = Terminal(argv)
    try:
        shown = terminal.until(last, since=terminal.began)
        complete = terminal.until(indexed, since=terminal.began) if indexed else float("nan")
        memory = terminal.usage().memory
        terminal.settle(1.0)
        terminal.press(b"g")
        to_start = terminal.until(first, 30)
        terminal.settle(0.5)
        terminal.press(b"G")
        to_end = terminal.until(last, 30)
        terminal.settle(0.5)
        terminal.press(b"g")
        terminal.until(first, 30)
        terminal.settle(0.5)
        terminal.press(b"/" + str(lines - 20).encode() + b"\r")
        found = terminal.until(hit or last, 60)
    finally:
        terminal.close()
    figures = (figure(shown), figure(complete), f"{memory / 1e6:.0f}")
    return name, *figures, figure(to_start, 1e3), figure(to_end, 1e3), figure(found)


def figure(seconds: float, unit: float = 1.0) -> str:
    """A figure, or nothing where there is none."""
    if seconds != seconds:
        return "–"
    return f"{seconds * unit:.0f}" if unit > 1 else f"{seconds:.2f}"


def bare_start() -> float:
    """Seconds until a Textual app that shows one word shows it: what of a view's time is not the view's."""
    terminal = Terminal([sys.executable, "-c", BARE])
    try:
        return terminal.until(b"HERE", since=terminal.began)
    finally:
        terminal.close()


def widget(name: str, path: Path, size: int) -> tuple[str, ...]:
    """Textual's own widget given the first ``size`` bytes."""
    terminal = Terminal([sys.executable, "-c", WIDGET, str(path), name, str(size)])
    try:
        shown = terminal.until(b"THE-END", since=terminal.began)
        memory = terminal.usage().memory
    finally:
        terminal.close()
    return f"Textual {name}, {size / 1e6:.0f} MB", figure(shown), "–", f"{memory / 1e6:.0f}", "–", "–", "–"


def compare(path: Path, lines: int, quick: bool) -> None:
    size = path.stat().st_size
    counted = f"line {lines:,} of {lines:,}".encode()
    rows = [opened("Spark Cockpit", view(path), lines, counted)]
    if there("less"):
        rows.append(opened("less -n -R +G", ["less", "-n", "-R", "+G", str(path)], lines, b""))
    if there("lnav"):
        rows.append(opened("lnav", ["lnav", str(path)], lines, f" {lines - 1}".encode(), b"1 hits for"))
    if not quick and lines <= 1_000_000:
        rows.append(widget("Log", path, size))
        rows.append(widget("RichLog", path, 2_000_000))
    head = (
        "",
        "end shown, s",
        "complete index, s",
        "peak memory, MB",
        "to start, ms",
        "to end, ms",
        "search, s",
    )
    bare = bare_start()
    title = f"Opened: {size / 1e6:.0f} MB, {lines:,} lines (a bare Textual app takes {bare:.2f} s to its first word)"
    table(title, head, rows)
    own = float(rows[0][1]), float(rows[0][3])
    for other in rows[1:]:
        times, memory = float(other[1].replace("–", "nan")) / own[0], float(other[3]) / own[1]
        print(f"{other[0]}: {times:.1f} times our time to the end shown, {memory:.1f} times our memory")


# The engine


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and of CPU, children's too: the latter hardly feel what else the machine does."""
    began, before = time.perf_counter(), os.times()
    work()
    wall, after = time.perf_counter() - began, os.times()
    return wall, sum(after[:4]) - sum(before[:4])


def whole(step: Callable[[], bool]) -> Callable[[], None]:
    def run() -> None:
        while step():
            pass

    return run


def peer(*argv: str) -> Callable[[], object]:
    """A program that reads the same file, its locale C. Its output is read: where that goes to /dev/null, grep
    stops at the first hit."""
    environment = {**os.environ, "LC_ALL": "C"}
    return lambda: subprocess.run(argv, capture_output=True, env=environment, check=False)


def engine(path: Path) -> None:
    """Index and search without a terminal, each next to its peer."""
    from cockpit.logs.blocks import LogFile
    from cockpit.logs.filters import Errors, Filter
    from cockpit.logs.index import LineIndex
    from cockpit.logs.log import Log
    from cockpit.logs.merge import Merge
    from cockpit.logs.search import Query
    from cockpit.logs.sieve import Sieve

    head = ("", "s", "CPU s", "GB per CPU s", "found", "peer, s", "peer, CPU s", "peer's CPU / ours")
    table(f"Engine: {path.stat().st_size / 1e6:.0f} MB, one thread", head, [])
    name = str(path)
    with LogFile(path) as file:
        index = LineIndex(file)
        work = {
            "complete index": (index.extend, ("wc", "-l", name)),
            "literal, absent": (Query("NCCL WARN", case=True), ("grep", "-cF", "NCCL WARN", name)),
            "literal, rare": (Query("999999", case=True), ("grep", "-cF", "999999", name)),
            "literal, any case": (Query("nccl warn"), ("grep", "-ciF", "nccl warn", name)),
            "expression, with a literal in it": (
                Query(r"\d+\.\d+ TiB", regex=True, case=True),
                ("grep", "-cP", r"\d+\.\d+ TiB", name),
            ),
            "expression": (
                Query(r"rank \d\d5$|[xyz]{3}", regex=True),
                ("grep", "-ciP", r"rank \d\d5$|[xyz]{3}", name),
            ),
            "errors": (Errors(), None),
            "filter by level": (Filter(level="ERROR"), None),
        }
        for title, (what, argv) in work.items():
            finder = what.finder() if isinstance(what, Query | Filter) else what
            sieve = None if callable(finder) else Sieve(file, finder)
            wall, cpu = timed(whole(finder if sieve is None else sieve.extend))
            found = index.lines if sieve is None else len(sieve)
            theirs, own = timed(peer(*argv)) if argv else (0.0, 0.0)
            ratio = (f"{argv[0]} {theirs:.2f}", f"{own:.2f}", f"{own / cpu:.2f}") if argv else ("", "", "")
            row((title, f"{wall:.2f}", f"{cpu:.2f}", f"{file.size / cpu / 1e9:.2f}", f"{found:,}", *ratio))
    merge = Merge([Log.open(path), Log.open(path)])
    wall, cpu = timed(whole(merge.extend))
    speed = f"{2 * path.stat().st_size / cpu / 1e9:.3f}"
    row(("it and itself as one, by time", f"{wall:.2f}", f"{cpu:.2f}", speed, f"{len(merge):,}", "", "", ""))


# Following


def follow(name: str, argv: list[str], path: Path, rate: int, lag: Path | None = None) -> tuple[str, ...]:
    """A program on a file that grows by ``rate`` bytes a second."""
    line = b"(EngineCore pid=3821) INFO 11-30 20:00:00 [gpu_worker.py:1] weights shard engine worker tensor rank %09d\n"
    path.write_bytes(line % 0)
    terminal = Terminal(argv)
    try:
        terminal.until(b"tensor rank", 20)
        terminal.settle(1.0)
        before, sent, number, written = terminal.usage(), terminal.bytes, 0, 0
        behind: list[float] = []
        began = time.perf_counter()
        with path.open("ab", buffering=0) as file:
            while (passed := time.perf_counter() - began) < FOLLOWED:
                count = max(0, int((rate * passed - written) / len(line)))
                file.write(b"".join(line % (number + at) for at in range(count)))
                number += count
                written += count * len(line)
                terminal.settle(0.02)
                at = terminal.seen.rfind(b"tensor rank ")
                figure = bytes(terminal.seen[at + 12 : at + 21])
                if figure.isdigit():
                    behind.append((number - int(figure)) * len(line) / rate)
        after = terminal.usage()
    finally:
        terminal.close()
        path.unlink()
    behind.sort()
    lags = [f"{behind[len(behind) * share // 100] * 1e3:.0f}" if behind else "" for share in (50, 99)]
    return (
        name,
        f"{written / FOLLOWED / 1e6:.1f}",
        f"{100 * (after.cpu - before.cpu) / FOLLOWED:.0f}",
        f"{(terminal.bytes - sent) / FOLLOWED / 1e3:.0f}",
        *lags,
        f"{float(lag.read_text()) * 1e3:.0f}" if lag is not None and lag.exists() else "",
        f"{after.memory / 1e6:.0f}",
    )


def following(folder: Path, quick: bool) -> None:
    path, lag = folder / "growing.log", folder / "lag"
    rows: list[tuple[str, ...]] = []
    for rate in (1_000_000, 50_000_000):
        lag.unlink(missing_ok=True)
        rows.append(follow("Spark Cockpit", view(path, str(lag)), path, rate, lag))
        if shutil.which("less"):
            rows.append(follow("less +F", ["less", "-n", "-R", "+F", str(path)], path, rate))
        if shutil.which("lnav"):
            rows.append(follow("lnav", ["lnav", str(path)], path, rate))
        if not quick:
            rows.append(follow("Textual Log", [sys.executable, "-c", TAIL, str(path)], path, rate))
    head = ("", "written, MB/s", "CPU, % of a core", "terminal, kB/s", "lag p50, ms", "lag p99, ms")
    table(f"Following, {COLUMNS}x{ROWS}", (*head, "event loop p99, ms", "peak memory, MB"), rows)


# Over SSH


async def spooled(config: str, path: Path, spool_file: Path) -> float:
    """Seconds until the spool holds all of the log, by our own connection."""
    from cockpit.hosts.factory import open_host
    from cockpit.logs.follow import CaughtUp, Follower
    from cockpit.logs.spool import Spool
    from cockpit.model.command import script
    from tests.hosts.sshd import spec

    host = open_host(spec(), ssh_config=config)
    done = asyncio.Event()
    with Spool(spool_file) as spool:
        follower = Follower(
            "serve",
            host,
            lambda text, why: script("spark-1", text, why),
            str(path),
            spool,
            lambda event: done.set() if isinstance(event, CaughtUp) else None,
        )
        await host.connect()
        began = time.perf_counter()
        task = asyncio.create_task(follower.run())
        await done.wait()
        seconds = time.perf_counter() - began
        task.cancel()
        await asyncio.wait([task])
    await host.close()
    return seconds


def over_ssh(path: Path, folder: Path) -> None:
    """To the spool over loopback, and the same bytes by OpenSSH's own client, in turns."""
    from tests.hosts.sshd import serve

    size, wanted = path.stat().st_size, digest(path)
    home = folder / "sshd"
    home.mkdir(exist_ok=True)
    os.environ.pop("SSH_AUTH_SOCK", None)
    same = True
    ours, theirs = list[float](), list[float]()
    with serve(home) as server:
        config = server.config()
        spool_file, copy = folder / "spool.log", folder / "copy"
        for _ in range(TURNS):
            ours.append(asyncio.run(spooled(config, path, spool_file)))
            with copy.open("wb") as file:
                argv = ["ssh", "-F", config, "spark-1", f"cat {path}"]
                theirs.append(
                    timed(lambda argv=argv, file=file: subprocess.run(argv, stdout=file, check=True))[0]
                )
            same = same and digest(spool_file) == wanted == digest(copy)
            for made in (spool_file, spool_file.with_suffix(".json"), copy):
                made.unlink()
    rows = [
        (
            name,
            *(f"{size / each / 1e6:.0f}" for each in (min(spent), sorted(spent)[len(spent) // 2], max(spent))),
        )
        for name, spent in (
            ("Spark Cockpit, to the spool", ours),
            ("OpenSSH client, cat to a file", theirs),
        )
    ]
    title = f"Over SSH, loopback, {TURNS} turns each: {size / 1e6:.0f} MB"
    table(
        f"{title}, {'byte-identical' if same else 'NOT THE SAME BYTES'}",
        ("", "best, MB/s", "median, MB/s", "worst, MB/s"),
        rows,
    )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 1.2 GB")
    parser.add_argument("--quick", action="store_true", help="without Textual's own widgets")
    parser.add_argument("--lines", type=int, action="append", help="only a log of so many lines")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part")
    options = parser.parse_args()
    parts = options.part or PARTS
    sizes = options.lines or ([1_000_000, 8_000_000] if options.large else [1_000_000])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for lines in sizes:
            path = folder / f"{lines}.log"
            make_log(path, lines)
            if "open" in parts:
                compare(path, lines, options.quick)
            if "engine" in parts:
                engine(path)
            if "ssh" in parts and there("ssh") and there("sshd"):
                over_ssh(path, folder)
            path.unlink()
        if "follow" in parts:
            following(folder, options.quick)


if __name__ == "__main__":
    main()
