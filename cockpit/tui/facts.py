"""The vocabulary between what learns something and the store: one record for each thing that can be learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cockpit.bringup.events import Event, Outcome
    from cockpit.bringup.look import StepSeen
    from cockpit.logs.sources import Source
    from cockpit.model.facts import Membership, Sample
    from cockpit.model.finding import Explanation
    from cockpit.model.profile import Profile
    from cockpit.model.progress import Phase, Progress
    from cockpit.serving.guard import GuardSeen
    from cockpit.serving.metrics import Metrics
    from cockpit.serving.prompt import PromptResult
    from cockpit.tui.state import FlagsView, LinkView


@dataclass(frozen=True, slots=True)
class Ticked:
    """A second went by."""


@dataclass(frozen=True, slots=True)
class ProfileLoaded:
    """The profile was read, or read anew after a change."""

    profile: Profile


@dataclass(frozen=True, slots=True)
class ProfileFailed:
    """The profile can't be used."""

    error: str


@dataclass(frozen=True, slots=True)
class EarlierRead:
    """How long each phase of earlier loads took, in seconds."""

    loads: tuple[Mapping[Phase, float], ...]


@dataclass(frozen=True, slots=True)
class LinkChanged:
    """A host's connection changed."""

    host: str
    link: LinkView


@dataclass(frozen=True, slots=True)
class Pinged:
    """A round trip was measured, in seconds."""

    host: str
    rtt: float


@dataclass(frozen=True, slots=True)
class SampleTaken:
    """The probe's next line."""

    host: str
    sample: Sample


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """The host answers, its probe does not."""

    host: str
    error: str


@dataclass(frozen=True, slots=True)
class GuardTold:
    """How a host's memory guard stands; None where none has run."""

    host: str
    guard: GuardSeen | None


@dataclass(frozen=True, slots=True)
class MembershipSeen:
    """Ray's node table; None where the profile has no Ray."""

    membership: Membership | None


@dataclass(frozen=True, slots=True)
class RunSeen:
    """How the last run stands; None where there never was one. ``began`` in seconds since the epoch."""

    id: str | None
    running: bool = False
    ready: bool = False
    exit_status: int | None = None
    began: float | None = None
    vllm: str = ""


@dataclass(frozen=True, slots=True)
class StepsSeen:
    """Every step's state, as the hosts have it."""

    steps: tuple[StepSeen, ...]


@dataclass(frozen=True, slots=True)
class LookFailed:
    """A question to the head could not be asked."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkBegan:
    """The runner began."""

    verb: str
    undoing: bool = False


@dataclass(frozen=True, slots=True)
class WorkEnded:
    """The runner ended; ``outcome`` is None for a single step that did what it should."""

    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Happened:
    """The runner tells of an event."""

    event: Event


@dataclass(frozen=True, slots=True)
class LoadTold:
    """The serve log of ``run`` tells of a step forward on ``host``."""

    run: str
    host: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class LogGrew:
    """The serve log of ``run`` has new bytes; ``vllm`` is the version that its banner tells."""

    run: str
    vllm: str = ""


@dataclass(frozen=True, slots=True)
class SourcesSeen:
    """The logs a host has."""

    host: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class MetricsTaken:
    """One look at /metrics."""

    metrics: Metrics


@dataclass(frozen=True, slots=True)
class MetricsFailed:
    """/metrics could not be asked."""

    error: str


@dataclass(frozen=True, slots=True)
class PromptAsked:
    """A prompt was sent."""

    text: str


@dataclass(frozen=True, slots=True)
class PromptPiece:
    """A piece of the answer came."""

    text: str
    reasoning: str


@dataclass(frozen=True, slots=True)
class PromptEnded:
    """The answer is complete, or ``error`` says why it will not be."""

    result: PromptResult | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """The logs of ``run`` were explained."""

    run: str
    explanation: Explanation | None


@dataclass(frozen=True, slots=True)
class FlagsJudged:
    """The flags were judged, or are being judged."""

    flags: FlagsView


Fact = (
    Ticked
    | ProfileLoaded
    | ProfileFailed
    | EarlierRead
    | LinkChanged
    | Pinged
    | SampleTaken
    | ProbeFailed
    | GuardTold
    | MembershipSeen
    | RunSeen
    | StepsSeen
    | LookFailed
    | WorkBegan
    | WorkEnded
    | Happened
    | LoadTold
    | LogGrew
    | SourcesSeen
    | MetricsTaken
    | MetricsFailed
    | PromptAsked
    | PromptPiece
    | PromptEnded
    | Explained
    | FlagsJudged
)
