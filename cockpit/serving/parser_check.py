"""What the runtime's own vLLM said about a command line, read, and turned into problems of the profile."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cockpit.model.errors import CockpitError
from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import Profile
from cockpit.serving.arguments import canonical, flag_argv, serve_argv, written_key
from cockpit.serving.deep_explain import explained, path

MARKER = b"SPARK-COCKPIT-VERDICT "

STAGES = {
    "parse": "vLLM's own parser, asked on the head host in the runtime, refuses the command line.",
    "validate": "vLLM's own check of the arguments, asked on the head host in the runtime, refuses them.",
    "server": "vLLM's API server, asked on the head host in the runtime, could not start with these flags.",
    "config": "vLLM could not build its engine configuration from these flags on the head host.",
}


class NoVerdictError(CockpitError):
    """vLLM could not be asked."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """vLLM's answer to one command line: ``stage`` is "" where all is well. ``bind`` says why the API's
    address can't be listened on, "" where it can."""

    stage: str
    message: str
    kind: str = ""
    bind: str = ""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """vLLM's whole answer, an entry of ``verdicts`` a command line. ``names`` is every option the parser
    knows, with its dashes. Of a line in pieces that the parser refuses, ``alone`` has its message to each
    flag by itself, and ``rest`` the verdict without those. ``answer`` is the answer as it came."""

    version: str
    names: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    alone: tuple[str, ...] = ()
    rest: Verdict | None = None
    answer: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def messages(self) -> tuple[tuple[str, str], ...]:
        """Stage and message of each command line."""
        return tuple((one.stage, one.message) for one in self.verdicts)


def serve_pieces(profile: Profile) -> tuple[tuple[str, ...], ...]:
    """``serve_argv`` in parts: the head, then each flag of the profile with its values."""
    flags = [tuple(flag_argv(name, value)) for name, value in profile.serve.flags.items()]
    whole = serve_argv(profile)
    head = whole[: len(whole) - sum(len(part) for part in flags)]
    return (head, *flags)


def read_verdicts(output: bytes, error: bytes = b"") -> Verdicts:
    """Read what the script printed; raises ``NoVerdictError``, with the last of ``error``, where it failed."""
    _, marker, answer = output.rpartition(MARKER)
    if not marker:
        raise NoVerdictError(
            f"vLLM's parser gave no answer{_last_words(error)}",
            remedy="Run `vllm serve --help` in the runtime on the head host to see what is wrong with it.",
        )
    try:
        return _verdicts(json.loads(answer))
    except (ValueError, KeyError, TypeError, AttributeError) as mistake:
        raise NoVerdictError(f"vLLM's parser gave an answer that can't be read: {mistake!r}.") from mistake


def _verdicts(read: dict[str, Any]) -> Verdicts:
    return Verdicts(
        str(read["version"]),
        tuple(str(name) for name in read["names"]),
        tuple(_verdict(row) for row in read["verdicts"]),
        tuple(str(message) for message in read.get("alone", ())),
        _verdict(read["rest"]) if read.get("rest") else None,
        read,
    )


def _verdict(row: dict[str, Any]) -> Verdict:
    return Verdict(str(row["stage"]), str(row["message"]), str(row.get("type", "")), str(row.get("bind", "")))


