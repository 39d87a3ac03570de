"""What vLLM does not check: parsers that fit the model, flags that harm on GB10. Pure; the facts are data."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import Profile
from cockpit.serving.arguments import value_of, written_key
from cockpit.serving.deep_explain import path
from cockpit.serving.schema import Schema

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Family:
    """A family of models and the parsers that fit it, the best first."""

    model: str
    tool: tuple[str, ...]
    reasoning: tuple[str, ...]


def family_of(profile: Profile, config: Mapping[str, Any]) -> Family | None:
    """The family of the profile's model, by its name and its architecture; None where none is known."""
    names = [profile.serve.model.rstrip("/").rpartition("/")[2], str(config.get("_name_or_path", ""))]
    architectures = config.get("architectures")
    names += [str(name) for name in architectures] if isinstance(architectures, list) else []
    names.append(str(config.get("model_type", "")))
    text = " ".join(names)
    return next((one for one in _families() if re.search(one.model, text, re.IGNORECASE)), None)


def parser_problems(
    profile: Profile, config: Mapping[str, Any], schema: Schema | None = None
) -> tuple[Problem, ...]:
    """Parsers that are made for another family's models. One that is unknown here is never spoken of."""
    family = family_of(profile, config)
    if family is None:
        return ()
    kinds = (
        ("tool-call-parser", family.tool, schema.tool_parsers if schema else ()),
        ("reasoning-parser", family.reasoning, schema.reasoning_parsers if schema else ()),
    )
    problems = []
    for name, fitting, registered in kinds:
        key, value = written_key(profile.serve.flags, name), value_of(profile.serve.flags, name)
        if key is None or not isinstance(value, str) or value in fitting or value not in _known(name):
            continue
        best = next((one for one in fitting if not registered or one in registered), "")
        problems.append(_misfit(profile, key, value, best))
    return tuple(problems)


def _misfit(profile: Profile, key: str, value: str, best: str) -> Problem:
    what = "tool calls" if "tool" in key else "reasoning"
    fix = Fix(f"profile  {key}: {best}", {"set": {path(key): best}}) if best else None
    return Problem(
        key,
        Severity.WARNING,
        f"{value} reads the {what} of another family of models than {profile.serve.model}."
        + (f" For this one it is {best}." if best else ""),
        why=f"vLLM starts all the same, and the {what} come back as plain text, or not at all.",
        fix=(fix,) if fix else (Fix(f"profile  - {key}", {"unset": [path(key)]}),),
        place=profile.place("serve", "flags", key),
    )


@cache
def _families() -> tuple[Family, ...]:
    return tuple(
        Family(row["model"], tuple(row["tool"]), tuple(row["reasoning"])) for row in _data("parsers")["family"]
    )


@cache
def _known(name: str) -> frozenset[str]:
    """Every parser that some family's entry names."""
    lists = [family.tool if name == "tool-call-parser" else family.reasoning for family in _families()]
    return frozenset(word for words in lists for word in words)


def gb10_problems(profile: Profile, *, weights: int = 0, schema: Schema | None = None) -> tuple[Problem, ...]:
    """What is known to do harm on GB10, each with its source. ``weights`` are the model's bytes."""
    problems = []
    for rule in _data("gb10")["rule"]:
        found = _in_env(profile, rule) if "env" in rule else _in_flags(profile, rule, weights, schema)
        if found is not None:
            problems.append(found)
    return tuple(problems)


def _in_flags(profile: Profile, rule: Mapping[str, Any], weights: int, schema: Schema | None) -> Problem | None:
    name = rule["flag"]
    flags = profile.serve.flags
    key = written_key(flags, name)
    if weights < rule.get("over_gib", 0) * GIB:
        return None
    if key is None and not (rule.get("or_absent") and (schema is None or name in schema.by_name)):
        return None
    value = flags[key] if key is not None else rule.get("is")
    if not _harmful(rule, value):
        return None
    fix: tuple[Fix, ...] = ()
    if "change" in rule:
        change = {path(written_key(flags, flag) or flag): new for flag, new in rule["change"].items()}
        told = ", ".join(f"{flag}: {new}" for flag, new in rule["change"].items())
        fix = (Fix(f"profile  {told}", {"set": change}),)
    elif rule.get("unset") and key is not None:
        fix = (Fix(f"profile  - {key}", {"unset": [path(key)]}),)
    place = profile.place("serve", "flags", key) if key is not None else profile.place("serve", "flags")
    return _problem(rule, name, value, fix, place)


def _in_env(profile: Profile, rule: Mapping[str, Any]) -> Problem | None:
    name = rule["env"]
    for where, env in environments(profile):
        if name in env and _harmful(rule, env[name]):
            return _problem(rule, name, env[name], (), profile.place(*where, name))
    return None


def environments(profile: Profile) -> tuple[tuple[tuple[str | int, ...], Mapping[str, str]], ...]:
    """Every environment that a profile declares, with its place in it; the last wins."""
    hosts = ((("hosts", at, "env"), host.env) for at, host in enumerate(profile.hosts))
    return (
        (("runtime", "env"), profile.runtime.env),
        (("ray", "env"), profile.ray.env),
        *hosts,
        (("serve", "env"), profile.serve.env),
    )


def _problem(rule: Mapping[str, Any], name: str, value: object, fix: tuple[Fix, ...], place: Any) -> Problem:
    return Problem(
        name,
        Severity(rule["severity"]),
        rule["message"].replace("{value}", str(value)),
        why=f"{rule['why']} (Source: {rule['source']}.)",
        fix=fix,
        place=place,
    )


def _harmful(rule: Mapping[str, Any], value: object) -> bool:
    if "is" in rule:
        return str(value) == str(rule["is"])
    if "not" in rule:
        return str(value) != str(rule["not"])
    try:
        number = float(str(value))
    except ValueError:
        return False
    return number > float(rule["above"]) if "above" in rule else number < float(rule["below"])


@cache
def _data(name: str) -> Mapping[str, Any]:
    return tomllib.loads(files("cockpit.serving").joinpath("data", f"{name}.toml").read_text())
