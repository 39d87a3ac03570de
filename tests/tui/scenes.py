"""States of the screen for tests: a store that facts were put into, and a feed that reaches nothing.

The feed stands in for the hosts where a test is about what is shown; the tests with the lab use the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cockpit.bringup.events import Found, Outcome, StepChanged, StepName, StepState, Surveyed
from cockpit.bringup.look import StepSeen
from cockpit.bringup.preparation.preparer import Confirm, Show
from cockpit.bringup.preparation.task import Tell
from cockpit.bringup.runner import Planned, plan
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps import all_steps
from cockpit.logs.sources import Kind, Reach, Source
from cockpit.model.command import Command
from cockpit.model.facts import (
    Gpu,
    GpuProcess,
    Interface,
    Member,
    Membership,
    MemberState,
    Memory,
    Sample,
)
from cockpit.model.finding import Confidence, Evidence, Explanation, Finding, Fix, Severity
from cockpit.model.profile import Fabric, HostSpec, NativeRuntime, Place, Profile, Role, ServeSpec
from cockpit.model.profile_error import Mistake, ProfileError
from cockpit.model.progress import Phase, Progress
from cockpit.model.verdict import Grade, Verdict
from cockpit.runtime.environment import environment
from cockpit.serving.guard import GuardSeen
from cockpit.serving.metrics import Metrics
from cockpit.serving.prompt import PromptResult
from cockpit.tui import facts as f
from cockpit.tui.app import CockpitApp
from cockpit.tui.flag_desk import FlagDesk, KnownFlags
from cockpit.tui.prepare_screen import Prepare
from cockpit.tui.replay import Replay
from cockpit.tui.state import Link, LinkView
from cockpit.tui.store import Store

RECORDINGS = Path(__file__).parent.parent / "data" / "gpu"
GIB = 1024**3
START = 1796072748.0
HOSTILE = "\x1b]52;c;UFdORUQ=\x07\x1b]2;TITLE\x07\x1b[2J[red]x[/]\x9b31m\u202eevil"
"""Clipboard and title sequences, a clear screen, markup, a C1 control, a bidirectional override."""


class FixedClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def _nobody(_key: tuple[str, str, str], _path: Path) -> None:
    """Nobody listens."""


class QuietFeed:
    """Reaches nothing; notes what it was asked for."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[tuple[str, object]] = []
        self.source: Source | None = None
        self.busy = False
        self.desk: FlagDesk = KnownFlags()
        self.preparation: Prepare | None = None
        self.attended = False
        self.path: Path | None = None
        self.paths: dict[str, Path] = {}
        """Of sources by their names, where they are not at ``path``."""
        self.on_log: Callable[[tuple[str, str, str], Path], None] = _nobody

    async def open(self, name: str) -> None:
        self.asked.append(("open", name))

    async def close(self) -> None:
        self.asked.append(("close", None))

    async def reopen(self, name: str) -> None:
        self.asked.append(("reopen", name))

    def plan(self) -> tuple[Planned, ...]:
        profile = self.store.state.profile
        return plan(Planner(profile, environment(profile))) if profile else ()

    def undo_plan(self, name: StepName | None) -> tuple[Command, ...]:
        profile = self.store.state.profile
        if profile is None:
            return ()
        planner = Planner(profile, environment(profile))
        steps = [step for step in all_steps() if name is None or step.name is name]
        return tuple(command for step in steps for command in step.undo_plan(planner))

    def up(self, through: StepName = StepName.PROMPT, *, forced: bool = False) -> None:
        self.asked.append(("up", (through, forced)))

    def down(self) -> None:
        self.asked.append(("down", None))

    def run_step(self, name: StepName) -> None:
        self.asked.append(("run_step", name))

    def undo_step(self, name: StepName) -> None:
        self.asked.append(("undo_step", name))

    def stop_watching(self) -> None:
        self.asked.append(("stop_watching", None))

    def attend(self, watched: bool) -> None:
        self.attended = watched

    def wake(self) -> None:
        self.asked.append(("wake", None))

    def ask(self, text: str, **changes: Any) -> None:
        self.asked.append(("ask", (text, changes)))

    def stop_answer(self) -> None:
        self.asked.append(("stop_answer", None))

    def explain(self, *, stacks: bool = False) -> None:
        self.asked.append(("explain", "stacks" if stacks else None))

    async def report(self) -> str:
        return "# report\n"

    def judge_flags(self) -> None:
        self.asked.append(("judge_flags", None))

    async def prepare(self, confirm: Confirm, show: Show, tell: Tell) -> Outcome:
        self.asked.append(("prepare", None))
        if self.preparation is None:
            return Outcome.READY
        return await self.preparation(confirm, show, tell)

    def flag_desk(self) -> FlagDesk:
        return self.desk

    def serve_source(self) -> Source | None:
        return self.source

    def show_log(self, source: Source) -> None:
        path = self.paths.get(source.name, self.path)
        if path is not None:
            self.on_log((source.host, source.name, source.run), path)


