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
    """Reaches nothing, for the reason ``resting``: answers by the flags that this runtime gave earlier, else by
    shipped ones."""

    def __init__(self, resting: str = "nothing is reached from here") -> None:
        self.resting = resting

    async def check(self, profile: Profile, previous: FlagCheck | None) -> FlagCheck:
        """What can be said without any host."""
        return await asyncio.to_thread(check_offline, profile, self.resting)


class HostFlags:
    """Asks the vLLM on the head, in a helper that stays loaded. ``session`` gives the connections as they are
    now, ``occupied`` why a helper must not be loaded on the head at this time ("" where it may). A host that is
    not connected is none to ask: the cockpit is trying already, and its panel says why not."""

    def __init__(self, session: Callable[[], Session | None], occupied: Callable[[], str]) -> None:
        self._session = session
        self._occupied = occupied

    @property
    def resting(self) -> str:
        """Why vLLM is not asked now."""
        session = self._session()
        if session is None:
            return "the hosts are not connected"
        away = [name for name, host in session.hosts.items() if not host.connected]
        if away:
            return f"{' and '.join(away)} {'is' if len(away) == 1 else 'are'} not connected"
        return self._occupied()

    async def check(self, profile: Profile, previous: FlagCheck | None) -> FlagCheck:
        """The deep check's verdict."""
        session, resting = self._session(), self.resting
        if session is None or resting:
            return await KnownFlags(resting).check(profile, previous)
        asked = replace(session, profile=profile, runtime=environment(profile))
        return await check_flags(asked, deep=True, keep=True, previous=previous)
