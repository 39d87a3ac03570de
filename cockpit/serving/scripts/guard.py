"""The memory guard of one host: ends this host's ranks before the host runs out of memory.

Runs detached beside the ranks, in the same environment, with the standard library of Python 3.10. Argument:
JSON with ``host`` (its name), ``run`` (on the head the run's folder below $STATE, else ""), ``reserve`` (bytes,
0 for the default), ``serving`` (go on when the model is loaded), ``health`` (address and port of the API),
``wait`` (seconds in which the ranks must have come).

It ends with the run: on the head when the run's process has ended, elsewhere when the ranks are gone. What it
sees stands in ``guard/guard.json``; what it does, as a line in its log and, on the head, in the serve log.
"""

import ctypes
import http.client
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cockpit.runtime.scripts.processes import RANKS, UNIT, alive, descendants, read, table, title

GIB = 1024**3
RESERVE, SHARE = 8 * GIB, 15
"""The default: 8 GiB, and at most a 15th of the memory, which on a DGX Spark is the same."""

TICK = 0.25
"""Seconds. On a DGX Spark 17 to 19 GiB went within ten seconds after the weights were in: half a GiB a tick."""

STALLED = 20.0
"""Per cent of ten seconds in which every task waited for memory. MemAvailable tells too much where memory is
pinned; so below twice the reserve this counts as its end too."""

GONE = 10.0
"""Seconds without a rank, after there was one, that are the run's end on a host without the run's process."""


def memory() -> "tuple[int, int]":
    """MemTotal and MemAvailable in bytes; (0, 0) where they can't be read."""
    found = {}
    for line in read("/proc/meminfo").splitlines():
        name, _, rest = line.partition(b":")
        if name in (b"MemTotal", b"MemAvailable"):
            found[name] = int(rest.split()[0]) * 1024
    return found.get(b"MemTotal", 0), found.get(b"MemAvailable", 0)


def stalled() -> float:
    """Per cent of the last ten seconds in which all tasks waited for memory; 0 where the kernel doesn't say."""
    for line in read("/proc/pressure/memory").split(b"\n"):
        if line.startswith(b"full avg10="):
            return float(line.split()[1].partition(b"=")[2])
    return 0.0