def profile(**changes: Any) -> Profile:
    """Two Sparks."""
    made = Profile(
        name="qwen3.5-122b-fp8",
        hosts=(
            HostSpec("spark-1", "spark-1.local", Role.HEAD, Fabric("192.168.100.10", "enp1s0f1np1")),
            HostSpec("spark-2", "spark-2.local", Role.WORKER, Fabric("192.168.100.11", "enp1s0f1np1")),
        ),
        runtime=NativeRuntime("/opt/vllm"),
        serve=ServeSpec(
            "Qwen/Qwen3.5-122B-A10B-FP8",
            "qwen3.5-122b",
            {"tensor-parallel-size": 2, "distributed-executor-backend": "ray", "gpu-memory-utilization": 0.8},
        ),
    )
    return replace(made, **changes)


def sample(at: float, gpu: float, other: float = 3.1, cache: float = 9.8, **changes: Any) -> Sample:
    """A sample of a GB10 host; sizes in GiB."""
    total = 119.7
    used = gpu + other
    memory = Memory(
        round(total * GIB),
        round((total - used) * GIB),
        round(cache * GIB),
        16 * GIB,
        16 * GIB,
        round(gpu * GIB),
        0.0,
    )
    made = Sample(
        at,
        memory,
        (Gpu(0, "NVIDIA GB10", None, None, 12.0, 41.0, 52.0),),
        (GpuProcess(4581, "ray::RayWorkerProc.run", round(gpu * GIB)),) if gpu else (),
        (Interface("enp1s0f1np1", round(at % 1000 * 1e9), round(at % 1000 * 1e8)),),
        round(at % 1000 * GIB * 1.5),
    )
    return replace(made, **changes)


