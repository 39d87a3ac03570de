"""The verbs that work on a profile and its hosts."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import click

from cockpit.bringup.events import Event, StepName
from cockpit.bringup.open import Ask, open_session
from cockpit.bringup.profiles import find, listing
from cockpit.bringup.runbook import runbook as make_runbook
from cockpit.bringup.runner import Runner
from cockpit.bringup.runner import plan as make_plan
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner
from cockpit.bringup.steps import all_steps
from cockpit.cli import exits, show
from cockpit.cli.output import name, say, script
from cockpit.cli.watch import Lines, json_lines
from cockpit.hosts.errors import HostKeyUnknown
from cockpit.hosts.quoting import join
from cockpit.logs.sanitise import clean
from cockpit.model.profile_error import nearest
from cockpit.model.verdict import Grade
from cockpit.runtime.environment import environment


def step_name(word: str) -> StepName:
    """The step called ``word``; raises ``click.UsageError`` with the nearest name."""
    try:
        return StepName(word)
    except ValueError:
        near = nearest(word, [step.value for step in StepName])
        hint = f" Did you mean '{near}'?" if near else ""
        names = ", ".join(step.value for step in StepName)
        raise click.UsageError(f"No step is called '{clean(word)}'.{hint} The steps: {names}.") from None


async def ask_on_terminal(key: HostKeyUnknown) -> bool:
    """Show an unknown host key and ask; only where someone sits at a terminal."""
    say(key.message, err=True)
    return click.confirm("Trust it, and remember it?", default=False, err=True)


@asynccontextmanager
async def session_for(
    name: str,
    *,
    trust: tuple[str, ...] = (),
    emit: Callable[[Event], None] | None = None,
    forced: bool = False,
) -> AsyncIterator[Session]:
    """A session for the profile called ``name``, asking about host keys where there is a terminal."""
    ask: Ask | None = ask_on_terminal if sys.stdin.isatty() and sys.stderr.isatty() else None
    async with open_session(find(name), emit=emit, ask=ask, trust=frozenset(trust), forced=forced) as session:
        yield session


def profiles(*, as_json: bool) -> None:
    """List the profiles."""
    entries = listing()
    if as_json:
        show.as_json({"profiles": [entry.to_json() for entry in entries]})
        return
    names = [name(entry.name) for entry in entries]
    width = max((len(shown) for shown in names), default=0)
    for entry, shown in zip(entries, names, strict=True):
        told = f"✗ {name(entry.fault)}" if entry.fault else name(entry.description.partition("\n")[0])
        say(f"{shown:<{width}}  {entry.source:<7}  {told}".rstrip())


def plan(profile: str, *, step: str | None, full: bool, as_json: bool) -> None:
    """Every command, as it would run: of one step whole, of all in short unless they are wanted in full."""
    from cockpit.cli.planned import plan_json, show_plan

    found = find(profile)
    steps = [item for item in all_steps() if step is None or item.name is step_name(step)]
    planned = make_plan(Planner(found, environment(found)), steps)
    if as_json:
        show.as_json({"steps": plan_json(planned)})
    else:
        more = join(["spark-cockpit", "plan", profile, "--full"])
        show_plan(planned, full=full or step is not None, more=more)


def runbook(profile: str) -> None:
    """The runbook of a profile."""
    found = find(profile)
    script(make_runbook(Planner(found, environment(found)), all_steps()))


async def check(profile: str, *, measure: bool, as_json: bool, trust: tuple[str, ...]) -> int:
    """Preflight."""
    from cockpit.bringup.steps.preflight import survey_hosts

    async with session_for(profile, trust=trust) as session:
        found = await survey_hosts(session, measure=measure)
    verdicts = found.verdicts
    if as_json:
        told = [verdict.to_json() for verdict in verdicts]
        show.as_json({"verdicts": told, "cabling": found.cabling or None})
    else:
        show.verdicts(verdicts)
        if found.cabling:
            say("The cabling:\n" + show.indented(found.cabling, "  "))
    grades = {verdict.grade for verdict in verdicts}
    if Grade.BLOCKED in grades:
        return exits.REFUSED
    unreachable = any(v.id == "connect" and v.grade is Grade.UNKNOWN for v in verdicts)
    return exits.UNREACHABLE if unreachable else exits.DONE


async def up(
    profile: str, *, through: str, force: bool, verbose: bool, as_json: bool, trust: tuple[str, ...]
) -> int:
    """The steps in order."""
    last = step_name(through)
    watcher: Callable[[Event], None] = json_lines if as_json else Lines(verbose=verbose, last=last)
    async with session_for(profile, trust=trust, emit=watcher, forced=force) as session:
        return exits.BY_OUTCOME[await Runner(session).up(last)]


async def down(profile: str, *, keep_ray: bool, verbose: bool, as_json: bool, trust: tuple[str, ...]) -> int:
    """The steps undone, in reverse."""
    kept = (StepName.CONTAINERS, StepName.RAY_HEAD, StepName.RAY_WORKERS) if keep_ray else ()
    watcher: Callable[[Event], None] = json_lines if as_json else Lines(verbose=verbose)
    async with session_for(profile, trust=trust, emit=watcher) as session:
        return exits.BY_OUTCOME[await Runner(session).down(frozenset(kept))]


async def status(profile: str, *, as_json: bool, trust: tuple[str, ...]) -> int:
    """One look."""
    from cockpit.bringup.look import look
    from cockpit.cli.status import show_status

    async with session_for(profile, trust=trust) as session:
        seen = await look(session)
    if as_json:
        show.as_json(seen.to_json())
    else:
        show_status(seen)
    return exits.DONE if all(host.reachable for host in seen.hosts) else exits.UNREACHABLE


async def prompt(profile: str, text: str | None, *, as_json: bool, trust: tuple[str, ...]) -> int:
    """One streamed answer."""
    from cockpit.bringup.ask import stream_answer
    from cockpit.bringup.steps.prompt import figures

    _refuse_undecodable(text or "")
    async with session_for(profile, trust=trust) as session:
        writer = None if as_json else AnswerWriter()
        result = await stream_answer(session, text, writer or _silent)
        if writer is not None:
            writer.close()
    if as_json:
        show.as_json(result.to_json())
    else:
        say(figures(result), err=True)
    return exits.DONE


def _refuse_undecodable(text: str) -> None:
    """Bytes that are no UTF-8 come from the command line as lone surrogates, which no request can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = clean(text[error.start : error.end])
        raise click.UsageError(f"The text is no UTF-8: {shown} at character {error.start + 1}.") from None


def _silent(_text: str, _reasoning: str) -> None:
    """Nobody watches the answer grow."""


class AnswerWriter:
    """Writes an answer as it grows: the answer to standard output, the reasoning, apart, to standard error."""

    def __init__(self) -> None:
        self._reasoning = False
        self._wrote = False

    def __call__(self, text: str, reasoning: str) -> None:
        """Write a piece."""
        if reasoning:
            if not self._reasoning:
                say("reasoning: ", nl=False, err=True)
            self._reasoning = True
            say(show.safe(reasoning), nl=False, err=True)
        if text:
            if self._reasoning:
                say("", err=True)
                self._reasoning = False
            self._wrote = True
            say(show.safe(text), nl=False)

    def close(self) -> None:
        """End the line."""
        if self._wrote:
            say("")
