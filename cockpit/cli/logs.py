"""Prints the logs of a profile's hosts, whole."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from cockpit.bringup.profiles import find
from cockpit.bringup.session import Session
from cockpit.bringup.sources import HOST_SPOOL, follower_of, sources_of, spool_of
from cockpit.cli import exits
from cockpit.cli.output import say
from cockpit.cli.verbs import session_for
from cockpit.logs.follow import FollowEvent, Full, Gap, HasRoom, Lost, Resumed, Waiting, follow_spool
from cockpit.logs.log import Log
from cockpit.logs.printing import (
    Printed,
    Printer,
    Write,
    caught_up,
    follow_log,
    print_log,
    print_merged,
    running,
    since_time,
)
from cockpit.logs.sanitise import clean
from cockpit.logs.sources import Kind, Source
from cockpit.logs.spool import Spool, SpoolInUse
from cockpit.logs.spools import prune, runs_kept, spool_root
from cockpit.logs.times import find_time, year_of
from cockpit.logs.typed import UNDERSTOOD, TypedTime, read_time
from cockpit.model.errors import CockpitError, WrongWordError
from cockpit.model.profile import HostSpec, Profile
from cockpit.model.profile_error import nearest

Choose = Callable[[], Awaitable[tuple[list[Source], dict[str, str]]]]
LOOK_AGAIN: Final = 15.0
"""Seconds between two looks for logs that began meanwhile."""


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
    """Print the logs of the last run: the head's serve log and what the other hosts' Ray workers wrote, by time;
    or the logs that ``host`` and ``source`` name. Exact bytes (``raw``, ``save``) are of one log: the head's,
    where no host is named."""
    typed = _typed(since)
    declared = find(profile)
    one = host is not None or raw or save is not None
    specs = (_host(declared, host),) if one else declared.hosts
    async with session_for(profile, trust=trust) as session:
        if listing:
            spec = _host(declared, host)
            _list(await _sources(session, spec))
            return exits.DONE
        chosen, whys = await _chosen(session, declared, specs, source)
        for name, why in whys.items():
            say(f"{name}: {clean(why)}; its log is not shown.", err=True)
        with contextlib.ExitStack() as stack:
            printing = _Printing(session, stack, raw=raw or save is not None)
            for each in chosen:
                printing.add(each)
            current = [HOST_SPOOL, *(each.run for each in chosen)]
            prune(spool_root(), declared.name, keep=runs_kept(), current=current)
            if save is not None:
                printing.write = stack.enter_context(save.open("wb")).write
            if follow:
                await printing.follow(typed, lambda: _chosen(session, declared, specs, source))
            for name, why in (await printing.all(typed)).items():
                whys[name] = why
                say(f"{name}: {clean(why)}; shown is what was read before.", err=True)
    return exits.UNREACHABLE if whys else exits.DONE


async def _sources(session: Session, spec: HostSpec) -> tuple[Source, ...]:
    await session.hosts[spec.name].connect()
    return await sources_of(session, spec)


async def _chosen(
    session: Session, profile: Profile, specs: Sequence[HostSpec], name: str | None
) -> tuple[list[Source], dict[str, str]]:
    """The log of each host, and why a host's can't be had. Raises what stands in the way of all."""
    found = await asyncio.gather(*(_sources(session, spec) for spec in specs), return_exceptions=True)
    chosen: list[Source] = []
    whys: dict[str, str] = {}
    errors: list[BaseException] = []
    for spec, sources in zip(specs, found, strict=True):
        try:
            if isinstance(sources, BaseException):
                raise sources
            if name is None and spec is not profile.head and not any(each.kind is Kind.RAY for each in sources):
                continue
            chosen.append(_choose(profile, spec, sources, name))
        except NoSuchLogError as error:
            errors.append(error)
        except CockpitError as error:
            errors.append(error)
            whys[spec.name] = error.message
    if not chosen and errors:
        raise errors[0]
    return chosen, whys


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
        remedy=f"Its logs: spark-cockpit logs {profile.word} --host {spec.name} --list",
    )


def _first_ray(found: tuple[Source, ...]) -> str:
    """A worker's log on a host without a serve log: the newest of Ray's that has something in it."""
    return next((each.name for each in found if each.name.startswith("worker-") and each.size), "raylet.out")


def _list(found: tuple[Source, ...]) -> None:
    for each in found:
        name = f"{each.name}:{each.run}" if each.run and not each.current else each.name
        size = "" if each.size is None else f"{each.size:>12,} bytes".replace(",", " ")
        grant = f"  can't be read; grant it: {each.grant}" if each.grant else ""
        say(f"{clean(name):<44}{size:>20}  {clean(each.path)}{clean(grant)}")


class _Printing:
    """The logs that are printed. Where another cockpit keeps a spool, its copy is read."""

    def __init__(self, session: Session, stack: contextlib.ExitStack, *, raw: bool) -> None:
        self.write: Write = _write
        self._session = session
        self._stack = stack
        self._raw = raw
        self._printed: dict[tuple[str, str, str], Printed] = {}
        self._turn = asyncio.Lock()

    def add(self, source: Source) -> Printed | None:
        """One more; None where it is printed already. Of several, each line has its host's name before it."""
        key = (source.host, source.name, source.run)
        if key in self._printed:
            return None
        path = spool_of(self._session, source)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            spool = self._stack.enter_context(Spool(path))
        except SpoolInUse:
            spool = None
        printed = Printed(Log.open(path, f"{source.host}: {source.name}"))
        self._stack.callback(lambda: printed.log.close())
        if spool is not None:
            printed.follower = follower_of(self._session, source, spool, printed.told.put_nowait)
        self._printed[key] = printed
        if len(self._printed) > 1:
            for (host, _, _), each in self._printed.items():
                each.label = host
        return printed

    async def all(self, since: TypedTime | None) -> dict[str, str]:
        """Bring the spools up to date and print them; for each that could not be read to its end, why."""
        printed = list(self._printed.values())
        whys = await self._caught_up() if len(printed) > 1 or since is not None else {}
        if len(printed) > 1:
            await asyncio.to_thread(print_merged, printed, self.write, since=_when(printed, since))
            return whys
        start = _start(printed[0], since)
        why = await print_log(printed[0], self.write, start=start, raw=self._raw, tell=_told)
        return {**whys, **({printed[0].log.name: why} if why else {})}

    async def follow(self, since: TypedTime | None, choose: Choose) -> None:
        """Print what is there and what comes, until cancelled; logs that are chosen later are printed too: those
        of a new run, of a worker that has just begun."""
        printed = list(self._printed.values())
        starts = [0]
        if len(printed) > 1 or since is not None:
            await self._caught_up()
            starts = [_start(printed[0], since)]
        if len(printed) > 1:
            when = _when(printed, since)
            starts = await asyncio.to_thread(print_merged, printed, self.write, since=when, whole=True)
        try:
            async with asyncio.TaskGroup() as group:
                for each, start in zip(printed, starts, strict=True):
                    group.create_task(self._follow(each, start))
                while not self._raw:
                    await asyncio.sleep(LOOK_AGAIN)
                    for source in await _quietly(choose):
                        new = self.add(source)
                        if new is not None:
                            say(f"{clean(new.log.name)}: {clean(source.path)} has begun.", err=True)
                            group.create_task(self._follow(new, 0))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _follow(self, printed: Printed, start: int) -> None:
        printer = Printer(printed, self.write, start, raw=self._raw)
        async with _others_spool(printed):
            await follow_log(printer, self._turn, _told)

    async def _caught_up(self) -> dict[str, str]:
        followed = [each for each in self._printed.values() if each.follower]
        async with running(followed):
            found = await asyncio.gather(*(caught_up(each) for each in followed))
        return {each.log.name: why for each, why in zip(followed, found, strict=True) if why}


