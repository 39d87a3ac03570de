"""What the cockpit's apps share: NO_COLOR is obeyed, and ctrl+c says how to leave."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar

from textual.app import App, ReturnType
from textual.color import Color
from textual.filter import DimFilter, LineFilter, Monochrome, NoColor
from textual.widgets import Input

from cockpit.tui.no_colour import Colourless


class PlainApp(App[ReturnType]):
    """An app that obeys NO_COLOR where it is set and not empty. ``LEAVING`` is what leaving means."""

    LEAVING: ClassVar[str] = "Leave the program."

    def __init__(self) -> None:
        if os.environ.get("NO_COLOR") == "":
            # Textual takes that for set.
            del os.environ["NO_COLOR"]
        super().__init__()
        self._colourless = Colourless(lambda: Color.parse(self.theme_variables["background"]))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's, but with NO_COLOR one of our own for all that makes colours of anything."""
        filters = super().get_line_filters()
        if not self.no_color:
            return filters
        kept = [one for one in filters if not isinstance(one, Monochrome | NoColor | DimFilter)]
        return [*kept, self._colourless]

    def action_help_quit(self) -> None:
        """Who presses ctrl+c is told how to leave: by ``q`` where it does, else by the key that does everywhere.
        Where text is selected, ctrl+c copies."""
        active = self.screen.active_bindings.get("q")
        leaves = active is not None and active.enabled and active.binding.action.endswith(("quit", "('quit')"))
        writing = isinstance(self.screen.focused, getattr(self.screen, "LETTERS", Input))
        self.notify(self.LEAVING, title=f"{'q' if leaves and not writing else '^q'}  leave", markup=False)
