"""Bytes on their way from one host to another: a command that offers on one, a command that takes on the other.

Both are streams, so that they end with the cockpit. A link that is cut ends both; they are started again, for as
long as anything still comes through now and then.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from cockpit.bringup.errors import StepError, StepFailed, StepUnreachable
from cockpit.bringup.preparation.pace import Pace
from cockpit.bringup.preparation.task import Task, TaskProgress, Tell
from cockpit.bringup.session import Session
from cockpit.hosts.errors import HostError
from cockpit.hosts.host import Stream
from cockpit.hosts.quoting import command_line
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec

ONE_TIME = "SPARK_COCKPIT_ONE_TIME"
"""The name of a copy's secret, as plans show it."""

LISTENING = 20.0
"""Seconds in which the offering end must listen."""

PATIENCE = 180.0
"""Seconds without a byte, the attempts counted in, after which a copy is given up."""

SILENCE = 10.0
"""Seconds without a byte after which the way is tried: rsync's own time limit (3.5) does not see a link that is
cut, because its keep-alives vanish into the socket without an error; and it is silent while it compares a file."""

PAUSE = 2.0
"""Seconds between two attempts."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a piece of the taking end's output says: how much there is, and how it ended, where it has."""

    done: int | None = None
    status: int | None = None
    said: str = ""


Parser = Callable[[bytes], Heard | None]
"""Reads one piece of output, cut at line breaks and carriage returns; None where it says nothing."""


@dataclass(frozen=True, slots=True)
class Move:
    """How bytes are moved. ``base`` bytes were there before, and ``whole`` asks how many
    are now, after an attempt that broke off, in files that are whole; ``again`` tells whether an attempt that broke off
    may be followed by another."""

    offer: Command
    take: Command
    knock: Command
    parse: Parser
    total: int | None
    base: int = 0
    whole: Callable[[Session], Awaitable[int]] | None = None
    again: bool = True


def knock_command(host: HostSpec, peer: HostSpec, port: int) -> Command:
    """Status 0 where ``peer`` answers on its fabric address; a port that is refused is an answer."""
    text = (
        "import socket, sys\n"
        "try:\n"
        "    socket.create_connection((sys.argv[1], int(sys.argv[2])), 4, (sys.argv[3], 0)).close()\n"
        "except ConnectionRefusedError:\n"
        "    pass\n"
    )
    argv = ("python3", "-I", "-S", "-c", text, peer.cluster_address, str(port), host.cluster_address)
    return Command(host.name, argv, f"see whether {peer.name} answers over the fabric", limit=10)


async def move(session: Session, task: Task, how: Move, tell: Tell, patience: float = PATIENCE) -> None:
    """Bring the bytes over; raises ``StepError``."""
    until, furthest, base = time.monotonic() + patience, -1, how.base
    while True:
        session.secrets[ONE_TIME] = secrets.token_hex(32)
        attempt = Attempt(session, task, how, tell, base)
        try:
            await attempt.run()
            return
        except StepError as error:
            if attempt.furthest > furthest:
                until, furthest = time.monotonic() + patience, attempt.furthest
            if not (how.again and attempt.broken) or time.monotonic() > until:
                raise
            told = max(0, furthest)
            tell(TaskProgress(task, told, how.total, doing=f"the link broke, trying again: {error.message}"))
        finally:
            session.secrets.pop(ONE_TIME, None)
        await asyncio.sleep(PAUSE)
        for host in (how.offer.host, how.take.host):
            with suppress(HostError):
                await session.hosts[host].connect()
        if how.whole is not None:
            with suppress(StepError, ValueError):
                base = await how.whole(session)


