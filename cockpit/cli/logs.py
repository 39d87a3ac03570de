"""Prints the logs of a profile's hosts, whole."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote

import click

from cockpit.bringup.profiles import find
from cockpit.bringup.session import Session
from cockpit.cli import exits
from cockpit.cli.verbs import session_for
from cockpit.logs.sanitise import clean
from cockpit.model.command import Command
from cockpit.model.errors import CockpitError
from cockpit.model.profile import HostSpec, Profile
from cockpit.model.profile_error import nearest

SOURCES = {"serve": "runs/current/serve.log", "ray": "ray/log"}
"""The logs the cockpit's own processes write, below the cluster's state folder."""


class NoSuchLogError(CockpitError):
    """The host or the source is not one of the profile's, or has no log yet."""


def log_command(profile: Profile, host: HostSpec, source: str, *, follow: bool) -> Command:
    """The command that prints a log from its first byte, and goes on with ``follow``."""
    path = quote(f"spark-cockpit/{profile.name}/{SOURCES[source]}")
    log = f'"${{XDG_STATE_HOME:-$HOME/.local/state}}"/{path}'
    text = f"exec tail -c +1 -F {log} 2>/dev/null" if follow else f"exec cat {log}"
    return Command(host.name, ("sh", "-c", text), f"read the log {source}")


async def logs(
    profile: str,
    *,
    trust: tuple[str, ...],
    host: str | None,
    source: str | None,
    follow: bool,
    raw: bool,
    save: Path | None,
) -> int:
    """Print one log: the serve log of the head, unless told otherwise."""
    declared = find(profile)
    spec = _host(declared, host)
    name = _source(declared, spec, source)
    command = log_command(declared, spec, name, follow=follow)
    async with session_for(profile, trust=trust) as session:
        await session.hosts[spec.name].connect()
        status = await _print(session, command, raw=raw, save=save)
    if status != 0:
        raise NoSuchLogError(
            f"{spec.name} has no log {name} of {declared.name} yet.",
            remedy=f"See what runs: spark-cockpit status {declared.name}",
        )
    return exits.DONE


def _host(profile: Profile, name: str | None) -> HostSpec:
    if name is None:
        return profile.head
    try:
        return profile.host(name)
    except KeyError:
        names = [host.name for host in profile.hosts]
        near = nearest(name, names)
        hint = f" Did you mean {near}?" if near else f" Its hosts: {', '.join(names)}."
        raise NoSuchLogError(f"{profile.name} has no host {clean(name)}.{hint}") from None


def _source(profile: Profile, spec: HostSpec, name: str | None) -> str:
    if name is None:
        return "serve" if spec is profile.head else "ray"
    if name not in SOURCES:
        raise NoSuchLogError(f"No log is called {clean(name)}. The logs: {', '.join(SOURCES)}.")
    return name


async def _print(session: Session, command: Command, *, raw: bool, save: Path | None) -> int:
    """The bytes as they are to a file or, raw, to standard output; else sanitised, line by line."""
    pending = b""
    if save is not None:
        save.write_bytes(b"")
    async with session.hosts[command.host].open(command) as stream:
        while data := await stream.read():
            if save is not None:
                with save.open("ab") as file:
                    file.write(data)
            elif raw:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            else:
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    click.echo(clean(_last_state(line)))
        if pending:
            click.echo(clean(_last_state(pending)))
        return await stream.wait()


def _last_state(line: bytes) -> str:
    """A line as a terminal would leave it: of a progress bar's states the last."""
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
