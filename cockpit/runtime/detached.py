"""A process that outlives the connection: sh text that starts, watches and ends it.

Each process has a folder below ``$STATE``, its *unit*: ``launch.sh`` (what was started), ``pid`` (leader of
its own session and process group, with the start time, boot and PID namespace that tell it from a later
process of the same number), ``program`` (the same of the program itself), ``log`` (standard output and
error, appended to), ``output-from`` (the log's size in bytes when it was started), ``exit-status`` (written
when it ends; 128 + n for signal n). The texts are for ``Runtime.script``,
and a unit is asked about where it was started: a container's process ids mean nothing on its host.

The leader is ``supervise.sh``, which waits for the program and survives the signals that go to the group.
Everything of the unit has ``SPARK_COCKPIT_UNIT=FOLDER`` in its environment.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files

from cockpit.runtime.prelude import heredoc


class ProcessState(StrEnum):
    """Gone means: it ran, no longer does, and left no exit status (killed, rebooted, container removed)."""

    ABSENT = "absent"
    RUNNING = "running"
    ENDED = "ended"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Process:
    """What ``state`` found. ``status`` is the exit status when ended; ``since`` in seconds since the epoch."""

    state: ProcessState
    pid: int | None = None
    status: int | None = None
    since: float | None = None


def start(folder: str, argv: Sequence[str], *, log: str = "log", prelude: str = "") -> str:
    """sh text that starts ``argv`` detached with its output to ``$STATE/folder/log`` (appended), SIGINT at its
    default, and returns when the pid file stands. ``prelude`` is sh text at the head of launch.sh.

    Prints ``started PID``, or ``already running PID`` and starts nothing.
    """
    launch = f"#!/bin/sh\n{_text('record.sh')}{prelude.rstrip()}\nexec {shlex.join(argv)}\n".replace(
        "\n\n", "\n"
    )
    return (
        _unit(folder, log, make='mkdir -p "$D" || exit\n')
        + _text("start.sh")
        + _write("launch.sh", launch)
        + _write("supervise.sh", "#!/bin/sh\n" + _text("supervise.sh"))
        + _text("spawn.sh")
    )


def state(folder: str) -> str:
    """sh text that prints one line for ``parse_state``."""
    return _unit(folder) + _text("state.sh")


_STATE = re.compile(
    r"(?P<state>absent|running|ended|gone)"
    r"(?: pid=(?P<pid>\d+))?(?: status=(?P<status>\d+))?(?: since=(?P<since>\d+))?\n?"
)


def parse_state(output: str) -> Process:
    """Read what ``state``'s text printed; raises ``ValueError`` on anything else."""
    match = _STATE.fullmatch(output)
    if match is None:
        raise ValueError(f"not the state of a process: {output[:200]!r}")
    found = ProcessState(match["state"])
    pid, status, since = match["pid"], match["status"], match["since"]
    if (found is ProcessState.ENDED) != (status is not None) or (found is ProcessState.RUNNING and not pid):
        raise ValueError(f"not the state of a process: {output[:200]!r}")
    return Process(
        found,
        int(pid) if pid else None,
        int(status) if status else None,
        float(since) if since else None,
    )


def stop(folder: str, *, signal: str = "INT", grace: float = 15.0, group: bool = True) -> str:
    """sh text that ends the process: ``signal`` to the group (without ``group`` to the program alone),
    ``grace`` seconds, then SIGKILL to all that is left of its session, its descendants and those with its
    mark; prints what it did; status 0 when nothing of it runs any more. Takes at most ``grace`` + 10 s."""
    return (
        _unit(folder)
        + f"SIGNAL={shlex.quote(signal)}\nGRACE={round(grace)}\nGROUP={'yes' if group else 'no'}\n"
        + _text("stop.sh")
    )


def _unit(folder: str, log: str = "log", *, make: str = "") -> str:
    # The folder's real path: ``folder`` may be a link that is set to a later unit one day.
    return (
        f'D="$STATE"/{shlex.quote(folder)}\n{make}'
        'D=$(readlink -f "$D" || echo "$D")\n'
        f'LOG="$D"/{shlex.quote(log)}\n'
    ) + _text("process.sh")


def _text(name: str) -> str:
    return files("cockpit.runtime").joinpath(name).read_text()


def _write(name: str, text: str) -> str:
    word, body = heredoc(text)
    return f'(umask 077; cat >"$D/{name}") {word} || exit\n{body}'
