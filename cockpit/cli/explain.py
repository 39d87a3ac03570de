"""Names the cause, of files or of a profile's last run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import click

from cockpit.bringup.evidence import gather, take_stacks
from cockpit.bringup.profile_edit import preview
from cockpit.bringup.profiles import find
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.cli import exits, show
from cockpit.cli.output import name, say
from cockpit.cli.verbs import session_for
from cockpit.diagnosis.engine import explain as explain_sources
from cockpit.diagnosis.sources import Source, collect
from cockpit.hosts.errors import HostError
from cockpit.model.errors import CockpitError
from cockpit.model.finding import Explanation

_LOGS = (".log", ".txt", ".out", ".err", ".gz")


class NothingToExplain(CockpitError):
    """The profile has no run yet."""


async def explain(
    paths: tuple[str, ...], *, report: Path | None, stacks: bool, as_json: bool, trust: tuple[str, ...]
) -> int:
    """Explain files and folders; a single word that is no path, or a YAML file, is a profile. ``stacks`` first
    takes the Python stacks of every rank of the profile's run."""
    if not all(paths):
        raise click.UsageError("A path is empty.")
    diff = ""
    away: tuple[str, ...] = ()
    if len(paths) == 1 and _is_profile(paths[0]):
        sources, hosts, away = await _sources_of_run(paths[0], trust, stacks)
    elif stacks:
        raise NothingToExplain(
            "--stacks is for a profile's run: files have no processes.",
            remedy="spark-cockpit explain PROFILE --stacks",
        )
    else:
        sources, hosts = collect(paths), {}
    found = explain_sources(sources, hosts)
    found = replace(found, next=(*away, *found.next))
    if len(paths) == 1 and _is_profile(paths[0]):
        diff = _diff(paths[0], found)
    if report is not None:
        _write_report(report, found, sources)
    if as_json:
        show.as_json(found.to_json())
    else:
        show.explanation(found, diff)
    return exits.DONE


def _is_profile(word: str) -> bool:
    """A word that is no path, or a YAML file; a path to nothing is a log that is missing."""
    path = Path(word)
    yaml = path.suffix in (".yaml", ".yml")
    if word == "-" or path.is_dir():
        return False
    return yaml if path.exists() else yaml or ("/" not in word and path.suffix not in _LOGS)


def _diff(profile: str, found: Explanation) -> str:
    """What the first finding's fix would change in the profile, "" where nothing or where it can't be made."""
    fixes = found.findings[0].fix if found.findings else ()
    changes = [fix for fix in fixes if fix.change and "run" not in fix.change][:1]
    if not changes:
        return ""
    try:
        return preview(Path(find(profile).file), changes)
    except (CockpitError, OSError):
        # The change does not fit the profile as it is now; its words still stand in the fix.
        return ""


async def _sources_of_run(
    profile: str, trust: tuple[str, ...], stacks: bool
) -> tuple[list[Source], dict[str, str], tuple[str, ...]]:
    """The run's logs, the hosts by address, and what to do about each host that is away."""
    declared = find(profile)
    async with session_for(profile, trust=trust) as session:
        away = await _reach(session)
        run = await last_run(session)
        if run is None:
            raise NothingToExplain(
                f"{declared.name} has no run yet.", remedy=f"Start one: spark-cockpit up {declared.word}"
            )
        if stacks:
            await take_stacks(session, run.id)
        sources = await gather(session, run.id)
    return sources, {spec.cluster_address: spec.name for spec in declared.hosts}, away


async def _reach(session: Session) -> tuple[str, ...]:
    """Connect to every host. The run is the head's: without it nothing can be explained; of any other host the
    logs are left out, as a host that went down with the run leaves them, and that is told."""
    away = []
    tried = await asyncio.gather(*(host.connect() for host in session.hosts.values()), return_exceptions=True)
    for name_of, error in zip(session.hosts, tried, strict=True):
        if isinstance(error, HostError) and name_of != session.profile.head.name:
            away.append(f"The logs of {name_of} were not read: {error.message} {error.remedy}".strip())
        elif isinstance(error, BaseException):
            raise error
    return tuple(away)


def _write_report(path: Path, found: Explanation, sources: list[Source]) -> None:
    from cockpit.diagnosis.report import report

    path.write_text(report(found, sources, {}), encoding="utf-8")
    say(f"The report is in {name(path)}.", err=True)
