"""Preparation in the screen: each task is shown with its commands and asked about; then how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from cockpit.bringup.events import Outcome
from cockpit.bringup.preparation.preparer import Confirm, Show
from cockpit.bringup.preparation.task import Task, Tell
from cockpit.model.errors import CockpitError
from cockpit.tui.prepare_text import Preparing, preparing_lines

Prepare = Callable[[Confirm, Show, Tell], Awaitable[Outcome]]
"""Prepares the profile's hosts; raises ``CockpitError``."""


class PrepareScreen(ModalScreen[None]):
    """Ends what it copies when it is left: the next time that goes on from there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "answer(True)", "Do it"),
        Binding("n,s", "answer(False)", "Leave this one"),
        Binding("escape", "leave", "Leave"),
    ]

    def __init__(self, prepare: Prepare) -> None:
        super().__init__()
        self._prepare = prepare
        self._answer: asyncio.Future[bool] | None = None
        self.seen = Preparing()

    def compose(self) -> ComposeResult:
        """The tasks, and the keys below."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = Content("Preparation")
            with VerticalScroll(can_focus=True):
                yield Static(id="prepare-tasks", markup=False)
            yield Static(id="prepare-keys", classes="keys", markup=False)

    def on_mount(self) -> None:
        """Begin; what happens is painted five times a second."""
        self.run_worker(self._work(), name="prepare", group="prepare", exit_on_error=False)
        self.set_interval(0.2, self._paint)
        self._paint()

    async def _work(self) -> None:
        try:
            self.seen.ended = await self._prepare(self._confirm, self._shown, self.seen.heard)
        except CockpitError as error:
            self.seen.error = str(error)
            self.seen.ended = Outcome.FAILED
        finally:
            self.seen.asked = None

    async def _confirm(self, task: Task) -> bool:
        self.seen.asked = task
        self._answer = asyncio.get_running_loop().create_future()
        try:
            return await self._answer
        finally:
            self.seen.asked = self._answer = None

    def _shown(self, tasks: Sequence[Task], notes: Sequence[str]) -> None:
        self.seen.tasks |= {task.id: task for task in tasks}
        self.seen.notes += notes

    def _paint(self) -> None:
        self.query_one("#prepare-tasks", Static).update(Content("\n").join(preparing_lines(self.seen)))
        keys: list[tuple[str, str]] = []
        if self.seen.asked is not None:
            keys = [("⏎", "do it"), ("n", "leave this one")]
        leave = "close" if self.seen.ended is not None else "end it" if self.seen.running else "leave"
        parts = [
            part
            for key, word in (*keys, ("esc", leave))
            for part in ((f" {key} ", "bold $text-accent"), word, "  ")
        ]
        self.query_one("#prepare-keys", Static).update(Content.assemble(*parts))

    def action_answer(self, yes: bool) -> None:
        """Answer for the task that is asked about; close when all is over."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(yes)
        elif self.seen.ended is not None and yes:
            self.dismiss()

    def action_leave(self) -> None:
        """Leave; what is being copied ends."""
        self.workers.cancel_group(self, "prepare")
        self.dismiss()