def _last_words(error: bytes) -> str:
    lines = [line.strip() for line in error.decode("utf-8", "replace").splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else "."


def parse_verdict(output: bytes, profile: Profile, error: bytes = b"") -> tuple[Problem, ...]:
    """The problems of the profile's command line; none where vLLM takes it."""
    return verdict_problems(read_verdicts(output, error), profile)


def verdict_problems(verdicts: Verdicts, profile: Profile) -> tuple[Problem, ...]:
    """The same, from what was read: of the profile's line, which is the first. Where it came in pieces, each
    flag that the parser refuses by itself has a problem, and what is left of the line one at most."""
    if not any(verdicts.alone):
        return _of_line(verdicts, verdicts.verdicts[0], profile)
    problems: list[Problem] = []
    for key, message in zip(profile.serve.flags, verdicts.alone, strict=False):
        if "unrecognized arguments: " in message:
            problems.append(_unknown(profile, verdicts, key))
        elif message:
            problems.append(_problem(profile, "parse", message, key))
    left = _of_line(verdicts, verdicts.rest, profile) if verdicts.rest else ()
    return (*problems, *left)


def _of_line(verdicts: Verdicts, verdict: Verdict, profile: Profile) -> tuple[Problem, ...]:
    if not verdict.stage:
        return ()
    unknown = re.match(r"unrecognized arguments: (?P<words>.*)", verdict.message, re.DOTALL)
    if unknown:
        return _unknown_flags(profile, verdicts, unknown["words"], verdict.message)
    return (_problem(profile, verdict.stage, verdict.message, flag_of(profile, verdict.message)),)


def clean_message(message: str) -> str:
    """vLLM's message without pydantic's frame: the input's repr and the link to pydantic's own pages."""
    kept = [
        re.sub(r" \[type=.*", "", line.strip()).removeprefix("Value error, ")
        for line in message.splitlines()
        if not re.match(r"\s*For further information visit |\d+ validation errors? for ", line)
    ]
    return "\n".join(line for line in kept if line) or message


def _unknown_flags(profile: Profile, verdicts: Verdicts, words: str, message: str) -> tuple[Problem, ...]:
    keys = [key for key in profile.serve.flags if any(_names(word, key) for word in words.split())]
    if not keys:
        return (_problem(profile, "parse", message, ""),)
    return tuple(_unknown(profile, verdicts, key) for key in keys)


def _unknown(profile: Profile, verdicts: Verdicts, key: str) -> Problem:
    flags = profile.serve.flags
    near = nearest(key, verdicts.names)
    fix = Fix(f"profile  - {key}", {"unset": [path(key)]})
    if near and written_key(flags, near) is None:
        fix = Fix(f"profile  {key} -> {near}", {"set": {path(near): flags[key]}, "unset": [path(key)]})
    return Problem(
        key,
        Severity.ERROR,
        f"vLLM {verdicts.version} knows no flag --{canonical(key)}."
        + (f" The nearest it knows is --{near}." if near else ""),
        why=STAGES["parse"],
        fix=(fix,),
        place=profile.place("serve", "flags", key),
    )


def nearest(key: str, names: Sequence[str]) -> str:
    """The known long name nearest to ``key``, without dashes; "" where none is near."""
    known = [name.removeprefix("--") for name in names if name.startswith("--")]
    near = difflib.get_close_matches(canonical(key), known, 1, 0.7)
    return near[0] if near else ""


def _names(word: str, key: str) -> bool:
    """Whether ``word`` of a command line is the flag that the profile has under ``key``."""
    name = word.partition("=")[0]
    bare = canonical(name)
    return name.startswith("-") and canonical(key) in (bare, bare.removeprefix("no-"))


def _problem(profile: Profile, stage: str, message: str, key: str) -> Problem:
    flags = profile.serve.flags
    told = explained(message, flags)
    blamed = written_key(flags, told.flag) if told and told.flag else None
    fix = (choice,) if (choice := _choice(key, message)) else told.fix if told else ()
    why = STAGES.get(stage, "")
    return Problem(
        canonical(blamed or key) or (told.flag if told else ""),
        Severity.ERROR,
        clean_message(message),
        why=f"{told.why} {why}".strip() if told else why,
        fix=fix,
        place=profile.place("serve", "flags", blamed or key)
        if blamed or key
        else profile.place("serve", "model"),
    )


def flag_of(profile: Profile, message: str) -> str:
    """The key of the first flag that the message speaks of and the profile has, "" where there is none."""
    flags = profile.serve.flags
    spoken = re.search(r"argument (?P<names>-\S+?):", message)
    words = spoken["names"].split("/") if spoken else re.findall(r"--?[A-Za-z][\w-]*|\b\w+_\w+\b", message)
    for word in words:
        key = written_key(flags, canonical(word))
        if key is not None:
            return key
    return ""


def _choice(key: str, message: str) -> Fix | None:
    """The nearest of the choices that the message lists."""
    match = re.search(
        r"invalid (?:choice|tool call parser|reasoning parser): '?(?P<given>[^' ]*)'? "
        r"\(cho+se from (?:\{ )?(?P<choices>.*?)(?: \})?\)",
        message,
    )
    if match is None or not key:
        return None
    choices = [choice.strip(" '") for choice in match["choices"].split(",")]
    given = match["given"]
    begun = [choice for choice in choices if given and choice.startswith(given)]
    near = begun or difflib.get_close_matches(given, choices, 1, 0.5)
    return Fix(f"profile  {key}: {near[0]}", {"set": {path(key): near[0]}}) if near else None
