"""The verb ``flags``: judges a profile's flags, mends them, lists those there are."""

from __future__ import annotations

from cockpit.bringup import flag_cache
from cockpit.bringup.flag_judge import FlagCheck, check_flags, check_offline, schema_for
from cockpit.bringup.profile_edit import apply_changes, own_copy
from cockpit.bringup.profiles import find
from cockpit.cli import exits, show
from cockpit.cli.asking import asking
from cockpit.cli.output import name, say
from cockpit.cli.verbs import session_for
from cockpit.hosts.errors import HostError
from cockpit.model.errors import CockpitError
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
    check, asked = await _judge(profile, deep=deep or fix, trust=trust)
    applied: list[Fix] = []
    for _ in range(ROUNDS if fix and asked else 0):
        # A change that is proposed again did not help the first time.
        fixes = [one for one in profile_fixes(check.problems) if one not in applied]
        if not fixes or not asked:
            break
        _apply(find(profile), fixes)
        applied += fixes
        check, asked = await _judge(profile, deep=True, trust=trust)
    _show(check, applied, as_json=as_json)
    if not asked:
        return exits.UNREACHABLE
    return exits.REFUSED if check.errors else exits.DONE


async def _judge(name: str, *, deep: bool, trust: tuple[str, ...]) -> tuple[FlagCheck, bool]:
    """The checks' answer, and whether the hosts could be asked; else it is what can be said without them."""
    try:
        async with session_for(name, trust=trust) as session:
            await session.connect()
            async with asking(f"Asking {_asked(session.profile)} ..."):
                return await check_flags(session, deep=deep, keep=deep), True
    except (HostError, NoVerdictError) as error:
        _tell(error)
        return check_offline(find(name)), False


def _apply(profile: Profile, fixes: list[Fix]) -> None:
    path = own_copy(profile)
    say(apply_changes(path, fixes), err=True, nl=False)


async def _list(name: str, word: str, *, as_json: bool, trust: tuple[str, ...]) -> int:
    schema = await _schema(name, trust)
    found = schema.search(word)
    if as_json:
        told = {"vllm": schema.version, "source": schema.source, "findings": [], "command": []}
        show.as_json({**told, "flags": listing_json(found)})
    else:
        _show_flags(schema, found, word)
    return exits.DONE


async def _schema(name: str, trust: tuple[str, ...]) -> Schema:
    """The runtime's own flags, asked for or kept; else those to go by without it."""
    profile = find(name)
    try:
        async with session_for(name, trust=trust) as session:
            await session.head.connect()
            async with asking(f"Asking vLLM on {profile.head.name} for its flags ..."):
                return await schema_for(session)
    except (HostError, NoVerdictError) as error:
        _tell(error)
        return flag_cache.offline(profile)


def _asked(profile: Profile) -> str:
    """Whom the judgement asks."""
    others = [spec.name for spec in profile.hosts if spec != profile.head]
    also = f", and {', '.join(others)} about memory and versions" if others else ""
    return f"vLLM on {profile.head.name} about the flags{also}"


def _tell(error: CockpitError) -> None:
    say(str(error), err=True)


def _show_flags(schema: Schema, found: tuple[Flag, ...], word: str) -> None:
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
    say(f"vLLM {name(schema.version)} ({_whose(schema.source)})", err=True)


def _show(check: FlagCheck, applied: list[Fix], *, as_json: bool) -> None:
    if as_json:
        made = {"applied": [fix.to_json() for fix in applied]} if applied else {}
        show.as_json({**check.to_json(), **made})
        return
    show.problems(check.problems)
    count = len(check.errors)
    verdict = f"{count} to mend" if count else "no errors"
    say(f"vLLM {name(check.vllm)} ({_whose(check.source)}): {verdict}{_others(check.warnings)}")


def _others(warnings: tuple[Problem, ...]) -> str:
    return f", {len(warnings)} warning{'s' if len(warnings) > 1 else ''}" if warnings else ""


def _whose(source: str) -> str:
    return "the runtime's own" if source == "runtime" else "flags that the cockpit brings along"
