"""Whom the editor of flags asks: the vLLM on the head, or, where it can't be asked now, the flags that are known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from cockpit.bringup.flag_judge import FlagCheck, check_flags, check_offline
from cockpit.bringup.session import Session
from cockpit.model.profile import Profile
from cockpit.runtime.environment import environment


class FlagDesk(Protocol):
    """Answers the editor's questions. What the hosts raise comes through as ``CockpitError``."""

    @property
    def resting(self) -> str:
        """Why vLLM itself is not asked now, "" where it is."""
        ...

    async def check(self, profile: Profile, previous: FlagCheck | None) -> FlagCheck:
        """The verdict on a profile; what a ``previous`` one knows of the hosts is not asked again."""
        ...


class KnownFlags:
    """Reaches nothing: answers by the flags that this runtime gave earlier, else by shipped ones."""

    resting = "nothing is reached from here"

    async def check(self, profile: Profile, previous: FlagCheck | None) -> FlagCheck:
        """What can be said without any host."""
        return await asyncio.to_thread(check_offline, profile)


class HostFlags:
    """Asks the vLLM on the head, in a helper that stays loaded. ``session`` gives the connections as they are
    now, ``occupied`` why a helper must not be loaded on the head at this time ("" where it may)."""

    def __init__(self, session: Callable[[], Session | None], occupied: Callable[[], str]) -> None:
        self._session = session
        self._occupied = occupied

    @property
    def resting(self) -> str:
        """Why vLLM is not asked now."""
        return "the hosts are not connected" if self._session() is None else self._occupied()

    def _for(self, profile: Profile) -> Session | None:
        session = None if self._occupied() else self._session()
        return replace(session, profile=profile, runtime=environment(profile)) if session else None

    async def check(self, profile: Profile, previous: FlagCheck | None) -> FlagCheck:
        """The deep check's verdict."""
        session = self._for(profile)
        if session is None:
            return await KnownFlags().check(profile, previous)
        return await check_flags(session, deep=True, keep=True, previous=previous)
