"""The store: holds the state. Facts go in, ``State`` comes out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from cockpit.bringup.steps import titles
from cockpit.tui.state import State, StepView

if TYPE_CHECKING:
    from cockpit.bringup.events import Event
    from cockpit.tui import facts as f


class Store:
    """Holds the state. ``clock`` gives seconds since the epoch; ``urgent`` is the epoch of the last change that
    should be seen at once."""

    def __init__(
        self, name: str = "", *, read_only: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self.clock = clock
        self.state = State(name, clock(), read_only=read_only, steps=fresh_steps())
        self.urgent = 0

    def apply(self, fact: f.Fact) -> None:
        """Take in what was learnt."""
        # Loaded with the first fact: the first paint needs none of it.
        from cockpit.tui.reduce import CALM, reduce

        now = self.clock()
        state = reduce(replace(self.state, now=now), fact)
        self.state = replace(state, epoch=state.epoch + 1)
        if not isinstance(fact, CALM):
            self.urgent = self.state.epoch

    def happened(self, event: Event) -> None:
        """Take in a runner's event; made to be a session's ``emit``."""
        from cockpit.tui import facts as f

        self.apply(f.Happened(event))


def fresh_steps() -> tuple[StepView, ...]:
    """Every step before the hosts were asked."""
    return tuple(StepView(name, title) for name, title in titles().items())
