"""A command as data: what a plan shows is what a host runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cockpit.model.errors import CockpitError

KILL_AFTER = 5.0
"""Seconds between SIGTERM and SIGKILL for a remote command that outlives its limit."""

_SECRET = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


class SecretMissingError(CockpitError):
    """A command needs a secret that nobody supplied."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command on one host.

    ``argv`` is a list that only ``hosts.quoting`` turns into a shell line. ``stdin`` is text, most often a
    POSIX sh script for ``sh -s``. Where ``secrets`` names variables, ``stdin`` holds them as ``${NAME}``, and
    their values are put in on the way to the host: plans, runbooks and logs show the names only.
    ``gives`` names the secret that its standard output is (without the last line break).
    ``limit`` is in seconds; ``timeout(1)`` holds it on the host too, so that a command which is given up
    on ends there even when the connection is gone. One that ``streams`` goes on for as long as it is listened
    to, and has no limit.
    """

    host: str
    argv: tuple[str, ...]
    why: str
    stdin: str = ""
    secrets: tuple[str, ...] = ()
    limit: float = 30.0
    gives: str = ""
    streams: bool = False

    @property
    def remote_argv(self) -> tuple[str, ...]:
        """The argv as the host runs it, under ``timeout(1)`` (GNU coreutils) where it has a limit."""
        if self.streams:
            return self.argv
        return ("timeout", f"--kill-after={KILL_AFTER:g}", f"{self.limit:g}", *self.argv)

    def stdin_bytes(self, values: Mapping[str, str]) -> bytes:
        """The bytes for standard input, with the secrets' ``values`` put in.

        Raises ``SecretMissingError`` when one of them is not in ``values``.
        """
        if not self.secrets:
            return self.stdin.encode()
        missing = [name for name in self.secrets if name not in values]
        if missing:
            raise SecretMissingError(
                f"{self.host}: {' and '.join(missing)} is needed to {self.why}, and is not set here.",
                remedy=f"Set {' and '.join(missing)} in the environment the cockpit is started from.",
            )

        def value(match: re.Match[str]) -> str:
            name = match.group(1)
            return values[name] if name in self.secrets else match.group(0)

        # A variable's bytes need not be UTF-8; Python keeps such ones as lone surrogates (PEP 383).
        return _SECRET.sub(value, self.stdin).encode(errors="surrogateescape")


def script(host: str, text: str, why: str, *, secrets: tuple[str, ...] = (), limit: float = 30.0) -> Command:
    """A POSIX sh script for ``host``, fed to ``sh -s`` on standard input: nothing is installed there.

    The text becomes one brace group: a shell reads a group whole before it runs any of it, so a connection
    that breaks while the script is on its way runs nothing instead of a part.
    """
    return Command(host, ("sh", "-s"), why, f"{{\n{text.rstrip()}\n}}\n", secrets, limit)


def streaming(command: Command) -> Command:
    """The command as ``Host.open`` runs it."""
    return replace(command, streams=True)


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended. ``status`` is its exit status, always a number: no number is an error."""

    command: Command
    status: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def text(self) -> str:
        """Standard output as text; invalid UTF-8 becomes U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """Standard error as text; invalid UTF-8 becomes U+FFFD."""
        return self.stderr.decode("utf-8", "replace")