@dataclass
class Scene:
    """A store with its clock, and what is put into it."""

    read_only: bool = False
    clock: FixedClock = field(default_factory=FixedClock)
    profile: Profile = field(default_factory=profile)
    store: Store = field(init=False)
    feed: QuietFeed = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.profile.name, read_only=self.read_only, clock=self.clock)
        self.feed = QuietFeed(self.store)

    def app(self) -> CockpitApp:
        """The app on this scene."""
        return CockpitApp(
            self.profile.name, store=self.store, feed=lambda _store, _ask: self.feed, remembers=False
        )

    def tell(self, *facts: f.Fact) -> Scene:
        """Put facts in."""
        for fact in facts:
            self.store.apply(fact)
        return self

    def later(self, seconds: float) -> Scene:
        """Let time pass."""
        self.clock.now += seconds
        return self.tell(f.Ticked())

    def opened(self) -> Scene:
        """The profile is read and both hosts answer."""
        self.tell(f.ProfileLoaded(self.profile))
        for host in self.profile.hosts:
            self.tell(f.LinkChanged(host.name, LinkView(Link.UP, self.clock(), 0.0006)))
        return self.steps(connect=StepState.DONE, preflight=StepState.READY_TO_RUN)

    def steps(self, **states: StepState) -> Scene:
        """The steps as a look has them; those not named wait."""
        given = {name.replace("_", "-"): state for name, state in states.items()}
        reports = [StepSeen(name, Report(given.get(name.value, StepState.WAITING), "")) for name in StepName]
        return self.tell(f.StepsSeen(tuple(reports)))

    def samples(self, count: int, gpu: Callable[[int], float], hosts: Iterable[str] = ()) -> Scene:
        """``count`` seconds of samples."""
        names = tuple(hosts) or tuple(host.name for host in self.profile.hosts)
        for second in range(count):
            self.clock.now += 1
            for number, name in enumerate(names):
                self.tell(f.SampleTaken(name, sample(self.clock(), gpu(second) * (1 - 0.03 * number))))
        return self

    def joined(self) -> Scene:
        """Ray is complete."""
        members = tuple(Member(h.name, MemberState.JOINED, h.cluster_address, 1.0) for h in self.profile.hosts)
        return self.tell(f.MembershipSeen(Membership(True, members, "2.53.0")))

    def loading(self) -> Scene:
        """A run that reads its weights."""
        self.opened().joined()
        done = ("connect", "preflight", "ray_head", "ray_workers", "membership", "flags", "launch")
        self.steps(
            **dict.fromkeys(done, StepState.DONE), containers=StepState.NOT_NEEDED, load=StepState.READY_TO_RUN
        )
        run = "20261130-202600-7f3a"
        self.tell(f.RunSeen(run, True, False, None, self.clock(), "0.17.1"))
        for host in self.profile.hosts:
            self.tell(f.GuardTold(host.name, guard(self.clock())))
        self.store.happened(StepChanged(StepName.LOAD, StepState.RUNNING))
        self.samples(60, lambda second: min(70.0, second * 2.0))
        for rank, host in enumerate(self.profile.hosts):
            self.tell(f.LoadTold(run, host.name, Progress(Phase.NCCL, 40, rank)))
        self.samples(30, lambda _second: 71.2)
        for done_now in range(19):
            self.clock.now += 1
            step = Progress(Phase.WEIGHTS, 50 + done_now, 0, "", done_now, 39, "shards")
            self.tell(f.LoadTold(run, self.profile.hosts[0].name, step))
        self.tell(f.LoadTold(run, self.profile.hosts[1].name, Progress(Phase.WEIGHTS, 60, 1)))
        return self.samples(2, lambda _second: 71.2)

    def surveyed(self) -> Scene:
        """Preflight found something in the way."""
        self.opened().samples(3, lambda _second: 0.0)
        self.store.happened(Surveyed(VERDICTS, CABLING))
        reason = "spark-2: nvidia-smi does not answer."
        self.store.happened(StepChanged(StepName.PREFLIGHT, StepState.REFUSED, reason, "spark-2"))
        return self.tell(f.WorkEnded())

    def stopped(self) -> Scene:
        """A run that the operator stopped."""
        self.opened().joined().samples(3, lambda _second: 0.0)
        run = "20261130-202600-7f3a"
        self.tell(f.RunSeen(run, False, False, 0, self.clock()), f.Explained(run, Explanation("stopped")))
        return self.steps(connect=StepState.DONE, launch=StepState.READY_TO_RUN)

    def ready(self) -> Scene:
        """A run that serves."""
        self.loading()
        self.tell(f.RunSeen("20261130-202600-7f3a", True, True, None, START))
        self.store.happened(StepChanged(StepName.LOAD, StepState.DONE, "ready"))
        self.tell(f.WorkEnded())
        for second in range(60):
            self.clock.now += 2
            busy = 20 if 20 < second < 50 else 1
            self.tell(
                f.MetricsTaken(
                    Metrics(busy, 0, busy / 100, second * 30.0, second * busy * 4.0, second * 0.4, second)
                )
            )
        return self.samples(2, lambda _second: 96.0)

    def answered(self) -> Scene:
        """A prompt with its answer."""
        self.ready()
        result = PromptResult(
            "Two Sparks, one cable.", "The user asks what I am.", "qwen3.5-122b", 0.31, 24.2,
            {"prompt_tokens": 17, "completion_tokens": 6}, "stop",
        )  # fmt: skip
        self.tell(f.PromptAsked("What are you?"), f.PromptPiece("", "The user asks what I am."))
        return self.tell(f.PromptPiece("Two Sparks, one cable.", ""), f.PromptEnded(result))

    def failed(self, evidence: Evidence | None = None) -> Scene:
        """A run that died, with the cause; ``evidence`` in place of the serve log's line."""
        self.opened().joined().samples(3, lambda _second: 0.0)
        run = "20261130-202600-7f3a"
        self.tell(f.RunSeen(run, False, False, 1, self.clock()))
        self.store.happened(
            StepChanged(StepName.LOAD, StepState.FAILED, f"Run {run}: it ended with exit status 1.", "spark-1")
        )
        found = finding(run)
        self.store.happened(Found(replace(found, evidence=(evidence,)) if evidence else found))
        return self.tell(f.WorkEnded())

    def dead_host(self) -> Scene:
        """The worker is gone; the head goes on."""
        self.loading()
        self.tell(
            f.LinkChanged(
                "spark-2",
                LinkView(
                    Link.LOST,
                    self.clock(),
                    None,
                    "the connection is gone: no answer to 3 keepalives.",
                    "Whatever runs on the host goes on. Connect again and look at its state.",
                    self.clock() + 49,
                ),
            )
        )
        self.samples(45, lambda _second: 71.2, ["spark-1"])
        return self.tell(f.Ticked())

    def unreachable(self) -> Scene:
        """Neither host was ever reached."""
        self.tell(f.ProfileLoaded(self.profile))
        return self.lost(*(host.name for host in self.profile.hosts)).later(5)

    def lost(self, *hosts: str) -> Scene:
        """The connections to these are gone."""
        remedy = "Check that the host is up and that `ssh` gets through from here."
        for host in hosts:
            why = f"{host} cannot be reached: Connection refused."
            self.tell(
                f.LinkChanged(host, LinkView(Link.LOST, self.clock(), None, why, remedy, self.clock() + 15))
            )
        return self

    def mistaken(self, count: int = 20) -> Scene:
        """A profile with mistakes."""
        place = Place("two.yaml", 1, 1)
        mistakes = [
            Mistake(
                replace(place, line=line),
                f"hosts[0].name: expected text (put quotes around it), found the number {line}.",
            )
            for line in range(1, count + 1)
        ]
        return self.tell(f.ProfileFailed(str(ProfileError("two.yaml", mistakes))))


