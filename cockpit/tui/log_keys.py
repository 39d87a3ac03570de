"""The keys of the log view, for its help and for whoever documents them."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

LOG_KEYS: Final = (
    (
        "Moving",
        (
            ("↑ ↓ k j", "A row up or down; the first press stops following"),
            ("⇞ ⇟ b ␣", "A screen up or down"),
            ("g G", "The first line; the last, and follow"),
            ("← → h l", "Half a screen to the side, where lines are not wrapped"),
            (":", "Go to a line (1234) or a time (20:26, 11-30 20:26:26, yesterday, 10m before the end)"),
            ("F p", "Follow, or stop here; new lines are counted meanwhile"),
        ),
    ),
    (
        "Finding",
        (
            ("/", "Search: text, or /expression/; capitals make case count"),
            ("n N", "The next hit, the previous"),
            ("e E", "The next error, the previous"),
            ("&", "Show only: text, /expression/, !not, level:WARNING, process:NAME, rank:N, host:NAME"),
            ("m '", "Mark the line; go to the next mark"),
        ),
    ),
    (
        "Showing",
        (
            ("⏎", "The whole record of the selected line, below"),
            ("w", "Wrap long lines, or not"),
            ("r", "Every state of progress bars, carriage returns included, or the last alone"),
            ("z", "Fold equal lines that follow each other into one with a count"),
            ("esc", "Close what is open; else end the search, then the filter"),
        ),
    ),
    (
        "Taking away",
        (
            ("c", "Copy the line's exact bytes, or all from the nearest mark to it"),
            ("s", "Save those, or without a mark the whole log, to a file"),
        ),
    ),
    (
        "Several logs",
        (
            ("] [", "The next log; the one before"),
            ("M", "All of them as one, by time"),
            ("|", "Side by side; they go to the same time together"),
        ),
    ),
)
"""Groups of keys, each with what it does."""


def keys_content() -> Content:
    """The keys as text."""
    lines: list[Content] = []
    for group, keys in LOG_KEYS:
        lines.append(Content.styled(group, "bold $text-primary"))
        lines += [Content.assemble((f"  {key:<9}", "bold $text-accent"), what) for key, what in keys]
        lines.append(Content(""))
    return Content("\n").join(lines[:-1])


def markdown_table() -> str:
    """The keys as the README's table."""
    rows = ["| Key | In a log |", "|---|---|"]
    for group, keys in LOG_KEYS:
        rows.append(f"| | **{group}** |")
        for key, what in keys:
            shown = " ".join(f"`{one}`".replace("|", "\\|") for one in key.split(" "))
            rows.append(f"| {shown} | {what} |")
    return "\n".join(rows)


class LogHelp(ModalScreen[None]):
    """All keys of the log view."""

    DEFAULT_CSS = """
    LogHelp {
        align: center middle;
        & > Vertical {
            width: 92; max-width: 100%; height: auto; max-height: 100%;
            border: round $primary; background: $surface; padding: 0 1;
        }
        & VerticalScroll { height: auto; max-height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter", "close", "Close")]

    def compose(self) -> ComposeResult:
        """The groups."""
        with Vertical() as box:
            box.border_title = Content("Keys of the log view")
            box.border_subtitle = Content("esc closes")
            with VerticalScroll(can_focus=True):
                yield Static(keys_content(), markup=False)

    def action_close(self) -> None:
        """Close it."""
        self.dismiss(None)
