"""What the screen shows, as frozen records. Times are seconds since the epoch; memory is in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from cockpit.bringup.names import Outcome, StepName, StepState
from cockpit.model.progress import Phase

if TYPE_CHECKING:
    # The records' types: what they are of is loaded by whoever makes them, after the first paint.
    from cockpit.logs.sources import Source
    from cockpit.model.command import Command, Completed
    from cockpit.model.facts import Member, Sample
    from cockpit.model.finding import Explanation, Fix, Problem
    from cockpit.model.profile import HostSpec, Profile
    from cockpit.model.verdict import Verdict
    from cockpit.serving.guard import GuardSeen
    from cockpit.serving.metrics import Metrics, Rates
    from cockpit.serving.prompt import PromptResult

HISTORY: Final = 300.0
"""Seconds of the past that the charts show."""


RUN: Final = "the run"
"""What is asked of the head for the last run, as a ``Trouble`` names it."""

STOPPED: Final = frozenset({StepState.FAILED, StepState.REFUSED})
"""Steps that somebody has to mend before they go on."""


class Link(StrEnum):
    """A host's connection: ``refused`` waits for the operator, ``lost`` is tried again by itself."""

    CONNECTING = "connecting"
    UP = "up"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class LinkView:
    """A connection as it stands since ``since``. ``rtt`` in seconds; ``next_try`` is when it is tried again."""

    state: Link = Link.CONNECTING
    since: float = 0.0
    rtt: float | None = None
    error: str = ""
    remedy: str = ""
    next_try: float | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes a second, in and out."""

    received: float
    sent: float


@dataclass(frozen=True, slots=True)
class Point:
    """One sample in the charts: ``used`` is the memory that is not available, ``gpu`` the GPU's own."""

    at: float
    used: int
    gpu: int | None = None


@dataclass(frozen=True, slots=True)
class RankView:
    """How far one rank is. ``points`` are (time, done) of the bar it draws; ``disk_from`` is the host's count of
    bytes read from its disks when it began to read weights."""

    rank: int
    phase: Phase
    since: float
    done: int | None = None
    total: int | None = None
    unit: str = ""
    detail: str = ""
    points: tuple[tuple[float, float], ...] = ()
    disk_from: int | None = None
    disk_until: int | None = None


@dataclass(frozen=True, slots=True)
class HostView:
    """One host. ``rank`` is the rank that is expected there; ``sampled_at`` is our clock's time of ``sample``."""

    spec: HostSpec
    rank: int | None
    link: LinkView = field(default_factory=LinkView)
    sample: Sample | None = None
    sampled_at: float = 0.0
    probe_error: str = ""
    history: tuple[Point, ...] = ()
    fabric: Flow | None = None
    disk_rate: float | None = None
    member: Member | None = None
    ranks: tuple[RankView, ...] = ()
    sources: tuple[Source, ...] = ()
    guard: GuardSeen | None = None

    @property
    def name(self) -> str:
        """The profile's name for it."""
        return self.spec.name


@dataclass(frozen=True, slots=True)
class CommandView:
    """A command that a step ran; ``completed`` is None while it runs, or when nobody knows how it ended."""

    command: Command
    completed: Completed | None = None


@dataclass(frozen=True, slots=True)
class StepView:
    """One step. ``state`` is None until the hosts were asked; ``took`` in seconds."""

    name: StepName
    title: str
    state: StepState | None = None
    reason: str = ""
    host: str = ""
    began: float | None = None
    took: float | None = None
    commands: tuple[CommandView, ...] = ()