def guard(at: float, **changes: Any) -> GuardSeen:
    """A memory guard that watches."""
    reserve = round(7.98 * GIB)
    return replace(GuardSeen("watching", "", at, "", reserve, 40 * GIB, round(35.6 * GIB), 0.0), **changes)


CABLING = """\
spark-1
  enp1s0f1np1 (192.168.100.10/24, MTU 9000) ══ 200 Gb/s ══ spark-2 enp1s0f1np1
spark-2
  enp1s0f1np1 (192.168.100.11/24, MTU 1500) ══ 200 Gb/s ══ spark-1 enp1s0f1np1"""
VERDICTS = (
    Verdict("system", ("spark-1", "spark-2"), Grade.READY, "Ubuntu 24.04, aarch64."),
    Verdict(
        "mtu", ("spark-2",), Grade.SLOW, "The fabric's MTU is 1500, spark-1 has 9000.", "Small frames cost time.",
        "On spark-2: sudo ip link set enp1s0f1np1 mtu 9000",
    ),
    Verdict(
        "gpu", ("spark-2",), Grade.BLOCKED, "nvidia-smi does not answer.", "No rank can run there.",
        "On spark-2: sudo systemctl restart nvidia-persistenced",
    ),
    Verdict(
        "memory", ("spark-1",), Grade.BLOCKED, "The profile asks for more memory than is available.", "",
        "Ask for less.",
        (Fix("Lower it.", {"set": {"serve.flags.gpu-memory-utilization": 0.7}}),),
    ),
)  # fmt: skip