async def _quietly(choose: Choose) -> list[Source]:
    """What is chosen now; nothing where a host can't be asked at present."""
    try:
        return (await choose())[0]
    except CockpitError:
        return []


@asynccontextmanager
async def _others_spool(printed: Printed) -> AsyncIterator[None]:
    """Tell when the spool that another cockpit writes has grown."""
    if printed.follower is not None:
        yield
        return
    path = printed.log.file.path
    watch = asyncio.create_task(follow_spool(printed.log.name, path, printed.told.put_nowait))
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.wait([watch])


def _told(printed: Printed, event: FollowEvent) -> None:
    """What happens to a log while it is followed, on standard error: never silent."""
    match event:
        case Lost(why=why):
            printed.lost += 1
            words = f"lost: {why} It is tried again." if printed.lost == 1 else ""
        case Resumed(after=after):
            words = f"read again after {after:.1f} s, from where it was left." if printed.lost else ""
            printed.lost = 0
        case Gap(mark=mark):
            words = f"{mark.words()}."
        case Full(why=why):
            words = f"{why}. What comes is shown from memory; it stays on the host."
        case HasRoom():
            words = "the disk here has room again."
        case Waiting():
            words = "there is no such log on the host now; it is picked up when it appears."
        case _:
            words = ""
    if words:
        say(f"{clean(printed.log.name)}: {clean(words)}", err=True)


def _typed(since: str | None) -> TypedTime | None:
    """``--since`` as it is typed, before any host is asked."""
    if since is None:
        return None
    typed = read_time(since)
    if typed is None:
        raise NoSuchLogError(f"--since: '{clean(since)}' is no time.", remedy=UNDERSTOOD)
    return typed


def _when(printed: Sequence[Printed], since: TypedTime | None) -> float | None:
    """The time at which printing begins."""
    if since is None:
        return None
    for each in printed:
        each.log.refresh()
    found = since_time([each.log for each in printed], since)
    if found is None:
        names = ", ".join(clean(each.log.name) for each in printed)
        raise NoSuchLogError(f"{names}: no line tells a time, so --since says nothing there.")
    return found


def _start(printed: Printed, since: TypedTime | None) -> int:
    """Where printing begins in one log."""
    when = _when([printed], since)
    return 0 if when is None else find_time(printed.log, when, year_of(printed.log))


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
