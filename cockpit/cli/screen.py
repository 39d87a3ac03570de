"""Opens the screen."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from cockpit.model.errors import WrongWordError


class NoTerminalError(WrongWordError):
    """The screen needs a terminal."""


PIPED: Final = Path("-")


class NoPipeError(WrongWordError):
    """``-`` was given, and standard input can't be what it stands for."""


def need_terminal(instead: str) -> None:
    """Raise ``NoTerminalError`` where input or output is no terminal; ``instead`` says what to use."""
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise NoTerminalError("The screen needs a terminal, and there is none here.", remedy=instead)
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        raise NoTerminalError(
            "The screen needs a terminal that can move its cursor, and TERM says that this one can't.",
            remedy=f"{instead}; where the terminal is a usual one: TERM=xterm-256color",
        )


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether it is one; a stream that was closed by the caller is not there."""
    return stream is not None and stream.isatty()


def open_screen(profile: str | None, *, read_only: bool) -> None:
    """Open the cockpit on ``profile``; one that can't be found or read is told before the screen opens."""
    need_terminal("In a script use the verbs: spark-cockpit --help")
    if profile is not None and not _is_there(profile):
        from cockpit.bringup.profiles import find

        find(profile)
    # Until the first paint everything that is made stays: collecting garbage would only take time. The app goes on
    # with it then.
    gc.disable()
    from cockpit.tui.app import CockpitApp

    CockpitApp(profile, read_only=read_only).run()


def _is_there(profile: str) -> bool:
    """Whether a file has this profile's name, without reading any: the screen paints first and reads then."""
    from cockpit.bringup.profiles import shipped_folder, user_folder

    folders = (user_folder(), shipped_folder())
    return Path(profile).is_file() or any((folder / f"{profile}.yaml").is_file() for folder in folders)


def open_view(files: Sequence[Path]) -> None:
    """Open the log view on local files, or on what is piped to standard input (``-``)."""
    if files.count(PIPED) > 1:
        raise NoPipeError("- is standard input, which can be read once.", remedy="Write - once.")
    piped = _piped() if PIPED in files else None
    need_terminal("Print a profile's logs with: spark-cockpit logs PROFILE")
    from cockpit.tui.view_app import view_files

    view_files(files, piped)


def _piped() -> int:
    """Standard input, which the terminal takes the place of."""
    from cockpit.logs.intake import standard_input

    if sys.stdin is None or sys.stdin.isatty():
        raise NoPipeError(
            "- is standard input, and nothing is piped to it.",
            remedy="For example: zstd -dc FILE | spark-cockpit view -",
        )
    try:
        return standard_input()
    except OSError:
        raise NoTerminalError(
            "The screen needs a terminal, and there is none here.",
            remedy="Print a profile's logs with: spark-cockpit logs PROFILE",
        ) from None