def finding(run: str = "7f3a") -> Finding:
    """The cause that everything is measured against."""
    return Finding(
        "executor-backend",
        Severity.ERROR,
        "Tensor parallelism over two hosts was not told to use Ray.\nWorld size is 2, spark-1 has 1 GPU, and no "
        "--distributed-executor-backend is set, so vLLM looked for both GPUs on spark-1.",
        Confidence.CERTAIN,
        "spark-1",
        (
            Fix(
                "Set distributed-executor-backend to ray.",
                {"set": {"serve.flags.distributed-executor-backend": "ray"}},
            ),
        ),
        (
            Evidence(
                f"serve.log of run {run} on spark-1",
                312,
                "World size (2) is larger than the number of available GPUs (1) in this node.",
            ),
        ),
    )


def hostile() -> Scene:
    """Hostile text in every field that comes from a host or the API."""
    scene = Scene().opened()
    bad = HOSTILE
    for name in ("spark-1", "spark-2"):
        taken = sample(
            scene.clock(),
            10.0,
            gpus=(Gpu(0, bad, None, None, 1.0, 1.0, 1.0),),
            processes=(GpuProcess(1, bad, GIB),),
            interfaces=(Interface(bad, 1, 1),),
        )
        scene.tell(f.SampleTaken(name, taken))
    members = (
        Member("spark-1", MemberState.WRONG_ADDRESS, bad, 1.0),
        Member("spark-2", MemberState.UNEXPECTED, bad, 0.0),
    )
    scene.tell(f.MembershipSeen(Membership(True, members, bad, bad)))
    scene.tell(f.RunSeen(bad, True, False, None, scene.clock(), bad))
    scene.tell(f.LoadTold(bad, "spark-1", Progress(Phase.GRAPHS, 1, 0, bad, 1, 2, "graphs", bad)))
    scene.tell(f.LoadTold(bad, "spark-2", Progress(Phase.KV_CACHE, 1, 1, bad, detail=bad)))
    source = Source("spark-1", bad, Kind.RAY, Reach.ENVIRONMENT, bad, bad, False, 1, 1.0, bad)
    scene.tell(f.SourcesSeen("spark-1", (source,)), f.LookFailed(bad, bad), f.MetricsFailed(bad))
    scene.tell(f.ProbeFailed("spark-2", bad))
    scene.tell(f.GuardTold("spark-1", guard(scene.clock(), state=bad, reason=bad)))
    verdict = Verdict(bad, (bad,), Grade.BLOCKED, bad, bad, bad, (Fix(bad, {"set": {bad: bad}}),))
    scene.store.happened(Surveyed((verdict,), bad))
    scene.store.happened(StepChanged(StepName.LOAD, StepState.FAILED, bad, bad))
    scene.store.happened(
        Found(
            Finding(
                bad, Severity.ERROR, bad, Confidence.LIKELY, bad,
                (Fix(bad, {"set": {bad: bad}, "unset": [bad]}),), (Evidence(bad, 1, bad),),
            )
        )
    )  # fmt: skip
    return scene.tell(f.PromptAsked(bad), f.PromptPiece(bad, bad), f.PromptEnded(error=bad))


def replay_at(second: float) -> tuple[CockpitApp, Replay]:
    """The recorded cold load, at a second of it."""
    replay = Replay(RECORDINGS, "ray_tp2_cold")
    replay.pace = False
    app = CockpitApp(replay.profile.name, store=replay.store, feed=lambda _store, _ask: replay, remembers=False)
    replay.begin()
    replay.advance(second)
    return app, replay
