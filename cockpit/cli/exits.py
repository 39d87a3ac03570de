"""Exit statuses, and how an error leaves the program."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from cockpit.bringup.names import Outcome
from cockpit.cli.output import say
from cockpit.model.errors import CockpitError, WrongWordError, inline

DONE, FAILED, USAGE, UNREACHABLE, REFUSED, DETACHED = 0, 1, 2, 3, 4, 130

GONE = "Detached. What runs on the hosts goes on."

BY_OUTCOME = {
    Outcome.READY: DONE,
    Outcome.DOWN: DONE,
    Outcome.FAILED: FAILED,
    Outcome.STALLED: FAILED,
    Outcome.TIMEOUT: FAILED,
    Outcome.REFUSED: REFUSED,
    Outcome.UNREACHABLE: UNREACHABLE,
    Outcome.DETACHED: DETACHED,
}


def status_of(error: CockpitError) -> int:
    """The exit status the contract has for ``error``."""
    # The screen's first paint does not wait for what nobody may raise.
    from cockpit.bringup.errors import StepError
    from cockpit.bringup.profiles import ProfileNotFound
    from cockpit.hosts.errors import HostError
    from cockpit.model.profile_error import ProfileError

    match error:
        case ProfileError() | ProfileNotFound() | WrongWordError():
            return USAGE
        case StepError():
            return BY_OUTCOME[error.outcome]
        case HostError():
            return UNREACHABLE
        case _:
            return FAILED


@contextmanager
def leaving(*, as_json: bool = False) -> Iterator[None]:
    """Turn what the cockpit can explain into words on standard error and the contract's exit status. With
    ``as_json`` the error is the answer too, where there is none yet."""
    try:
        yield
    except CockpitError as error:
        say(_in_words(error), err=True)
        _answer(as_json, error.message, error)
        leave(status_of(error))
    except click.ClickException as error:
        text = io.StringIO()
        error.show(file=text)
        say(text.getvalue(), err=True, nl=False)
        _answer(as_json, error.format_message())
        leave(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        say(f"\n{GONE}", err=True)
        _answer(as_json, GONE)
        leave(DETACHED)
    except BrokenPipeError:
        # The reader of a pipe has gone (`spark-cockpit logs … | head`): nothing is left to say to anybody.
        sys.stderr.close()
        leave(DONE)
    except OSError as error:
        # A file or folder of this machine: the disk is full, a path can't be written or read.
        where = f"{inline(error.filename)}: " if error.filename else ""
        said = f"{where}{error.strerror or error}"
        say(said, err=True)
        _answer(as_json, said)
        leave(FAILED)


def run(verb: Coroutine[Any, Any, int]) -> int:
    """Run a verb to its exit status. A request to end (SIGTERM, a closed terminal's SIGHUP) detaches as Ctrl+C
    does: the last event is still told, the connections are closed."""

    async def watched() -> int:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for ended in (signal.SIGTERM, signal.SIGHUP):
            # Under nohup SIGHUP is ignored on purpose.
            if signal.getsignal(ended) is not signal.SIG_IGN:
                loop.add_signal_handler(ended, task.cancel)
        return await verb

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        raise click.Abort from None


def _answer(as_json: bool, message: str, error: CockpitError | None = None) -> None:
    """Write the error as JSON, where no answer was written before it."""
    from cockpit.cli import show

    if not as_json or show.answered:
        return
    from cockpit.model.profile_error import ProfileError

    told: dict[str, Any] = {"message": message, "remedy": error.remedy if error else ""}
    if isinstance(error, ProfileError):
        told["mistakes"] = [mistake.to_json() for mistake in error.mistakes]
    show.as_json({"error": told})


def _in_words(error: CockpitError) -> str:
    """The error in full."""
    from cockpit.bringup.errors import StepError

    if isinstance(error, StepError):
        # The runner brings every step with it, which the screen's first paint does not wait for.
        from cockpit.bringup.runner import tell

        return tell(error)
    return str(error)


def leave(status: int) -> NoReturn:
    """End the program with ``status``."""
    raise SystemExit(status)
