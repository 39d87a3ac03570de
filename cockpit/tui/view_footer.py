"""The last line of the view: the keys that do something where the focus is, as many as there is room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

Hint = tuple[str, str]
"""A key, and what it does."""


def fitted(keys: Sequence[Hint], last: Sequence[Hint], width: int) -> Content:
    """One line of ``width`` cells; ``last`` stand at its right end and have room before ``keys``, the very last
    first of all. No key is cut in half."""
    chosen: list[Hint] = []
    room = width
    for hint in (*reversed(last), *keys):
        cells = _item(hint).cell_length
        if cells <= room:
            chosen.append(hint)
            room -= cells
        elif hint in keys:
            break
    before = Content.assemble(*(_item(hint) for hint in keys if hint in chosen))
    behind = Content.assemble(*(_item(hint) for hint in last if hint in chosen))
    return Content.assemble(before, " " * (width - before.cell_length - behind.cell_length), behind)


def _item(hint: Hint) -> Content:
    key, label = hint
    return Content.assemble((f" {key} ", "bold $text-accent"), f"{label} ")


class ViewFooter(Widget):
    """That line."""

    DEFAULT_CSS = "ViewFooter { height: 1; dock: bottom; }"

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    def keys(self) -> Iterator[Hint]:
        """The keys where the focus is: letters are text where text is typed."""
        if isinstance(self.screen.focused, Input):
            yield "⏎", "done"
            yield "esc", "leave it"
            return
        told: set[str] = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and binding.description and active.enabled and binding.action not in told:
                told.add(binding.action)
                display = binding.key_display or self.app.get_key_display(binding)
                yield display.split(" ")[0], binding.description

    def render(self) -> Content:
        """The line."""
        last = ("quit", "keys")
        hints = [(key, label.lower()) for key, label in self.keys()]
        return fitted(
            [hint for hint in hints if hint[1] not in last],
            [hint for label in last for hint in hints if hint[1] == label],
            self.size.width,
        )
