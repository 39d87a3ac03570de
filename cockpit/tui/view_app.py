"""``spark-cockpit view FILE...``: the log view on local files, one in a tab."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Footer, TabbedContent, TabPane

from cockpit.logs.log import Log
from cockpit.logs.sanitise import clean
from cockpit.model.errors import CockpitError
from cockpit.tui.log_pane import LogPane


class FileUnreadable(CockpitError):
    """A file given to ``view`` can't be read."""


def open_logs(paths: Sequence[Path]) -> tuple[Log, ...]:
    """The files, opened; raises ``FileUnreadable``, and leaves none open then."""
    logs: list[Log] = []
    for path in paths:
        try:
            if path.is_dir():
                raise IsADirectoryError(21, "Is a directory")
            logs.append(Log.open(path))
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
    CSS = """
    TabbedContent { height: 1fr; }
    TabPane { padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("left_square_bracket", "tab(-1)", "Previous file", show=False),
        Binding("right_square_bracket", "tab(1)", "Next file", show=False),
    ]

    def __init__(self, logs: Sequence[Log]) -> None:
        super().__init__()
        self._logs = tuple(logs)

    def compose(self) -> ComposeResult:
        """One view, or tabs where there are several files."""
        if len(self._logs) == 1:
            yield LogPane(self._logs[0])
        else:
            with TabbedContent():
                for number, log in enumerate(self._logs):
                    with TabPane(Content(clean(log.name)), id=f"file-{number}"):
                        yield LogPane(log)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """The first view has the keys."""
        self.query(LogPane).first().view.focus()

    def action_tab(self, step: int) -> None:
        """The next or previous file."""
        if len(self._logs) > 1:
            tabs = self.query_one(TabbedContent)
            number = (int(tabs.active.removeprefix("file-")) + step) % len(self._logs)
            tabs.active = f"file-{number}"
            self.query(LogPane)[number].view.focus()


def view_files(paths: Sequence[Path]) -> None:
    """Open the view on ``paths`` until it is left. Raises ``FileUnreadable``."""
    logs = open_logs(paths)
    try:
        ViewApp(logs).run()
    finally:
        for log in logs:
            log.close()
