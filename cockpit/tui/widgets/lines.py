"""Text that is laid out again only when it differs."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Lines(Static):
    """Lines of text that are laid out again only when they differ."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes, markup=False)
        self._last: Content | None = None

    @property
    def text(self) -> str:
        """What is shown."""
        return self._last.plain if self._last is not None else ""

    def show(self, content: Content) -> None:
        """Show ``content``."""
        if self._last is None or not content.is_same(self._last):
            self.update(content, layout=self._last is None or _height(content) != _height(self._last))
            self._last = content


def _height(content: Content) -> int:
    return content.plain.count("\n")
