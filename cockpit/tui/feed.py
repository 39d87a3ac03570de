"""What the screen asks of whatever stands behind it: the hosts (``live.Live``), or a replay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from cockpit.bringup.names import Outcome, StepName

if TYPE_CHECKING:
    from cockpit.bringup.preparation.preparer import Confirm, Show
    from cockpit.bringup.preparation.task import Tell
    from cockpit.bringup.runner import Planned
    from cockpit.hosts.errors import HostKeyUnknown
    from cockpit.logs.sources import Source
    from cockpit.model.command import Command
    from cockpit.tui.flag_desk import FlagDesk
    from cockpit.tui.store import Store

Key = tuple[str, str, str]
"""A log: host, source, run ("" where it belongs to none)."""


def key_of(source: Source) -> Key:
    """The log of a source."""
    return source.host, source.name, source.run


class Feed(Protocol):
    """What brings facts to the store, and takes intents: the hosts (``live.Live``), or a replay."""

    on_log: Callable[[Key, Path], None]

    async def open(self, name: str) -> None:
        """Begin."""
        ...

    async def close(self) -> None:
        """End; nothing on the hosts ends with it."""
        ...

    async def reopen(self, name: str) -> None:
        """Begin anew with the profile as it is in its file."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a step is being run from here."""
        ...

    def plan(self) -> tuple[Planned, ...]:
        """Every step's commands."""
        ...

    def undo_plan(self, name: StepName | None) -> tuple[Command, ...]:
        """The commands that take back a step, or all."""
        ...

    def up(self, through: StepName = StepName.PROMPT, *, forced: bool = False) -> None:
        """All steps in order."""
        ...

    def down(self) -> None:
        """All steps undone."""
        ...

    def run_step(self, name: StepName) -> None:
        """One step."""
        ...

    def undo_step(self, name: StepName) -> None:
        """One step taken back."""
        ...

    def stop_watching(self) -> None:
        """Detach."""
        ...

    def attend(self, watched: bool) -> None:
        """Whether somebody looks at the charts of what is served."""
        ...

    def wake(self) -> None:
        """Ask every host now."""
        ...

    def ask(self, text: str, **changes: Any) -> None:
        """Send a prompt."""
        ...

    def stop_answer(self) -> None:
        """Cancel it."""
        ...

    def explain(self, *, stacks: bool = False) -> None:
        """Explain the last run; with ``stacks`` those of every rank are taken first."""
        ...

    async def report(self) -> str:
        """A report for others."""
        ...

    def judge_flags(self) -> None:
        """Judge the flags."""
        ...

    def flag_desk(self) -> FlagDesk:
        """Whom the editor of flags asks."""
        ...

    async def prepare(self, confirm: Confirm, show: Show, tell: Tell) -> Outcome:
        """Make so what preflight found missing; raises ``CockpitError``."""
        ...

    def serve_source(self) -> Source | None:
        """The serve log of the last run."""
        ...

    def show_log(self, source: Source) -> None:
        """Follow a log."""
        ...


MakeFeed: TypeAlias = "Callable[[Store, Callable[[HostKeyUnknown], Awaitable[bool]]], Feed]"


def live_feed(store: Store, ask: Callable[[HostKeyUnknown], Awaitable[bool]]) -> Feed:
    """The hosts themselves."""
    from cockpit.tui.live import Live

    return Live(store, ask=ask)
