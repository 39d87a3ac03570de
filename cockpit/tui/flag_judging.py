"""Has a draft judged a short pause after it last changed; one question at a time, the newest draft next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from cockpit.bringup.flag_draft import Draft
from cockpit.bringup.flag_judge import FlagCheck
from cockpit.model.errors import CockpitError
from cockpit.tui.flag_desk import FlagDesk, KnownFlags

PAUSE: Final = 0.2
"""Seconds without a change after which a draft is judged."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A draft's verdict; where an ``error`` came instead, what is known without vLLM. ``seconds`` is how long the
    answer took."""

    draft: Draft
    check: FlagCheck
    seconds: float
    error: str = ""


class Judging:
    """``want`` says what is to be judged, ``run`` does it until it is cancelled. ``began`` and ``ended`` are
    told, ``refused`` where there is no such draft."""

    def __init__(
        self,
        desk: FlagDesk,
        began: Callable[[], None],
        ended: Callable[[Judged], None],
        refused: Callable[[str], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._desk = desk
        self._clock = clock
        self._began = began
        self._ended = ended
        self._refused = refused
        self._wanted: Callable[[], Draft] | None = None
        self._at = 0.0
        self._new = asyncio.Event()
        self._previous: FlagCheck | None = None
        self._answered: bytes | None = None

    def want(self, make: Callable[[], Draft], *, pause: float = PAUSE) -> None:
        """Judge the draft that ``make`` gives when nothing else was wanted for a short pause. It is made in a
        thread, for it reads and writes YAML; its ``CockpitError`` is told as the answer's."""
        self._wanted, self._at = make, monotonic() + pause
        self._new.set()

    def forget(self) -> None:
        """What the hosts and vLLM said is asked again with the next question."""
        self._previous = self._answered = None

    async def run(self) -> None:
        """Judge what is wanted."""
        while True:
            await self._new.wait()
            while (rest := self._at - monotonic()) > 0:  # noqa: ASYNC110 - the moment moves
                await asyncio.sleep(rest)
            self._new.clear()
            if self._wanted is not None:
                await self._judge(self._wanted)

    async def _judge(self, make: Callable[[], Draft]) -> None:
        try:
            draft = await asyncio.to_thread(make)
        except CockpitError as error:
            self._answered = None
            self._refused(str(error))
            return
        if draft.data != self._answered:
            self._began()
            self._ended(await self._judged(draft))

    async def _judged(self, draft: Draft) -> Judged:
        began = self._clock()
        try:
            check = await self._desk.check(draft.profile, self._previous)
        except CockpitError as error:
            known = await KnownFlags(str(error)).check(draft.profile, None)
            return Judged(draft, known, self._clock() - began, str(error))
        self._answered = draft.data
        if check.facts is not None:
            self._previous = check
        return Judged(draft, check, self._clock() - began)
