"""``spark-cockpit view FILE...``: the log view on local files."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from cockpit.logs.intake import Intake, descriptor_path, packed_file
from cockpit.logs.log import Log
from cockpit.model.errors import CockpitError
from cockpit.tui.log_desk import LogDesk, short_names
from cockpit.tui.log_keys import LogHelp
from cockpit.tui.log_pane import LogPane
from cockpit.tui.plain_app import PlainApp
from cockpit.tui.signals import leave_at_signals, redraw_when_resumed
from cockpit.tui.view_footer import ViewFooter

PIPED: Final = Path("-")
STANDARD_INPUT: Final = "standard input"


class FileUnreadable(CockpitError):
    """A file given to ``view`` can't be read."""


def open_logs(paths: Sequence[Path], piped: int | None = None) -> tuple[Log, ...]:
    """The files, opened; ``-`` is the descriptor ``piped``. Raises ``FileUnreadable``, and leaves none open then."""
    logs: list[Log] = []
    for path, name in zip(paths, _names(paths), strict=True):
        try:
            logs.append(_open(path, name, piped))
        except OSError as error:
            close_logs(logs)
            raise FileUnreadable(
                f"{path} can't be read: {error.strerror}.",
                remedy="Name files that exist and that you may read.",
            ) from error
    return tuple(logs)


def _names(paths: Sequence[Path]) -> list[str]:
    """What the files are called; as much of their paths as tells them apart."""
    names = [str(path.resolve() if path.is_file() else path) for path in paths]
    short = short_names(names) if len(paths) > 1 else [path.name for path in paths]
    return [STANDARD_INPUT if path == PIPED else name for path, name in zip(paths, short, strict=True)]


def _open(path: Path, name: str, piped: int | None) -> Log:
    """A file as it is; what is packed, or can be read once only, by a copy."""
    if path == PIPED and piped is not None:
        path = descriptor_path(piped)
        if not path.is_file():
            return Log.taking_in(Intake(piped), name)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if path.is_fifo():
        return Log.taking_in(Intake(path), name)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "It is neither an ordinary file nor a pipe")
    if packed_file(path):
        return Log.taking_in(Intake.of_file(path), name)
    return Log.open(path, name)


def close_logs(logs: Sequence[Log]) -> None:
    """Close them, and let go of their copies."""
    for log in logs:
        log.close()
        if log.intake is not None:
            log.intake.close()


class ViewApp(PlainApp[None]):
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
        yield ViewFooter()

    def on_mount(self) -> None:
        """The view has the keys; signals end or suspend it in order."""
        leave_at_signals(self)
        redraw_when_resumed(self)
        for pane in self.query(LogPane):
            pane.view.focus()

    def action_suspend_process(self) -> None:
        """Stop the whole job, as the terminal's own ^Z does: while what fills a pipe goes on, the shell waits."""
        if not self.is_headless:
            os.killpg(0, signal.SIGTSTP)

    def action_keys(self) -> None:
        """All keys."""
        self.push_screen(LogHelp())


def view_files(paths: Sequence[Path], piped: int | None = None) -> None:
    """Open the view on ``paths`` until it is left; ``-`` is the descriptor ``piped``. Raises ``FileUnreadable``."""
    logs = open_logs(paths, piped)
    try:
        ViewApp(logs).run()
    finally:
        close_logs(logs)
