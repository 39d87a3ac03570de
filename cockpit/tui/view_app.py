"""``spark-cockpit view FILE...``: the log view on local files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer

from cockpit.logs.log import Log
from cockpit.model.errors import CockpitError
from cockpit.tui.log_desk import LogDesk, short_names
from cockpit.tui.log_keys import LogHelp
from cockpit.tui.log_pane import LogPane
from cockpit.tui.signals import leave_at_signals, redraw_when_resumed


class FileUnreadable(CockpitError):
    """A file given to ``view`` can't be read."""


def open_logs(paths: Sequence[Path]) -> tuple[Log, ...]:
    """The files, opened; raises ``FileUnreadable``, and leaves none open then."""
    logs: list[Log] = []
    names = (
        short_names([str(path.resolve()) for path in paths])
        if len(paths) > 1
        else [path.name for path in paths]
    )
    for path, name in zip(paths, names, strict=True):
        try:
            if path.is_dir():
                raise IsADirectoryError(21, "Is a directory")
            if path.exists() and not path.is_file():
                raise OSError(22, "It is not an ordinary file")
            logs.append(Log.open(path, name))
        except OSError as error:
            for log in logs:
                log.close()
            raise FileUnreadable(
                f"{path} can't be read: {error.strerror}.",
                remedy="Name files that exist and that you may read.",
            ) from error
    return tuple(logs)


class ViewApp(App[None]):
    """The log view on local files."""

    TITLE = "Spark Cockpit"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "keys", "Keys", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True),
    ]

    def __init__(self, logs: Sequence[Log]) -> None:
        super().__init__()
        self._logs = tuple(logs)

    def compose(self) -> ComposeResult:
        """One view, or several on a desk."""
        yield LogPane(self._logs[0]) if len(self._logs) == 1 else LogDesk(self._logs)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """The view has the keys; signals end or suspend it in order."""
        leave_at_signals(self)
        redraw_when_resumed(self)
        for pane in self.query(LogPane):
            pane.view.focus()

    def action_keys(self) -> None:
        """All keys."""
        self.push_screen(LogHelp())


def view_files(paths: Sequence[Path]) -> None:
    """Open the view on ``paths`` until it is left. Raises ``FileUnreadable``."""
    logs = open_logs(paths)
    try:
        ViewApp(logs).run()
    finally:
        for log in logs:
            log.close()
