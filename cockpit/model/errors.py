"""The root of the cockpit's error tree.

Each room adds its own branch (``hosts.errors`` for reaching machines, and so on). A message says what
happened, on which host, what was run and what to do; it may hold remote text, which passes
``logs.sanitise`` where it is shown.
"""

_BREAKS = {ord("\n"): "␊", ord("\r"): "␍"}


class CockpitError(Exception):
    """Anything the cockpit can explain to its user."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    @property
    def told(self) -> str:
        """The message where there is one line for it: with what the command itself said, where it said something."""
        return self.message

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


def inline(text: object) -> str:
    """A name or a value for the middle of a sentence: its line breaks are seen instead of obeyed, so that no
    name can look like a line of ours. Whatever else is not printable is made visible where it is shown."""
    return str(text).translate(_BREAKS)


class WrongWordError(CockpitError):
    """A word of the command line names nothing there is."""
