"""What the actions of the registry do: one function an action, called with the app. They ask the feed or choose
what is shown; what is known changes in the store alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from cockpit.tui.intents import asking, flags, leaving, looking, steps

if TYPE_CHECKING:
    from cockpit.tui.app import CockpitApp

INTENTS: Final[Mapping[str, Callable[[CockpitApp], None]]] = {
    **steps.INTENTS,
    **looking.INTENTS,
    **asking.INTENTS,
    **flags.INTENTS,
    **leaving.INTENTS,
}
"""By the action's id."""
