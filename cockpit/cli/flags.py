"""The verb ``flags``: judges a profile's flags, mends them, lists those there are."""

from __future__ import annotations

from cockpit.bringup import flag_cache
from cockpit.bringup.errors import StepError
from cockpit.bringup.flag_judge import UNCHECKED, FlagCheck, by_whom, check_flags, check_offline, schema_for
from cockpit.bringup.profile_edit import apply_changes, own_copy
from cockpit.bringup.profiles import find
from cockpit.cli import exits, output, show
from cockpit.cli.asking import asking
from cockpit.cli.output import say
from cockpit.cli.verbs import session_for
from cockpit.hosts.errors import HostError
from cockpit.model.finding import Fix, Problem, profile_fixes
from cockpit.model.profile import Profile
from cockpit.serving.flag_editor import flag_help, listing_json, one_line
from cockpit.serving.parser_check import NoVerdictError
from cockpit.serving.schema import Flag, Schema

ROUNDS = 4
"""How often --fix judges anew: a mended flag may let vLLM come to the next."""


async def flags(
    profile: str, *, deep: bool, fix: bool, word: str | None, as_json: bool, trust: tuple[str, ...]
) -> int:
    """Judge, mend or list; the exit status."""
    if word is not None:
        return await _list(profile, word, as_json=as_json, trust=trust)
    check = await _judge(profile, deep=deep or fix, trust=trust)
    applied: list[Fix] = []
    for _ in range(ROUNDS if fix else 0):
        # A change that is proposed again did not help the first time.
        fixes = [one for one in profile_fixes(check.problems) if one not in applied]
        if not fixes or check.unasked:
            break
        _apply(find(profile), fixes)
        applied += fixes
        check = await _judge(profile, deep=True, trust=trust)
    _show(check, applied if fix else None, as_json=as_json)
    if check.unasked:
        return exits.UNREACHABLE
    return exits.REFUSED if check.errors else exits.DONE


async def _judge(name: str, *, deep: bool, trust: tuple[str, ...]) -> FlagCheck:
    """The checks' answer; where the hosts can't be asked, what can be said without them."""
    try:
        async with session_for(name, trust=trust) as session:
            await session.connect()
            async with asking(f"Asking {_asked(session.profile)} ..."):
                return await check_flags(session, deep=deep, keep=deep)
    except (HostError, StepError, NoVerdictError) as error:
        return check_offline(find(name), str(error))


def _apply(profile: Profile, fixes: list[Fix]) -> None:
    path = own_copy(profile)
    say(apply_changes(path, fixes), err=True, nl=False)


async def _list(name: str, word: str, *, as_json: bool, trust: tuple[str, ...]) -> int:
    schema, unasked = await _schema(name, trust)
    found = schema.search(word)
    if as_json:
        told = {"vllm": schema.version, "source": schema.source, "findings": [], "command": []}
        asked = {"asked": not unasked, "reason": unasked or None}
        show.as_json({**told, **asked, "flags": listing_json(found)})
    else:
        _show_flags(found, word)
        if not found:
            near = schema.nearest(word)
            hint = f" Did you mean {near}?" if near else ""
            say(f"No flag has {output.name(word)} in its name, its help, its group or its choices.{hint}")
        say(by_whom(schema.version, schema.source, asked=not unasked))
        if unasked:
            say(f"The runtime was not asked. {unasked}")
    return exits.DONE


async def _schema(name: str, trust: tuple[str, ...]) -> tuple[Schema, str]:
    """The runtime's own flags, asked for or kept; else those to go by without it, and why."""
    profile = find(name)
    try:
        async with session_for(name, trust=trust) as session:
            await session.head.connect()
            async with asking(f"Asking vLLM on {profile.head.name} for its flags ..."):
                return await schema_for(session), ""
    except (HostError, StepError, NoVerdictError) as error:
        return flag_cache.offline(profile), str(error)


def _asked(profile: Profile) -> str:
    """Whom the judgement asks."""
    others = [spec.name for spec in profile.hosts if spec != profile.head]
    also = f", and {', '.join(others)} about memory and versions" if others else ""
    return f"vLLM on {profile.head.name} about the flags{also}"


def _show_flags(found: tuple[Flag, ...], word: str) -> None:
    if len(found) == 1 or (word and found and found[0].name == word.strip("-").replace("_", "-")):
        say(show.safe(f"--{found[0].name}\n{flag_help(found[0])}"))
        found = found[1:]
    width = max((len(flag.name) for flag in found), default=0)
    group = None
    for flag in found:
        if not word and flag.group != group:
            group = flag.group
            say(f"\n{show.safe(group)}")
        say(show.safe(f"--{flag.name:<{width}}  {one_line(flag)}"))


def _show(check: FlagCheck, applied: list[Fix] | None, *, as_json: bool) -> None:
    """The answer; ``applied`` are the changes that --fix made, None without --fix."""
    if as_json:
        made = {} if applied is None else {"applied": [fix.to_json() for fix in applied]}
        show.as_json({**check.to_json(), **made})
        return
    show.problems(check.problems)
    count = len(check.errors)
    none = "nothing found" if check.unasked else "no errors"
    verdict = (f"{count} to mend" if count else none) + _others(check.warnings)
    if not check.unasked:
        say(f"{check.by_whom}: {verdict}")
        return
    say(f"The runtime was not asked, so this is no verdict. {check.unasked}")
    say(f"By {check.by_whom}: {verdict}.\n{UNCHECKED}")
    if applied is not None:
        say("--fix changed nothing: it goes by the runtime's own verdict.")


def _others(warnings: tuple[Problem, ...]) -> str:
    return f", {len(warnings)} warning{'s' if len(warnings) > 1 else ''}" if warnings else ""
