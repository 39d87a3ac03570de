"""Judges flags and values by a schema alone: for editing, and where vLLM itself can't be asked. Pure.

It says no more than the schema does: vLLM's parser is the judge. Of a schema that is not the very vLLM's
that will run, nothing is an error.
"""

from __future__ import annotations

import difflib
import json
import re

from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import FlagValue, Profile
from cockpit.serving.arguments import canonical, written_key
from cockpit.serving.deep_explain import path
from cockpit.serving.schema import Field, Flag, Kind, Schema

_SIZE = re.compile(r"-?\d+|\d+(\.\d+)?[kmgt]|\d+[KMGT]")
_TRUE_FALSE = "true for the flag, false for its --no- form"


def value_mistake(flag: Flag, value: FlagValue) -> str:
    """What is wrong with a flag's value, "" where nothing is known to be."""
    if flag.kind is Kind.SWITCH:
        if value is False and not flag.negations:
            return f"--{flag.name} has no --no- form: leave it out instead"
        return "" if value is None or isinstance(value, bool) else f"it is a switch: {_TRUE_FALSE}"
    if isinstance(value, bool) or value is None:
        return "" if value and flag.bare else "it needs a value"
    if isinstance(value, list):
        if not flag.many:
            return "it takes one value"
        return next((told for item in value if (told := _scalar_mistake(flag, _text(item)))), "")
    if isinstance(value, dict):
        if flag.kind not in (Kind.JSON, Kind.JSON_OR_TEXT):
            return "it takes no JSON"
        return _fields_mistake(flag, value)
    return _scalar_mistake(flag, _text(value))


def field_mistake(flag: Flag, name: str, value: FlagValue) -> str:
    """What is wrong with one field of a JSON-valued flag, given as ``flag.name``."""
    known = {one.name: one for one in flag.fields}
    head = name.partition(".")[0].removesuffix("+")
    if known and head not in known:
        near = difflib.get_close_matches(head, list(known), 1, 0.6)
        return f"it has no field {head}" + (f"; the nearest is {near[0]}" if near else "")
    return _field_value(known[head], value) if head in known and head == name else ""


def schema_problems(profile: Profile, schema: Schema, *, sure: bool = False) -> tuple[Problem, ...]:
    """The flags and values that ``schema`` knows to be wrong: errors where it is ``sure`` to be that of the
    vLLM that will run, else warnings."""
    severity = Severity.ERROR if sure else Severity.WARNING
    why = (
        "By the list of flags that this runtime's vLLM gave earlier; it was not asked now."
        if sure
        else f"By the flags of vLLM {schema.version}, which the cockpit brings along; the runtime's own was not asked."
    )
    problems = []
    for key, value in profile.serve.flags.items():
        place = profile.place("serve", "flags", key)
        flag = schema.find(key)
        if flag is None:
            problems.append(
                Problem(key, severity, _unknown(schema, key), why, _renamed(profile, schema, key), place)
            )
            continue
        _, dot, name = canonical(key).partition(".")
        mistake = field_mistake(flag, name, value) if dot else value_mistake(flag, value)
        if mistake:
            problems.append(Problem(flag.name, severity, f"--{canonical(key)}: {mistake}.", why, place=place))
    return (*problems, *notes(profile, schema))


def notes(profile: Profile, schema: Schema) -> tuple[Problem, ...]:
    """What vLLM takes and a newer one may not: deprecated flags, and names that are cut short."""
    found = []
    for key, value in profile.serve.flags.items():
        flag, place = schema.find(key), profile.place("serve", "flags", key)
        if flag is None:
            continue
        if flag.deprecated:
            message = f"--{flag.name} is deprecated in vLLM {schema.version}."
            found.append(Problem(flag.name, Severity.NOTE, message, flag.help, place=place))
        stem, dot, field = canonical(key).partition(".")
        negative = bool(flag.negations) and stem.startswith("no-")
        if stem not in schema.by_name and f"-{stem}" not in schema.by_option and not negative:
            whole = flag.name + dot + field
            fix = Fix(f"profile  {key} -> {whole}", {"set": {path(whole): value}, "unset": [path(key)]})
            message = f"vLLM takes --{stem} for --{flag.name}, whose name begins so."
            why = "Another version may have a second flag that begins so, and then refuses it."
            found.append(Problem(key, Severity.NOTE, message, why, (fix,), place))
    return tuple(found)


def _unknown(schema: Schema, key: str) -> str:
    near = schema.nearest(key)
    told = f" The nearest it knows is --{near}." if near else ""
    return f"vLLM {schema.version} knows no flag --{canonical(key)}.{told}"


def _renamed(profile: Profile, schema: Schema, key: str) -> tuple[Fix, ...]:
    near = schema.nearest(key)
    if near and written_key(profile.serve.flags, near) is None:
        change = {"set": {path(near): profile.serve.flags[key]}, "unset": [path(key)]}
        return (Fix(f"profile  {key} -> {near}", change),)
    return (Fix(f"profile  - {key}", {"unset": [path(key)]}),)


def _scalar_mistake(flag: Flag, text: str) -> str:
    if flag.optional and text in ("", "None"):
        return ""
    match flag.kind:
        case Kind.INT if not re.fullmatch(r"\s*[+-]?\d[\d_]*\s*", text):
            return f"{text!r} is no whole number"
        case Kind.FLOAT if not _is_float(text):
            return f"{text!r} is no number"
        case Kind.SIZE | Kind.SIZE_OR_AUTO:
            if flag.kind is Kind.SIZE_OR_AUTO and text.strip().lower() == "auto":
                return ""
            return "" if _SIZE.fullmatch(text.strip()) else _size_mistake(text)
        case Kind.JSON:
            return _json_mistake(flag, text)
        case _:
            pass
    if flag.choices and text not in flag.choices:
        near = difflib.get_close_matches(text, flag.choices, 1, 0.5)
        return f"{text!r} is none of its choices" + (f"; the nearest is {near[0]}" if near else "")
    return ""


def _size_mistake(text: str) -> str:
    if re.fullmatch(r"\d+\.\d+[KMGT]", text.strip()):
        return f"{text!r}: a fraction goes with k, m, g or t (powers of ten) only"
    return f"{text!r} is no whole number; 1k is 1000 and 1K is 1024"


def _json_mistake(flag: Flag, text: str) -> str:
    # vLLM takes 80g and the like in JSON too.
    plain = re.sub(r"(?<![\"\w.])(\d+(?:\.\d+)?)[kKmMgGtT]\b", r"\1", text)
    try:
        value = json.loads(plain)
    except ValueError as error:
        return f"it is no JSON: {error}"
    return _fields_mistake(flag, value) if isinstance(value, dict) else ""


def _fields_mistake(flag: Flag, value: dict[str, object]) -> str:
    mistakes = (field_mistake(flag, str(name), _plain(one)) for name, one in value.items())
    return next((mistake for mistake in mistakes if mistake), "")


def _field_value(field: Field, value: FlagValue) -> str:
    if not field.choices or not isinstance(value, str) or value in field.choices or "str" in field.type:
        return ""
    near = difflib.get_close_matches(value, field.choices, 1, 0.5)
    return f"{value!r} is none of {field.name}'s choices" + (f"; the nearest is {near[0]}" if near else "")


def _plain(value: object) -> FlagValue:
    return value if isinstance(value, str | int | float | bool | list | dict) else None


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
