"""A recorded load, played to the screen at its own pace or faster: ``python -m cockpit.tui.replay FOLDER NAME``.

A recording is ``NAME.log`` with ``NAME.time`` (for each line: seconds since the start, byte offset, length), and
beside it nvidia-smi's ``NAME.gpu.csv`` and ``NAME.apps.csv`` and ``NAME.meminfo.tsv``, a sample a second each.
The recorded nodes were two GPUs of one machine: each host of the replay has one of them, and the memory and the
disk of the machine. Nothing is reached and nothing can be started.
"""

from __future__ import annotations

import asyncio
import csv
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cockpit.bringup.events import Outcome, StepChanged, StepName, StepState
from cockpit.bringup.look import StepSeen
from cockpit.bringup.runner import Planned
from cockpit.bringup.step import Report
from cockpit.bringup.steps import all_steps
from cockpit.bringup.watch import host_of
from cockpit.logs.sources import Kind, Reach, Source
from cockpit.model.command import Command
from cockpit.model.errors import CockpitError
from cockpit.model.facts import Gpu, GpuProcess, Member, Membership, MemberState, Memory, Sample
from cockpit.model.profile import Fabric, FlagValue, HostSpec, NativeRuntime, Profile, Role, ServeSpec
from cockpit.serving.load import LoadWatch
from cockpit.tui import facts as f
from cockpit.tui.feed import Key
from cockpit.tui.flag_desk import KnownFlags
from cockpit.tui.state import Link, LinkView
from cockpit.tui.store import Store

if TYPE_CHECKING:
    from cockpit.bringup.preparation.preparer import Confirm, Show
    from cockpit.bringup.preparation.task import Tell

MIB: Final = 1024 * 1024
RUN: Final = "recorded"
SECTOR: Final = 512
_DONE: Final = (
    StepName.CONNECT,
    StepName.PREFLIGHT,
    StepName.RAY_HEAD,
    StepName.RAY_WORKERS,
    StepName.MEMBERSHIP,
    StepName.FLAGS,
    StepName.LAUNCH,
)