@dataclass(frozen=True, slots=True)
class RunView:
    """The last run. ``phase`` is how far the whole engine is; ``seen_at`` is when the host was last asked;
    ``silent_since`` is when its log last grew; ``phases`` says when each phase was seen to begin."""

    id: str
    running: bool
    ready: bool
    phase: Phase = Phase.STARTING
    phase_since: float = 0.0
    began: float | None = None
    exit_status: int | None = None
    seen_at: float = 0.0
    silent_since: float = 0.0
    phases: tuple[tuple[Phase, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Activity:
    """What this cockpit's runner is doing, or did last: ``verb`` in words ("up", "undo launch")."""

    verb: str = ""
    busy: bool = False
    undoing: bool = False
    began: float = 0.0
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class MetricsPoint:
    """One look at /metrics in the charts."""

    at: float
    metrics: Metrics
    rates: Rates | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One prompt and what became of it. ``result`` is None while it is answered, or when it failed; for the
    runner's own prompt ``note`` has the figures in words instead."""

    text: str
    answer: str = ""
    reasoning: str = ""
    began: float = 0.0
    first: float | None = None
    result: PromptResult | None = None
    note: str = ""
    error: str = ""

    @property
    def open(self) -> bool:
        """Whether the answer is still coming."""
        return self.result is None and not self.error and not self.note


@dataclass(frozen=True, slots=True)
class FlagsView:
    """The flags' judgement. ``error`` says why there is none, ``unasked`` why it is none of vLLM's own."""

    vllm: str = ""
    problems: tuple[Problem, ...] = ()
    error: str = ""
    busy: bool = False
    unasked: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A question that could not be asked. ``since`` when that began."""

    what: str
    reason: str
    since: float


@dataclass(frozen=True, slots=True)
class State:
    """Everything on the screen at one moment, ``now``. ``epoch`` grows with every change."""

    name: str = ""
    now: float = 0.0
    epoch: int = 0
    read_only: bool = False
    profile: Profile | None = None
    profile_error: str = ""
    hosts: tuple[HostView, ...] = ()
    steps: tuple[StepView, ...] = ()
    run: RunView | None = None
    looked_at: float | None = None
    ray_error: str = ""
    ray_version: str = ""
    vllm_version: str = ""
    activity: Activity = field(default_factory=Activity)
    metrics: tuple[MetricsPoint, ...] = ()
    metrics_error: str = ""
    exchanges: tuple[Exchange, ...] = ()
    explanation: Explanation | None = None
    explained_run: str = ""
    flags: FlagsView = field(default_factory=FlagsView)
    verdicts: tuple[Verdict, ...] = ()
    cabling: str = ""
    troubles: tuple[Trouble, ...] = ()
    earlier: tuple[Mapping[Phase, float], ...] = ()

    def host(self, name: str) -> HostView | None:
        """The host called ``name``."""
        return next((host for host in self.hosts if host.name == name), None)

    def step(self, name: StepName) -> StepView:
        """The step called ``name``; raises ``StopIteration`` where there is none."""
        return next(step for step in self.steps if step.name is name)

    @property
    def refused(self) -> tuple[Problem, ...]:
        """The flags' errors, while the step stands refused for them and no run tells a cause."""
        flags = next((step for step in self.steps if step.name is StepName.FLAGS), None)
        if self.explanation is not None or flags is None or flags.state is not StepState.REFUSED:
            return ()
        from cockpit.model.finding import Severity

        return tuple(problem for problem in self.flags.problems if problem.severity is Severity.ERROR)

    @property
    def blocked(self) -> tuple[Verdict, ...]:
        """What preflight found in the way, while the step stands refused for it and no run tells a cause."""
        preflight = next((step for step in self.steps if step.name is StepName.PREFLIGHT), None)
        if self.explanation is not None or preflight is None or preflight.state is not StepState.REFUSED:
            return ()
        from cockpit.model.verdict import Grade

        return tuple(verdict for verdict in self.verdicts if verdict.grade is Grade.BLOCKED)

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """The changes of the profile that would mend what stands first."""
        found = self.explanation.findings[:1] if self.explanation else ()
        if not (found or self.blocked or self.refused):
            return ()
        from cockpit.model.finding import profile_fixes

        fixes = [fix for cause in found for fix in cause.fix if fix.of_profile]
        fixes += [fix for one in self.blocked for fix in one.fix if fix.of_profile]
        return (*fixes, *profile_fixes(self.refused))

    @property
    def loading(self) -> bool:
        """Whether a run is on its way to ready."""
        return self.run is not None and self.run.running and not self.run.ready

    @property
    def left(self) -> float | None:
        """Seconds until ready, by earlier loads of this profile; None where there was none."""
        run = self.run
        if run is None or not self.loading:
            return None
        from cockpit.serving.eta import phase_eta

        return phase_eta(self.earlier, run.phase, self.now - run.phase_since)

    @property
    def serving(self) -> bool:
        """Whether the model answers."""
        return self.run is not None and self.run.ready
