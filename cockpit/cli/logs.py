"""Prints the logs of a profile's hosts, whole."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import click

from cockpit.bringup.profiles import find
from cockpit.bringup.session import Session
from cockpit.bringup.sources import follower_of, sources_of, spool_of
from cockpit.cli import exits, show
from cockpit.cli.verbs import session_for
from cockpit.logs.follow import follow_spool
from cockpit.logs.log import Log
from cockpit.logs.printing import Printed, caught_up, print_log, running, since_offset
from cockpit.logs.sanitise import clean
from cockpit.logs.sources import Source
from cockpit.logs.spool import Spool, SpoolInUse
from cockpit.model.errors import WrongWordError
from cockpit.model.profile import HostSpec, Profile
from cockpit.model.profile_error import nearest


class NoSuchLogError(WrongWordError):
    """The host or the source is not one of the profile's, or has no log yet."""


async def logs(
    profile: str,
    *,
    trust: tuple[str, ...],
    host: str | None,
    source: str | None,
    listing: bool,
    since: str | None,
    follow: bool,
    raw: bool,
    save: Path | None,
) -> int:
    """Print one log: the serve log of the head's last run, unless told otherwise."""
    declared = find(profile)
    spec = _host(declared, host)
    async with session_for(profile, trust=trust) as session:
        found = await _sources(session, spec)
        if listing:
            _list(found)
            return exits.DONE
        chosen = _choose(declared, spec, found, source)
        why = await _print(session, chosen, since=since, follow=follow, raw=raw, save=save)
    if why:
        click.echo(f"{spec.name}: {clean(why)}; shown is what was read before.", err=True)
        return exits.UNREACHABLE
    return exits.DONE


async def _sources(session: Session, spec: HostSpec) -> tuple[Source, ...]:
    await session.hosts[spec.name].connect()
    return await sources_of(session, spec)


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


def _choose(profile: Profile, spec: HostSpec, found: tuple[Source, ...], name: str | None) -> Source:
    """The source called ``name``; a serve log of an earlier run is ``serve:RUN``."""
    if name is None:
        name = "serve" if spec is profile.head else _first_ray(found)
    word, _, run = name.partition(":")
    for each in found:
        if each.name == word and (each.run == run if run else each.current or not each.run):
            if each.grant:
                raise NoSuchLogError(
                    f"{spec.name}: the log {each.name} can't be read by this user.",
                    remedy=f"Grant it: {each.grant}",
                )
            return each
    names = list(dict.fromkeys(each.name for each in found))
    near = nearest(word, names)
    hint = f" Did you mean {clean(near)}?" if near else ""
    raise NoSuchLogError(
        f"{spec.name} has no log {clean(name)} of {profile.name}.{hint}",
        remedy=f"Its logs: spark-cockpit logs {profile.name} --host {spec.name} --list",
    )


def _first_ray(found: tuple[Source, ...]) -> str:
    """A worker's log on a host without a serve log: the newest of Ray's that has something in it."""
    return next((each.name for each in found if each.name.startswith("worker-") and each.size), "raylet.out")


def _list(found: tuple[Source, ...]) -> None:
    for each in found:
        name = f"{each.name}:{each.run}" if each.run and not each.current else each.name
        size = "" if each.size is None else f"{each.size:>12,} bytes".replace(",", " ")
        grant = f"  can't be read; grant it: {each.grant}" if each.grant else ""
        click.echo(f"{show.safe(name):<44}{size:>20}  {show.safe(each.path)}{show.safe(grant)}")


async def _print(
    session: Session, source: Source, *, since: str | None, follow: bool, raw: bool, save: Path | None
) -> str:
    """Bring the spool up to date and print it; "" or why it could not be read to its end.

    Where another cockpit keeps this spool, its copy is printed as it grows.
    """
    path = spool_of(session, source)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.ExitStack() as stack:
        try:
            spool = stack.enter_context(Spool(path))
        except SpoolInUse:
            spool = None
        log = Log.open(path, source.name)
        stack.callback(log.close)
        printed = Printed(log)
        if spool is not None:
            printed.follower = follower_of(session, source, spool, printed.told.put_nowait)
        start, why = 0, ""
        if since is not None:
            async with running([printed]):
                why = await caught_up(printed) if printed.follower else ""
            start = _start(log, since)
        if save is not None:
            write: Callable[[bytes], object] = stack.enter_context(save.open("wb")).write
        else:
            write = _write
        async with _others_spool(printed, source, path, follow=follow and spool is None):
            exact = raw or save is not None
            return await print_log(printed, write, start=start, follow=follow, raw=exact) or why


@asynccontextmanager
async def _others_spool(printed: Printed, source: Source, path: Path, *, follow: bool) -> AsyncIterator[None]:
    """Tell ``printed`` when another cockpit's spool has grown."""
    if not follow:
        yield
        return
    watch = asyncio.create_task(follow_spool(source.name, lambda: path.stat().st_size, printed.told.put_nowait))
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.wait([watch])


def _start(log: Log, since: str) -> int:
    """Where ``--since`` begins: a time of day, a date with it, or a while ago as ``10m``."""
    log.refresh()
    start = since_offset(log, since)
    if start is None:
        raise NoSuchLogError(
            f"'{clean(since)}' is no time of this log.",
            remedy="Write 15:04, 11-30 15:04 or 2026-11-30T15:04:05.",
        )
    return start


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
