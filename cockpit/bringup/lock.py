"""One operator at a time: a lock on the head host that says who holds it and since when.

The lock is an flock(2) held by a small script at the other end of a stream. The script reads a heartbeat
from its standard input and gives the lock back when none comes: a cockpit that was killed frees it at once
(its connection closes), one whose link went dead within ``PATIENCE`` seconds.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import platform
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote

from cockpit.bringup.errors import StepRefused, StepUnreachable
from cockpit.bringup.session import Session
from cockpit.hosts.errors import HostError
from cockpit.hosts.host import Stream
from cockpit.model.command import Command
from cockpit.model.profile import Profile

BEAT = 4.0
"""Seconds between two heartbeats."""
PATIENCE = 15.0
"""Seconds without a heartbeat after which the host gives the lock back."""

_HOLD = """\
state=${XDG_STATE_HOME:-$HOME/.local/state}/spark-cockpit/@NAME@
umask 077; mkdir -p "$state" || exit 1
exec 9>>"$state/lock" || exit 1
if ! flock -n 9; then echo busy; cat "$state/lock.owner" 2>/dev/null; exit 0; fi
printf '%s\\n' @OWNER@ >"$state/lock.owner"
echo held
while [ "$(timeout @PATIENCE@ head -c 1)" = . ]; do :; done
rm -f "$state/lock.owner"
"""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds the lock. ``since`` is a time with its zone, None where the holder left no record."""

    who: str
    doing: str
    since: datetime | None

    def __str__(self) -> str:
        if not self.who:
            return "someone who left no name"
        since = f" since {self.since.astimezone():%H:%M:%S}" if self.since else ""
        return f"{self.who} ({self.doing}{since})"


def myself() -> str:
    """The operator as others are told: user and machine."""
    return f"{getpass.getuser()}@{platform.node()}"


def parse_owner(text: str) -> Owner:
    """Read a lock's record; a damaged one yields an owner without a name."""
    try:
        record = json.loads(text)
        return Owner(str(record["who"]), str(record["doing"]), datetime.fromisoformat(record["since"]))
    except (ValueError, KeyError, TypeError):
        return Owner("", "", None)


def hold_command(profile: Profile, doing: str) -> Command:
    """The command that takes the lock and keeps it as long as heartbeats come."""
    owner = json.dumps({"who": myself(), "doing": doing, "since": datetime.now(UTC).isoformat()})
    text = _HOLD.replace("@NAME@", quote(profile.name)).replace("@OWNER@", quote(owner))
    text = text.replace("@PATIENCE@", f"{PATIENCE:g}")
    return Command(profile.head.name, ("sh", "-c", text), "take the bring-up's lock")


@asynccontextmanager
async def hold(session: Session, doing: str) -> AsyncIterator[None]:
    """Hold the lock for the time of the context; ``StepRefused`` tells who has it.

    The lock can be lost with the link: the steps then notice by themselves, since they use the same link.
    """
    command = hold_command(session.profile, doing)
    async with AsyncExitStack() as stack:
        try:
            stream = await stack.enter_async_context(session.head.open(command))
        except HostError as error:
            raise session.failure(error, command) from error
        await _take(session, stream, command)
        beat = asyncio.create_task(_beat(stream))
        try:
            yield
        finally:
            beat.cancel()
            with suppress(asyncio.CancelledError):
                await beat


async def _take(session: Session, stream: Stream, command: Command) -> None:
    answer = b""
    try:
        async with asyncio.timeout(command.limit):
            while not answer.endswith(b"held\n"):
                data = await stream.read()
                if not data:
                    break
                answer += data
    except TimeoutError as error:
        raise StepUnreachable(
            session.step, f"{command.host}: no answer about the bring-up's lock within {command.limit:g} s."
        ) from error
    except HostError as error:
        raise session.failure(error, command) from error
    if answer.endswith(b"held\n"):
        return
    word, _, record = answer.decode("utf-8", "replace").partition("\n")
    if word != "busy":
        raise StepRefused(
            session.step,
            f"{command.host}: the folder for the bring-up's state can't be made.",
            host=command.host,
            line=stream.error_text.strip(),
            remedy=f"See why `mkdir -p ~/.local/state/spark-cockpit` fails on {command.host}.",
        )
    raise StepRefused(
        session.step,
        f"{command.host}: {parse_owner(record)} is at this bring-up right now.",
        host=command.host,
        remedy=f"Wait for it, or watch it with `spark-cockpit status {session.profile.word}`.",
    )


async def _beat(stream: Stream) -> None:
    with suppress(HostError):
        while True:
            await stream.write(b".")
            await asyncio.sleep(BEAT)
