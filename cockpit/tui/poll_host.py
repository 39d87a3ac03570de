"""One host's poller: connects, streams the probe, measures the round trip; tries again by itself when lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from cockpit.hosts.errors import AuthenticationFailed, HostConfigError, HostError, HostKeyError
from cockpit.hosts.host import Host, Stream
from cockpit.model.profile import HostSpec
from cockpit.probes.sample import SampleError, parse_sample, stream_command
from cockpit.tui import facts as f
from cockpit.tui.state import Link, LinkView

DELAYS: Final = (1.0, 2.0, 5.0, 10.0, 15.0)
"""Seconds before each further try."""
SILENCE: Final = 12.0
"""Seconds without a sample after which the stream is begun anew: the probe gives nvidia-smi five."""
PING_EVERY: Final = 5.0
LINE_LIMIT: Final = 1024 * 1024

Tell = Callable[[f.Fact], None]
OPERATORS = (HostKeyError, AuthenticationFailed, HostConfigError)
"""What no waiting mends: the operator has to do something first."""


class HostPoller:
    """Follows one host until cancelled. ``wake`` makes it try at once."""

    def __init__(self, spec: HostSpec, host: Host, tell: Tell, clock: Callable[[], float] = time.time) -> None:
        self.spec = spec
        self.host = host
        self.up = asyncio.Event()
        self._tell = tell
        self._clock = clock
        self._again = asyncio.Event()
        self._attempt = 0
        self._since = clock()
        self._error = ""

    def wake(self) -> None:
        """Try now."""
        self._attempt = 0
        self._again.set()

    async def run(self) -> None:
        """Follow; never ends by itself."""
        while True:
            try:
                await self._connect()
                await self._stream()
            except OPERATORS as error:
                await self._wait(error, Link.REFUSED)
            except HostError as error:
                await self._wait(error, Link.LOST)
            except SampleError as error:
                self._tell(f.ProbeFailed(self.spec.name, error.message))
                await self._sleep(DELAYS[-1])

    async def _connect(self) -> None:
        if not self.host.connected:
            self._link(LinkView(Link.CONNECTING, self._since, None, self._error))
        await self.host.connect()
        self._since, self._attempt, self._error = self._clock(), 0, ""
        self.up.set()
        self._link(LinkView(Link.UP, self._since))

    async def _stream(self) -> None:
        async with self.host.open(stream_command(self.spec)) as stream:
            ping = asyncio.create_task(self._ping())
            try:
                await self._read(stream)
            finally:
                ping.cancel()
                await asyncio.gather(ping, return_exceptions=True)

    async def _read(self, stream: Stream) -> None:
        pending = b""
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    data = await stream.read()
            except TimeoutError as error:
                raise HostError(self.spec.name, f"no sample for {SILENCE:g} s.") from error
            if not data:
                said = stream.error_text.strip()
                raise SampleError(f"The probe ended: {said or 'it said nothing'}")
            *lines, pending = (pending + data).split(b"\n")
            if len(pending) > LINE_LIMIT:
                raise SampleError("The probe's line has no end.")
            for line in lines[-1:]:
                self._tell(f.SampleTaken(self.spec.name, parse_sample(line)))

    async def _ping(self) -> None:
        while True:
            try:
                self._tell(f.Pinged(self.spec.name, await self.host.ping()))
            except HostError:
                # The stream on the same connection ends too, and tells why.
                return
            await asyncio.sleep(PING_EVERY)

    async def _wait(self, error: HostError, state: Link) -> None:
        """Tell what is wrong, and wait until it is time to try again, or until told to."""
        if self.up.is_set():
            self.up.clear()
            self._since = self._clock()
        delay = DELAYS[min(self._attempt, len(DELAYS) - 1)]
        self._attempt += 1
        at = self._clock() + delay if state is Link.LOST else None
        self._error = _without_name(error)
        self._link(LinkView(state, self._since, None, self._error, error.remedy, at))
        await self._sleep(delay if state is Link.LOST else None)

    async def _sleep(self, delay: float | None) -> None:
        self._again.clear()
        try:
            async with asyncio.timeout(delay):
                await self._again.wait()
        except TimeoutError:
            return

    def _link(self, link: LinkView) -> None:
        self._tell(f.LinkChanged(self.spec.name, link))


def _without_name(error: HostError) -> str:
    """The message without the host's name: it stands in that host's panel."""
    return error.message.removeprefix(f"{error.host}: ")