class Guard:
    """Watches until the run has ended, or is loaded, or the memory falls below the reserve."""

    def __init__(self, asked: "dict[str, Any]", state: Path) -> None:
        self.asked = asked
        self.state = state
        self.run = (state / asked["run"]).resolve() if asked["run"] else None
        total, available = memory()
        self.reserve = asked["reserve"] or min(RESERVE, total // SHARE)
        self.total = total
        self.lowest = self.available = available
        self.began = time.monotonic()
        self.seen = 0.0
        self.told = 0.0
        self.ready = threading.Event()
        self.told_low = False

    def note(self, state: str, reason: str = "") -> None:
        """Write down how it stands, in one piece."""
        told = {
            "schema": 1,
            "state": state,
            "reason": reason,
            "at": time.time(),
            "host": self.asked["host"],
            "run": self.run.name if self.run else "",
            "reserve": self.reserve,
            "total": self.total,
            "available": self.available,
            "lowest": self.lowest,
            "stalled": stalled(),
            "serving": self.asked["serving"],
        }
        file = self.state / "guard/guard.json"
        try:
            new = file.with_suffix(".new")
            new.write_text(json.dumps(told) + "\n")
            new.rename(file)
        except OSError as error:
            print(f"{file} can't be written: {error}", flush=True)
        self.told = time.monotonic()

    def say(self, text: str) -> None:
        """A line in the guard's log and, on the head, at the end of the serve log."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{at} Memory guard on {self.asked['host']}: {text}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        if self.run:
            try:
                with (self.run / "serve.log").open("ab") as log:
                    log.write(line.encode())
            except OSError as error:
                print(f"the serve log can't be written: {error}", flush=True)

    def leave(self, *_: object) -> None:
        """SIGTERM: the run was stopped."""
        self.note("ended", "the run was stopped")
        os._exit(0)

    def ours(self, processes: "dict[int, tuple[int, int]]") -> "set[int]":
        """The ranks of this cluster on this host, and what they started. A title overwrites what is seen of
        the environment: so what descends from the cluster's own processes is known by its title."""
        mark = f"{UNIT}{self.state}/".encode()
        roots = {pid for pid in processes if mark in read(f"/proc/{pid}/environ")}
        below = descendants(processes, roots) - descendants(processes, {os.getpid()})
        ranks = {pid for pid in below if title(pid).startswith(RANKS)}
        if self.run:
            program = alive(read(self.run / "program"), processes)
            ranks |= descendants(processes, {program}) - {program} if program else set()
        return descendants(processes, ranks)

    def over(self, processes: "dict[int, tuple[int, int]]", now: float) -> str:
        """Why there is nothing to guard any more, "" while there is."""
        if self.run:
            ended = (self.run / "exit-status").exists() or not alive(read(self.run / "pid"), processes)
            return "the run has ended" if ended else ""
        if self.ours(processes):
            self.seen = now
        if not self.seen:
            return "" if now - self.began < self.asked["wait"] else "no rank has come"
        return "" if now - self.seen < GONE else "the ranks have ended"

    def look_for_readiness(self) -> None:
        """Ask the API every five seconds whether the model is loaded."""
        address, port = self.asked["health"]
        while not self.ready.is_set():
            connection = http.client.HTTPConnection(address, port, timeout=3)
            try:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    self.ready.set()
            except (OSError, http.client.HTTPException):
                pass  # it does not listen yet
            finally:
                connection.close()
            self.ready.wait(5)

    def watch(self) -> None:
        """The loop."""
        if not self.asked["serving"]:
            threading.Thread(target=self.look_for_readiness, daemon=True).start()
        self.note("watching")
        asked_at = 0.0
        while True:
            now = time.monotonic()
            _, self.available = memory()
            self.lowest = min(self.lowest, self.available)
            if self.total and self.below():
                return
            if now - asked_at >= 1:
                asked_at = now
                reason = "the model is loaded" if self.ready.is_set() else self.over(table(), now)
                if reason:
                    self.note("ended", reason)
                    return
            if now - self.told >= 5:
                self.note("watching")
            time.sleep(TICK)

    def below(self) -> bool:
        """End the ranks when the memory is below the reserve; tell of it long before."""
        held = stalled() if self.available < 2 * self.reserve else 0.0
        if self.available < 2 * self.reserve and not self.told_low:
            self.told_low = True
            self.say(
                f"{self.available / GIB:.2f} GiB of memory are available; below {self.reserve / GIB:.2f} GiB "
                "the ranks of this host are ended."
            )
            self.note("watching")
        if self.available >= self.reserve and held < STALLED:
            return False
        return self.end(held)

    def end(self, held: float) -> bool:
        """SIGKILL to the ranks: nothing gentler gives memory back in time. False where there are none."""
        processes = table()
        ranks = self.ours(processes)
        if not ranks:
            return False
        words = [f"{pid} ({title(pid)[:60]})" for pid in sorted(ranks) if title(pid).startswith(RANKS)]
        for pid in ranks:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # it has just ended
        reason = (
            f"{self.available / GIB:.2f} GiB of memory were available, the reserve is "
            f"{self.reserve / GIB:.2f} GiB"
            + (f", and every task waited for memory {held:.0f} % of the time" if held >= STALLED else "")
            + f": ended {len(ranks)} processes of this host's ranks"
            + (f", {', '.join(words)}" if words else "")
            + "."
        )
        self.say(reason)
        self.note("stopped", reason)
        if self.run:
            self.follow(self.run)
        return True

    def follow(self, run: Path) -> None:
        """The server ends when it misses its ranks; where it does not, it is ended too."""
        for number, patience in ((signal.SIGINT, 20.0), (signal.SIGKILL, 10.0), (0, 5.0)):
            until = time.monotonic() + patience
            while time.monotonic() < until:
                program = alive(read(run / "program"), table())
                if not program:
                    return
                time.sleep(TICK)
            if number:
                try:
                    os.kill(program, number)
                except OSError:
                    pass  # it has just ended


def main() -> None:
    """Stay in memory and be nobody's first victim, where this user may have it so; then watch."""
    ctypes.CDLL(None).mlockall(1)
    try:
        Path("/proc/self/oom_score_adj").write_text("-900")
    except OSError:
        pass  # only root may
    guard = Guard(json.loads(sys.argv[1]), Path(os.environ["STATE"]).resolve())
    signal.signal(signal.SIGTERM, guard.leave)
    guard.watch()


if __name__ == "__main__":
    main()
