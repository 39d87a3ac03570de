"""The probe: one JSON line of facts about this host, ``once`` or (``stream``) once a second until told to end.

It is fed to ``python3`` on standard input. nvidia-smi costs 14 to 18 ms of CPU a call and next to nothing while
it loops by itself (measured on an H200, driver 580.159.04), so ``stream`` starts it twice with ``-l 1`` and
reads what it prints: all three processes together took 0.2 % of a core there. When the driver hangs, nvidia-smi
hangs with it: threads read it, the samples don't wait for them, and silence is told as an error.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GPU_FIELDS = "index,memory.total,memory.used,utilization.gpu,power.draw,temperature.gpu,name"
APP_FIELDS = "pid,used_memory,process_name"
SILENCE = 5.0  # seconds after which a GPU that says nothing counts as not answering
POLL = 5.0  # seconds between calls of an nvidia-smi that can't loop: under 1 % of a core
KEEP = 2.5  # seconds that a row of a looping nvidia-smi stands
LONGEST = 400  # characters of an error or a name that are handed on
NOT_WHOLE = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d|nvme\d+c\d+n\d+")

Row = list[Any]
Parse = Callable[[str], Row | None]


def read(path: str) -> str:
    """The file's text, "" where there is none."""
    try:
        return Path(path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def memory() -> dict[str, int]:
    """/proc/meminfo in bytes. The page cache is what can be given back: without shared memory and tmpfs."""
    have = {}
    for line in read("/proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        if value.split()[1:] == ["kB"]:
            have[key] = int(value.split()[0]) * 1024
    return {
        "total": have["MemTotal"],
        "available": have["MemAvailable"],
        "page_cache": max(have.get("Cached", 0) + have.get("Buffers", 0) - have.get("Shmem", 0), 0),
        "swap_total": have.get("SwapTotal", 0),
        "swap_free": have.get("SwapFree", 0),
    }


def pressure() -> float | None:
    """PSI's ``some avg10`` in percent; None where the kernel has none."""
    match = re.search(r"^some avg10=([0-9.]+)", read("/proc/pressure/memory"))
    return float(match.group(1)) if match else None


def interfaces() -> list[Row]:
    """Name, bytes received and bytes sent of each interface but loopback."""
    found: list[Row] = []
    for line in read("/proc/net/dev").splitlines()[2:]:
        name, _, counts = line.partition(":")
        numbers = counts.split()
        if name.strip() != "lo" and len(numbers) >= 9:
            found.append([name.strip(), int(numbers[0]), int(numbers[8])])
    return found[:64]


def disk_read() -> int:
    """Bytes read from whole disks since boot (a sector of /proc/diskstats is 512 bytes, always)."""
    sectors = 0
    for line in read("/proc/diskstats").splitlines():
        fields = line.split()
        if len(fields) > 5 and not NOT_WHOLE.match(fields[2]) and Path("/sys/block", fields[2]).exists():
            sectors += int(fields[5])
    return sectors * 512


def number(text: str) -> float | None:
    """A figure of nvidia-smi; None for [N/A], [Not Supported] and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def gpu_row(line: str) -> Row | None:
    """Index, total, used, utilisation, power, temperature, name; None for anything else."""
    fields = line.split(", ", 6)
    if len(fields) < 7 or not re.fullmatch("[0-9]{1,4}", fields[0]):
        return None
    return [int(fields[0]), *(number(field) for field in fields[1:6]), fields[6][:LONGEST]]


def app_row(line: str) -> Row | None:
    """Process id, memory, name: the name comes last, for it may hold anything."""
    fields = line.split(", ", 2)
    if len(fields) < 3 or not re.fullmatch("[0-9]{1,10}", fields[0]):
        return None
    return [int(fields[0]), number(fields[1]), fields[2][:LONGEST]]


QUESTIONS: tuple[tuple[list[str], Parse], ...] = (
    (["nvidia-smi", "--query-gpu=" + GPU_FIELDS, "--format=csv,noheader,nounits"], gpu_row),
    (["nvidia-smi", "--query-compute-apps=" + APP_FIELDS, "--format=csv,noheader,nounits"], app_row),
)


def die_with_parent() -> None:
    """An nvidia-smi that prints nothing would never notice that its reader is gone (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start(argv: list[str]) -> "subprocess.Popen[bytes]":
    """Start nvidia-smi; OSError where there is none."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=die_with_parent,
        env={**os.environ, "LC_ALL": "C"},
    )


def unable(error: OSError) -> str:
    """Why nvidia-smi could not be started."""
    missing = isinstance(error, FileNotFoundError)
    return "there is no nvidia-smi on this host" if missing else f"nvidia-smi could not be started: {error}"


def ask(argv: list[str], parse: Parse) -> tuple[list[Row], str]:
    """The rows of one call, or an error."""
    try:
        child = start(argv)
    except OSError as error:
        return [], unable(error)
    try:
        output, _ = child.communicate(timeout=SILENCE)
    except subprocess.TimeoutExpired:
        child.kill()  # and not waited for: in a hung driver it never ends
        return [], f"nvidia-smi has not answered for {SILENCE:.0f} s"
    lines = output.decode("utf-8", "replace").split("\n")
    if child.returncode != 0:
        text = next((line for line in lines if line.strip()), "")
        return [], (text or f"nvidia-smi ended with status {child.returncode}")[:LONGEST]
    return [row for row in map(parse, lines) if row], ""


class Watch(threading.Thread):
    """One question, asked for ever: by an nvidia-smi that loops, else (it ended) by a call now and then."""

    def __init__(self, argv: list[str], parse: Parse) -> None:
        super().__init__(daemon=True)
        self.argv = argv
        self.parse = parse
        self.looping = True
        self.rows: dict[Any, tuple[float, Row]] = {}
        self.error = ""
        self.heard = time.monotonic()

    def run(self) -> None:
        """Ask until the program ends."""
        try:
            self.follow(start([*self.argv, "-l", "1"]))
        except OSError as error:
            self.error = unable(error)
        wait = 0.0
        while True:
            time.sleep(wait)
            rows, self.error = ask(self.argv, self.parse)
            self.rows = {index: (0.0, row) for index, row in enumerate(rows)}
            self.looping = False
            wait = POLL

    def follow(self, child: "subprocess.Popen[bytes]") -> None:
        """Keep the latest row about each thing until the child ends."""
        assert child.stdout is not None
        for line in child.stdout:
            row = self.parse(line.decode("utf-8", "replace").rstrip("\n"))
            if row:
                self.heard = time.monotonic()
                self.rows = {**self.rows, (row[0], row[-1]): (self.heard, row)}
        child.wait()

    def recent(self) -> list[Row]:
        """The rows that still stand; older ones are forgotten."""
        rows = self.rows
        if not self.looping:
            return [row for _, row in rows.values()]
        oldest = time.monotonic() - KEEP
        self.rows = {key: value for key, value in rows.items() if value[0] >= oldest}
        return [row for _, row in self.rows.values()]


class Looping:
    """The GPUs for ``stream``. That the list of processes may be empty and silent, the GPUs' own rows vouch."""

    def __init__(self) -> None:
        self.gpus, self.apps = (Watch(argv, parse) for argv, parse in QUESTIONS)
        self.gpus.start()
        self.apps.start()

    def look(self) -> tuple[list[Row], list[Row] | None, str]:
        """GPUs, processes (None when they can't be known) and the error."""
        gpus = sorted(self.gpus.recent(), key=lambda row: int(row[0]))
        error = self.gpus.error or self.apps.error
        silent = time.monotonic() - self.gpus.heard
        if not error and self.gpus.looping and (silent > SILENCE or not gpus):
            error = f"nvidia-smi has not answered for {silent:.0f} s"
        return ([], None, error) if error else (gpus, self.apps.recent(), "")


class Once:
    """The GPUs for ``once``."""

    def look(self) -> tuple[list[Row], list[Row] | None, str]:
        """GPUs, processes (None when they can't be known) and the error; both asked at once."""
        answers: dict[int, tuple[list[Row], str]] = {}

        def call(index: int) -> None:
            answers[index] = ask(*QUESTIONS[index])

        threads = [threading.Thread(target=call, args=(index,)) for index in range(len(QUESTIONS))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        error = answers[0][1] or answers[1][1]
        return ([], None, error) if error else (answers[0][0], answers[1][0], "")


def say(source: "Looping | Once") -> None:
    """Print one sample."""
    gpus, processes, error = source.look()
    facts = {
        "at": time.time(),
        "memory": memory(),
        "pressure": pressure(),
        "gpus": gpus,
        "processes": processes,
        "gpu_error": error,
        "interfaces": interfaces(),
        "disk_read": disk_read(),
    }
    print(json.dumps(facts, separators=(",", ":")), flush=True)


def stream() -> None:
    """A sample a second; by the first, nvidia-smi has answered as a rule."""
    source = Looping()
    tick = time.monotonic() + 0.5
    while True:
        time.sleep(max(tick - time.monotonic(), 0))
        tick = max(tick + 1, time.monotonic())
        say(source)


if __name__ == "__main__":
    try:
        if sys.argv[1] == "once":
            say(Once())
        else:
            stream()
    except BrokenPipeError:
        pass
    # Not by the usual way out: it would wait for threads that read from a hung nvidia-smi.
    os._exit(0)
