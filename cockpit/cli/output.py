"""The one way to standard output and standard error: what leaves here can't make a terminal do anything.

``say`` is for everything that is read; a name in the middle of a line passes ``name`` first, for ``say`` keeps line
breaks. Whoever writes otherwise has a reason: exact bytes that were asked for (``logs --raw``), and a line that
is written over.
"""

from __future__ import annotations

import sys

import click

from cockpit.logs.sanitise import clean

_ERASE = "\r\x1b[K"


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Write text, sanitised, its line breaks kept."""
    click.echo(clean(text, multiline=True), err=err, nl=nl)  # noqa: TID251 - the one place


def name(text: object) -> str:
    """A name that others chose, such as a file's, for the middle of a line: its line breaks are seen, too."""
    return clean(str(text))


def rewrite(text: str = "", *, err: bool = False) -> None:
    """Write over the terminal's present line, and stay at its beginning: what comes next is written over it."""
    click.echo(_ERASE + (f"{clean(text)}\r" if text else ""), err=err, nl=False)  # noqa: TID251 - the one place


def script(text: str) -> None:
    """A script for a shell: exact where it goes into a file or a pipe, sanitised where it is only looked at."""
    if sys.stdout.isatty():
        say(text, nl=False)
    else:
        click.echo(text, nl=False)  # noqa: TID251 - the one place