class Attempt:
    """One attempt. ``broken`` tells that the link was the reason for its end."""

    def __init__(self, session: Session, task: Task, how: Move, tell: Tell, base: int) -> None:
        self.session, self.task, self.how, self.tell, self.base = session, task, how, tell, base
        self.furthest = -1
        self.broken = False
        self.pace = Pace()
        self.last = Heard()
        self.lines: list[str] = []

    async def run(self) -> None:
        """Both ends, until the taking one has ended."""
        how = self.how
        hosts = self.session.hosts
        try:
            async with hosts[how.offer.host].open(how.offer) as offering:
                await self._listens(offering)
                async with hosts[how.take.host].open(how.take) as taking:
                    status = await self._follow(taking)
                    said = self.last.said or "\n".join((*self.lines[-5:], taking.error_text)).strip()
                if status:
                    # The offering end may know better why.
                    raise self._failed(status, said or offering.error_text)
        except HostError as error:
            self.broken = True
            raise self.session.failure(error, how.take) from error
        except StepUnreachable:
            self.broken = True
            raise

    async def _listens(self, offering: Stream) -> None:
        output = b""
        try:
            async with asyncio.timeout(LISTENING):
                while b"listening" not in output:
                    data = await offering.read()
                    if not data:
                        break
                    output += data
        except TimeoutError as error:
            raise StepUnreachable(
                self.session.step, f"{self.how.offer.host}: does not listen within {LISTENING:g} s."
            ) from error
        if b"listening" not in output:
            raise StepFailed(
                self.session.step,
                f"{self.how.offer.host}: could not {self.how.offer.why}.",
                host=self.how.offer.host,
                command=command_line(self.how.offer),
                line=_last(offering.error_text) or _last(output.decode("utf-8", "replace")),
            )

    async def _follow(self, taking: Stream) -> int:
        rest = b""
        while data := await self._read(taking):
            *pieces, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
            for piece in pieces:
                self._hear(piece)
        self._hear(rest)
        status = await taking.wait()
        return status if self.last.status is None else self.last.status

    async def _read(self, taking: Stream) -> bytes:
        """The next bytes; raises ``StepUnreachable`` where the other end can't be reached any more."""
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    return await taking.read()
            except TimeoutError:
                await self._knock()

    async def _knock(self) -> None:
        completed = await self.session.ask(self.how.knock)
        if completed.status != 0:
            raise StepUnreachable(
                self.session.step,
                f"{self.how.take.host}: {self.how.offer.host} does not answer over the fabric any more.",
                host=self.how.take.host,
                line=_last(completed.error_text),
                remedy=REMEDIES[10],
            )

    def _hear(self, piece: bytes) -> None:
        heard = self.how.parse(piece)
        if heard is None:
            if text := piece.decode("utf-8", "replace").strip():
                self.lines = [*self.lines[-20:], text]
            return
        if heard.status is not None:
            self.last = heard
        if heard.done is not None:
            done = self.base + heard.done
            if done == self.furthest and heard.status is None:
                return
            self.furthest = max(self.furthest, done)
            rate, eta = self.pace.at(done, self.how.total)
            self.tell(
                TaskProgress(self.task, done, self.how.total, rate=rate, eta=eta, doing=self.how.take.why)
            )

    def _failed(self, status: int, said: str) -> StepFailed:
        self.broken = status in BROKEN
        return StepFailed(
            self.session.step,
            f"{self.how.take.host}: could not {self.how.take.why} (exit status {status}).",
            host=self.how.take.host,
            command=command_line(self.how.take),
            line=_last(said),
            remedy=REMEDIES.get(status, ""),
        )


BROKEN = frozenset({10, 12, 20, 30, 35, 74})
"""Exit statuses that a broken link makes: rsync's for sockets, its protocol's stream, signals and time-outs (rsync(1),
EXIT VALUES), and the pipe's own."""

REMEDIES = {
    10: "The other end can't be reached over the fabric: `spark-cockpit check` tells what is in the way.",
    11: "The disk is full, or a file there may not be written by this user.",
    23: "A file there may not be written by this user, or one here not be read: see who owns it (ls -l).",
    35: "The other end can't be reached over the fabric: `spark-cockpit check` tells what is in the way.",
}


def _last(text: str) -> str:
    """The line that says most: rsync tells the reason first, and last only that there was one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith("rsync error:")]
    own = [line for line in reasons if line.startswith("rsync: ")]
    return (own or reasons[-1:] or lines[-1:] or [""])[0][:400]
