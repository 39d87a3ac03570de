"""The lower half: one of log, details, why, prompt, serving, flags at a time."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Input

from cockpit.logs.sanitise import clean
from cockpit.tui.state import State
from cockpit.tui.widgets.lines import Lines
from cockpit.tui.widgets.welcome import welcome

if TYPE_CHECKING:
    from cockpit.logs.log import Log
    from cockpit.tui.log_set import LogSet
    from cockpit.tui.widgets.panes import TextPane
    from cockpit.tui.widgets.prompt_pane import PromptPane

PANES = ("log", "details", "why", "prompt", "serving", "flags")
TITLES = {"log": "Log", "details": "Details", "prompt": "Prompt", "serving": "Serving", "flags": "Flags"}


ROOM_FOR_BOTH = 18
"""Rows of the lower half from which a cause and its line in the log are shown together."""


class Lower(Vertical):
    """Shows one pane. ``pane`` is its name."""

    state: reactive[State] = reactive(State(), repaint=False)
    pane: reactive[str] = reactive("log")

    def __init__(self) -> None:
        super().__init__(id="lower")
        self._logs: LogSet | None = None
        self._log_title = ""
        self._details_title = ""
        self._titled = ""
        self.subject: object = None
        self.furnished = asyncio.Event()

    def compose(self) -> ComposeResult:
        """The log's pane, for the first paint; its view comes with the first log."""
        with Vertical(id="panes"), Vertical(id="log"):
            yield Lines(classes="empty")

    async def _furnish(self) -> None:
        """All the other panes: nothing can be shown in them before the first paint."""
        for module in ("finding_pane", "panes", "prompt_pane", "serving_pane"):
            await asyncio.to_thread(importlib.import_module, f"cockpit.tui.widgets.{module}")
        from cockpit.tui.widgets.finding_pane import FindingPane
        from cockpit.tui.widgets.panes import FlagsPane, TextPane
        from cockpit.tui.widgets.prompt_pane import PromptPane
        from cockpit.tui.widgets.serving_pane import ServingPane

        panes = self.query_one("#panes")
        await panes.mount(TextPane(id="details"), FindingPane(id="why"), before="#log")
        await panes.mount(
            PromptPane(id="prompt").data_bind(Lower.state),
            ServingPane(id="serving").data_bind(Lower.state),
            FlagsPane(id="flags"),
        )
        self._arrange()
        self.furnished.set()

    def watch_state(self) -> None:
        """Bring what is seen up to date."""
        if self.is_mounted:
            self._show()

    def watch_pane(self, pane: str) -> None:
        """Show another pane."""
        if not self.is_mounted:
            return
        self._arrange()
        if pane == "prompt":
            self._prompt.show()
        elif pane == "serving":
            from cockpit.tui.widgets.serving_pane import ServingPane

            self.query_one(ServingPane).show()
        self._show()

    def on_mount(self) -> None:
        """One pane is seen; the others come after it was painted."""
        self._arrange()
        self.call_after_refresh(self._furnish)

    def on_resize(self) -> None:
        """Where there is room, the log stands below the cause."""
        self._arrange()

    def _arrange(self) -> None:
        """See ``pane`` alone; below the cause of a failure its line in the log, where there is room for both."""
        both = self.pane == "why" and self._logs is not None and self.size.height >= ROOM_FOR_BOTH
        panes = self.query_one("#panes")
        for child in panes.children:
            child.display = child.id == self.pane or (both and child.id == "log")
        panes.set_class(both, "-both")

    def _show(self) -> None:
        if self._logs is None:
            self.query_one("#log .empty", Lines).show(welcome(self.state))
        if self.pane == "why":
            from cockpit.tui.widgets import finding_pane

            self._text("why").show(finding_pane.content(self.state))
        elif self.pane == "flags":
            from cockpit.tui.widgets.panes import flags_content

            self._text("flags").show(flags_content(self.state))
        self._title()

    def _text(self, name: str) -> TextPane:
        """One of the panes that are text."""
        from cockpit.tui.widgets.panes import TextPane

        return self.query_one(f"#{name}", TextPane)

    @property
    def _prompt(self) -> PromptPane:
        from cockpit.tui.widgets.prompt_pane import PromptPane

        return self.query_one(PromptPane)

    def _title(self) -> None:
        title = TITLES.get(self.pane, "")
        if self.pane == "why":
            from cockpit.tui.widgets import finding_pane

            title = finding_pane.title(self.state)
        elif self.pane == "log" and self._log_title:
            title = f"Log · {self._log_title}"
        elif self.pane == "details" and self._details_title:
            title = self._details_title
        title = clean(title)
        if title != self._titled:
            self._titled = title
            self.border_title = Content(title)

    def show_details(self, title: str, content: Content, subject: object = None) -> None:
        """What the details pane shows; ``subject`` is the record that it was made of."""
        self.subject = subject
        self._details_title = title
        self._text("details").show(content)
        self._title()

    def focus_pane(self) -> None:
        """Give the keys to what is shown."""
        from cockpit.tui.log_view import LogView

        found = {
            "prompt": "#prompt Input",
            "details": "#details",
            "why": "#why",
            "flags": "#flags",
        }.get(self.pane)
        if self.pane == "log":
            for view in self.query(LogView):
                view.focus()
        elif found:
            self.query_one(found).focus()

    @property
    def writing(self) -> bool:
        """Whether a prompt is being written: what is shown stays then."""
        return self.pane == "prompt" and self.query_one("#prompt Input", Input).has_focus

    @property
    def text(self) -> str:
        """The text of the pane that is shown; "" for a log or charts."""
        if self.pane == "prompt":
            return self._prompt.text
        return self._text(self.pane).text if self.pane in ("details", "why", "flags") else ""

    @property
    def focused_within(self) -> bool:
        """Whether the keys are here."""
        return self.has_pseudo_class("focus-within")

    @property
    def shown_log(self) -> Log | None:
        """The log that is shown; None where there are several, or none."""
        logs = self._logs
        return logs.logs[0] if logs is not None and not logs.several else None

    @property
    def shown_logs(self) -> tuple[Path, ...]:
        """The files of the logs that are shown."""
        return tuple(log.file.path for log in self._logs.logs) if self._logs is not None else ()

    async def show_logs(self, paths: Mapping[str, Path], title: str) -> None:
        """Show the logs at ``paths``, each by its host's name, at their end; several by time."""
        from cockpit.logs.log import Log
        from cockpit.model.profile import Role
        from cockpit.tui.log_pane import LogPane
        from cockpit.tui.log_set import LogSet

        self._log_title = title
        self._title()
        if self.shown_logs == tuple(paths.values()):
            return
        try:
            logs = LogSet([Log.open(path, title) for path in paths.values()], tuple(paths))
        except OSError as error:
            self.notify(clean(f"{error.filename}: {error.strerror}"), severity="error", markup=False)
            return
        before, self._logs = self._logs, logs
        short = title.partition(" · ")[0] if len(paths) == 1 else "by time"
        panes = self.query(LogPane)
        if panes and panes.first().is_mounted:
            panes.first().show_logs(logs, title=short)
        else:
            box = self.query_one("#log")
            await box.remove_children()
            await box.mount(LogPane(logs, title=short))
        for pane in self.query(LogPane):
            specs = self.state.profile.hosts if self.state.profile else ()
            pane.hosts = {
                spec.name: "head" if spec.role is Role.HEAD else spec.cluster_address for spec in specs
            }
        if before is not None:
            before.close()
        self._arrange()

    def go_to(self, line: int) -> bool:
        """Select a line of the shown log; whether it stands there. A layout that is still changing moves it: asked
        again, it is selected anew."""
        from cockpit.tui.log_pane import LogPane

        panes = self.query(LogPane)
        if not panes or not panes.first().is_mounted:
            return False
        view = panes.first().view
        if not view.size.height:
            return False
        if view.current is not None and view.current.number == line and not view.following:
            return True
        view.logs.count_to(view.shown, line)
        view.go_to_line(line)
        return False

    def on_unmount(self) -> None:
        """Close the logs' files."""
        if self._logs is not None:
            with suppress(OSError):
                self._logs.close()
