"""The verdict of the runtime's own vLLM on the exact command line, before anything is launched."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from cockpit.model.command import Command
from cockpit.model.errors import CockpitError
from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import EMPTY, Profile
from cockpit.runtime.prelude import heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.serving.arguments import canonical, serve_argv, written_key

MARKER = b"SPARK-COCKPIT-VERDICT "

LIMIT = 120.0
"""Seconds the question may take; vLLM's import alone takes 7 to 15."""

STAGES = {
    "parse": "vLLM's own parser, asked on the head host in the runtime, refuses the command line.",
    "validate": "vLLM's own check of the arguments, asked on the head host in the runtime, refuses them.",
    "config": "vLLM could not build its engine configuration from these flags on the head host.",
}


class NoVerdictError(CockpitError):
    """vLLM could not be asked."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """vLLM's answer: ``messages`` has one entry a command line, (stage, message), both "" where all is well.
    ``names`` is every option the parser knows, with its dashes."""

    version: str
    names: tuple[str, ...]
    messages: tuple[tuple[str, str], ...]


def verdict_command(
    profile: Profile, runtime: Runtime, environment: Mapping[str, str] = EMPTY, *, deep: bool = False
) -> Command:
    """Ask vLLM about the profile's command line, in the runtime on the head. With ``deep`` it builds its
    engine configuration too: the model's own config.json is read, no engine is started."""
    return runtime.script(
        profile.head,
        verdict_text([serve_argv(profile)], deep=deep),
        "ask vLLM's own parser about the flags",
        env=environment,
        limit=LIMIT,
    )


def verdict_text(lines: Sequence[Sequence[str]], *, deep: bool = False) -> str:
    """The sh text that asks about several command lines at once."""
    word, body = heredoc(files("cockpit.serving.scripts").joinpath("parser_verdict.py").read_text())
    asked = json.dumps({"lines": [list(argv) for argv in lines], "deep": deep})
    return f"python - {shlex.quote(asked)} {word}\n{body}"


def read_verdicts(output: bytes, error: bytes = b"") -> Verdicts:
    """Read what the script printed; raises ``NoVerdictError``, with the last of ``error``, where it failed."""
    _, marker, answer = output.rpartition(MARKER)
    if not marker:
        lines = [line for line in error.decode("utf-8", "replace").splitlines() if line.strip()]
        last = f": {lines[-1].strip()}" if lines else "."
        raise NoVerdictError(
            f"vLLM's parser gave no answer{last}",
            remedy="Run `vllm serve --help` in the runtime on the head host to see what is wrong with it.",
        )
    read: dict[str, Any] = json.loads(answer)
    messages = tuple((str(verdict["stage"]), str(verdict["message"])) for verdict in read["verdicts"])
    return Verdicts(str(read["version"]), tuple(read["names"]), messages)


def parse_verdict(output: bytes, profile: Profile, error: bytes = b"") -> tuple[Problem, ...]:
    """The problems of the profile's command line; none where vLLM takes it."""
    verdicts = read_verdicts(output, error)
    stage, message = verdicts.messages[0]
    if not stage:
        return ()
    unknown = re.match(r"unrecognized arguments: (?P<words>.*)", message, re.DOTALL)
    if unknown:
        return _unknown_flags(profile, verdicts, unknown["words"], message)
    return (_problem(profile, stage, message),)


def clean_message(message: str) -> str:
    """vLLM's message without pydantic's frame: the input's repr and the link to pydantic's own pages."""
    kept = [
        re.sub(r" \[type=.*", "", line.strip()).removeprefix("Value error, ")
        for line in message.splitlines()
        if not re.match(r"\s*For further information visit |\d+ validation errors? for ", line)
    ]
    return "\n".join(line for line in kept if line) or message


def _unknown_flags(profile: Profile, verdicts: Verdicts, words: str, message: str) -> tuple[Problem, ...]:
    flags = profile.serve.flags
    keys = [key for key in flags if any(_names(word, key) for word in words.split())]
    if not keys:
        return (_problem(profile, "parse", message),)
    problems = []
    for key in keys:
        near = nearest(key, verdicts.names)
        fix: tuple[Fix, ...] = ()
        if near:
            value = flags[key]
            change = {"set": {f"serve.flags.{near}": value}, "unset": [f"serve.flags.{key}"]}
            fix = (Fix(f"profile  {key} -> {near}", change),)
        problems.append(
            Problem(
                key,
                Severity.ERROR,
                f"vLLM {verdicts.version} knows no flag --{canonical(key)}."
                + (f" The nearest it knows is --{near}." if near else ""),
                why=STAGES["parse"],
                fix=fix or (Fix(f"profile  - {key}", {"unset": [f"serve.flags.{key}"]}),),
                place=profile.place("serve", "flags", key),
            )
        )
    return tuple(problems)


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


def _problem(profile: Profile, stage: str, message: str) -> Problem:
    key = _flag_of(profile, message)
    fix = _choice(profile, key, message)
    return Problem(
        canonical(key) if key else "",
        Severity.ERROR,
        clean_message(message),
        why=STAGES.get(stage, ""),
        fix=(fix,) if fix else (),
        place=profile.place("serve", "flags", key) if key else profile.place("serve", "model"),
    )


def _flag_of(profile: Profile, message: str) -> str:
    """The key of the first flag that the message speaks of and the profile has, "" where there is none."""
    flags = profile.serve.flags
    spoken = re.search(r"argument (?P<names>-\S+?):", message)
    words = spoken["names"].split("/") if spoken else re.findall(r"--?[A-Za-z][\w-]*|\b\w+_\w+\b", message)
    for word in words:
        key = written_key(flags, canonical(word))
        if key is not None:
            return key
    return ""


def _choice(profile: Profile, key: str, message: str) -> Fix | None:
    """The nearest of the choices that the message lists."""
    match = re.search(r"invalid choice: '?(?P<given>[^' ]*)'? \(choose from (?P<choices>.*)\)", message)
    if match is None or not key:
        return None
    choices = [choice.strip(" '") for choice in match["choices"].split(",")]
    near = difflib.get_close_matches(match["given"], choices, 1, 0.5)
    return Fix(f"profile  {key}: {near[0]}", {"set": {f"serve.flags.{key}": near[0]}}) if near else None
