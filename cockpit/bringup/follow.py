"""The serve log of a run, read from the head as it grows."""

from __future__ import annotations

from shlex import quote

from cockpit.bringup.session import Session
from cockpit.model.command import Command, script, streaming
from cockpit.model.profile import Profile

START_BYTES = 4 * 1024 * 1024
"""A load's lines stand at the log's start; serving adds to its end."""


def run_folder(profile: Profile, run: str) -> str:
    """A run's folder on the head, below the user's home unless XDG_STATE_HOME says otherwise there."""
    return f"~/.local/state/spark-cockpit/{profile.name}/runs/{run}"


def _log(profile: Profile, run: str) -> str:
    folder = quote(f"spark-cockpit/{profile.name}/runs/{run}")
    return f'"${{XDG_STATE_HOME:-$HOME/.local/state}}"/{folder}/serve.log'


def serve_log(profile: Profile, run: str, offset: int) -> Command:
    """The command that streams a run's serve log from byte ``offset`` on."""
    text = f"exec tail -c +{offset + 1} -F {_log(profile, run)} 2>/dev/null"
    return streaming(Command(profile.head.name, ("sh", "-c", text), "follow the serve log"))


async def read_start(session: Session, run: str) -> bytes:
    """The first bytes of a run's serve log, enough to tell its phases."""
    text = f"head -c {START_BYTES} {_log(session.profile, run)}"
    command = script(session.profile.head.name, text, "read the start of the serve log", limit=30)
    return (await session.ask(command)).stdout


async def read_whole(session: Session, run: str, most: int) -> bytes:
    """A run's serve log; past ``most`` bytes its first and last halves of that."""
    log, half = _log(session.profile, run), most // 2
    text = (
        f"size=$(stat -L -c %s {log}) || exit\n"
        f'if [ "$size" -le {most} ]; then exec cat {log}; fi\n'
        f"head -c {half} {log}; echo; tail -c {half} {log}"
    )
    command = script(session.profile.head.name, text, "read the serve log", limit=120)
    return (await session.ask(command)).stdout