def _nobody(*_: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Something of the recording: ``at`` in seconds since its start; bytes of the log, or a host's sample."""

    at: float
    log: bytes = b""
    host: str = ""
    sample: Sample | None = None


def profile_of(name: str) -> Profile:
    """What was recorded, as a profile."""
    flags: dict[str, FlagValue] = {
        "tensor-parallel-size": 2,
        "distributed-executor-backend": "ray",
        "max-model-len": 8192,
    }
    return Profile(
        name=f"replay {name}",
        hosts=(
            HostSpec("node-a", "10.77.1.1", Role.HEAD, Fabric("10.77.1.1")),
            HostSpec("node-b", "10.77.1.2", Role.WORKER, Fabric("10.77.1.2")),
        ),
        runtime=NativeRuntime("recorded"),
        serve=ServeSpec("/models/big", "big", flags),
        description="a recorded load",
    )


def read(folder: Path, name: str) -> list[Moment]:
    """The recording's moments in order. Raises ``OSError`` or ``ValueError``."""
    moments = [*_log(folder, name), *_samples(folder, name)]
    return sorted(moments, key=lambda moment: moment.at)


def _log(folder: Path, name: str) -> Iterator[Moment]:
    data = (folder / f"{name}.log").read_bytes()
    for line in (folder / f"{name}.time").read_text().splitlines():
        at, offset, length = line.split("\t")
        yield Moment(float(at), data[int(offset) : int(offset) + int(length)])


def _rows(path: Path, delimiter: str) -> list[list[str]]:
    with path.open(newline="") as file:
        return [[cell.strip() for cell in row] for row in csv.reader(file, delimiter=delimiter)][1:]


def _number(cell: str) -> float:
    return float(cell.split(" ")[0])


def _stamp(cell: str) -> float:
    return datetime.strptime(cell, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()


def _samples(folder: Path, name: str) -> Iterator[Moment]:
    memory = _rows(folder / f"{name}.meminfo.tsv", "\t")
    start = float(memory[0][0])
    hosts = [host.name for host in profile_of(name).hosts]
    processes = _processes(folder / f"{name}.apps.csv")
    at_memory = 0
    for row in _rows(folder / f"{name}.gpu.csv", ","):
        stamp, index = _stamp(row[0]), int(row[1])
        while at_memory + 1 < len(memory) and float(memory[at_memory + 1][0]) <= stamp:
            at_memory += 1
        gpu = Gpu(
            0,
            row[2],
            round(_number(row[3]) * MIB),
            round(_number(row[4]) * MIB),
            _number(row[6]),
            _number(row[9]),
            _number(row[8]),
        )
        shares = processes.get((round(stamp), index), ())
        sample = _sample(stamp, memory[at_memory], gpu, shares)
        yield Moment(stamp - start, host=hosts[index], sample=sample)


def _processes(path: Path) -> dict[tuple[int, int], tuple[GpuProcess, ...]]:
    """The processes of each second and GPU; GPUs are numbered as they first appear."""
    found: dict[tuple[int, int], tuple[GpuProcess, ...]] = {}
    order: dict[str, int] = {}
    for stamp, uuid, pid, process, used in _rows(path, ","):
        key = (round(_stamp(stamp)), order.setdefault(uuid, len(order)))
        found[key] = (*found.get(key, ()), GpuProcess(int(pid), process, round(_number(used) * MIB)))
    return found


def _sample(stamp: float, row: list[str], gpu: Gpu, processes: tuple[GpuProcess, ...]) -> Sample:
    _, total, _, available, buffers, cached, shared, swap, swap_free, sectors = (float(cell) for cell in row)
    memory = Memory(
        round(total) * 1024,
        round(available) * 1024,
        round(buffers + cached - shared) * 1024,
        round(swap) * 1024,
        round(swap_free) * 1024,
        sum(process.used or 0 for process in processes),
    )
    return Sample(stamp, memory, (gpu,), processes, (), round(sectors) * SECTOR)


class Clock:
    """The replay's time: that of the recording, seconds since the epoch."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.at = 0.0

    def __call__(self) -> float:
        """Now."""
        return self.start + self.at


class Replay:
    """Brings a recording to a store; takes no intents."""

    def __init__(self, folder: Path, name: str, *, speed: float = 1.0) -> None:
        self.on_log: Callable[[Key, Path], None] = _nobody
        self.profile = profile_of(name)
        self.moments = read(folder, name)
        first = next(moment for moment in self.moments if moment.sample is not None)
        assert first.sample is not None
        self.clock = Clock(first.sample.at - first.at)
        self.store = Store(self.profile.name, read_only=True, clock=self.clock)
        self.pace = True
        self._speed = speed
        self._next = 0
        self._watch = LoadWatch(0.0)
        self._ready = False
        self._pace: asyncio.Task[None] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="spark-cockpit-replay-")
        self.path = Path(self._folder.name) / "serve.log"
        self.path.touch()

    # Time

    def advance(self, until: float) -> None:
        """Play up to ``until``, in seconds since the recording's start."""
        while self._next < len(self.moments) and self.moments[self._next].at <= until:
            moment = self.moments[self._next]
            self._next += 1
            self.clock.at = max(self.clock.at, moment.at)
            self._play(moment)
        self.clock.at = until
        self.store.apply(f.Ticked())

    @property
    def over(self) -> bool:
        """Whether all was played."""
        return self._next >= len(self.moments)

    def _play(self, moment: Moment) -> None:
        if moment.sample is not None:
            self.store.apply(f.SampleTaken(moment.host, moment.sample))
        if moment.log:
            with self.path.open("ab") as file:
                file.write(moment.log)
            for step in self._watch.feed(moment.log, moment.at):
                self.store.apply(f.LoadTold(RUN, host_of(self.profile, step), step))
            self.store.apply(f.LogGrew(RUN))
            if not self._ready and self._watch.state.phase.value == "ready":
                self._become_ready()

    def _become_ready(self) -> None:
        self._ready = True
        self.store.apply(self._run(ready=True))
        self.store.happened(StepChanged(StepName.LOAD, StepState.DONE, "ready"))

    def _run(self, *, ready: bool) -> f.RunSeen:
        return f.RunSeen(RUN, True, ready, None, self.clock.start, "0.24.0")

    # A feed

    async def open(self, name: str) -> None:
        """Begin: everything before the load stands. Without ``pace`` somebody else calls ``advance``."""
        if self.pace:
            self.begin()
            self._pace = asyncio.create_task(self._play_on())

    def begin(self) -> None:
        """What was before the recording's first second."""
        store, hosts = self.store, self.profile.hosts
        store.apply(f.ProfileLoaded(self.profile))
        for host in hosts:
            store.apply(f.LinkChanged(host.name, LinkView(Link.UP, self.clock())))
        members = tuple(Member(h.name, MemberState.JOINED, h.cluster_address, 1.0) for h in hosts)
        store.apply(f.MembershipSeen(Membership(True, members, "2.60.0")))
        store.apply(self._run(ready=False))
        store.apply(f.SourcesSeen(hosts[0].name, (self._source(),)))
        reports = [StepSeen(name, Report(StepState.DONE)) for name in _DONE]
        reports.append(StepSeen(StepName.CONTAINERS, Report(StepState.NOT_NEEDED)))
        reports.append(StepSeen(StepName.PROMPT, Report(StepState.WAITING, "for the model to be ready")))
        store.apply(f.StepsSeen(tuple(reports)))
        store.happened(StepChanged(StepName.LOAD, StepState.RUNNING))

    async def _play_on(self) -> None:
        began = time.monotonic()
        while not self.over:
            self.advance((time.monotonic() - began) * self._speed)
            await asyncio.sleep(min(1.0, 1.0 / self._speed))

    def _source(self) -> Source:
        name = self.profile.head.name
        return Source(name, "serve", Kind.SERVE, Reach.HOST, str(self.path), RUN, True)

    def serve_source(self) -> Source | None:
        """The recorded log."""
        return self._source()

    def show_log(self, source: Source) -> None:
        """It is there at once."""
        self.on_log((source.host, source.name, source.run), self.path)

    async def close(self) -> None:
        """End."""
        if self._pace is not None:
            self._pace.cancel()
        self._folder.cleanup()

    async def reopen(self, name: str) -> None:
        """Nothing changes."""

    busy = False

    def plan(self) -> tuple[Planned, ...]:
        """No commands."""
        return tuple(Planned(step, ()) for step in all_steps())

    def undo_plan(self, name: StepName | None) -> tuple[Command, ...]:
        """No commands."""
        return ()

    def up(self, through: StepName = StepName.PROMPT, *, forced: bool = False) -> None:
        """A replay starts nothing."""

    def down(self) -> None:
        """A replay starts nothing."""

    def run_step(self, name: StepName) -> None:
        """A replay starts nothing."""

    def undo_step(self, name: StepName) -> None:
        """A replay starts nothing."""

    def stop_watching(self) -> None:
        """Nothing is watched."""

    def attend(self, watched: bool) -> None:
        """Nothing is served."""

    def wake(self) -> None:
        """Nobody is asked."""

    def ask(self, text: str, **changes: Any) -> None:
        """Nobody answers."""

    def stop_answer(self) -> None:
        """Nobody answers."""

    def explain(self, *, stacks: bool = False) -> None:
        """Nothing is explained."""

    async def report(self) -> str:
        """No report."""
        return ""

    def judge_flags(self) -> None:
        """Nobody judges."""

    async def prepare(self, confirm: Confirm, show: Show, tell: Tell) -> Outcome:
        """Nothing is reached."""
        raise CockpitError("Nothing is reached from here.")

    def flag_desk(self) -> KnownFlags:
        """Shipped flags."""
        return KnownFlags()


def main(arguments: list[str]) -> int:
    """Play ``FOLDER NAME [SPEED]``."""
    from cockpit.tui.app import CockpitApp

    if len(arguments) not in (2, 3):
        print("usage: python -m cockpit.tui.replay FOLDER NAME [SPEED]", file=sys.stderr)
        return 2
    folder, name, *speed = arguments
    try:
        pace = float(speed[0]) if speed else 1.0
        if not 0 < pace < float("inf"):
            raise ValueError(f"{pace} is no speed: 1 is the recording's own")
        replay = Replay(Path(folder), name, speed=pace)
    except (OSError, ValueError) as error:
        print(f"{name} of {folder} can't be played: {error}", file=sys.stderr)
        return 2
    CockpitApp(replay.profile.name, store=replay.store, feed=lambda _store, _ask: replay, remembers=False).run()
    return 0


if __name__ == "__main__":
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    raise SystemExit(main(sys.argv[1:]))
