"""Lists the flags of vLLM's parser as data. Its text stands in front of ``parser_verdict.py``'s.

A flag: ``name`` (the long option without dashes), ``options``, ``negations`` (its ``--no-`` forms), ``kind``
(switch, int, size, size-or-auto, float, text, json, json-or-text), ``optional`` (takes "None"), ``many``
(takes several values), ``bare`` (may stand without a value), ``choices``, ``suggestions``, ``default``,
``group``, ``help``, ``deprecated`` and, where the value is the JSON of a configuration, its ``fields``.
"""

import argparse
import dataclasses
import enum
import importlib
import json
import typing
from pathlib import Path
from typing import Any

KINDS = {
    "int": "int",
    "float": "float",
    "str": "text",
    "bool": "switch",
    "loads": "json",
    "parse_dataclass": "json",
    "union_dict_and_str": "json-or-text",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size-or-auto",
}


def harvest(parser: Any) -> "list[dict[str, Any]]":
    """Every flag of the parser, in its order."""
    groups = {id(action): group.title for group in parser._action_groups for action in group._group_actions}
    old: Any = getattr(parser, "_deprecated", set())
    return [
        flag(action, str(groups.get(id(action)) or ""), action in old)
        for action in parser._actions
        if action.option_strings and not isinstance(action, argparse._HelpAction)
    ]


def flag(action: Any, group: str, deprecated: bool) -> "dict[str, Any]":
    """One flag."""
    switch = isinstance(action, argparse.BooleanOptionalAction)
    negations = [name for name in action.option_strings if switch and name.startswith("--no-")]
    options = [name for name in action.option_strings if name not in negations]
    reader, optional = unwrapped(action.type)
    stored = isinstance(action, (argparse._StoreTrueAction, argparse._StoreFalseAction))
    kind = "switch" if switch or stored else KINDS.get(getattr(reader, "__name__", ""), "text")
    told = {
        "name": next((name for name in options if name.startswith("--")), options[0]).lstrip("-"),
        "options": options,
        "negations": negations,
        "kind": kind,
        "optional": optional,
        "many": action.nargs in ("+", "*") or (isinstance(action.nargs, int) and action.nargs > 1),
        "bare": action.nargs in ("?", "*"),
        "choices": words(action.choices),
        "suggestions": words(action.metavar) if isinstance(action.metavar, (list, tuple)) else [],
        "default": plain(action.default),
        "group": group,
        "help": (action.help or "").replace("%%", "%") if action.help != argparse.SUPPRESS else "",
        "deprecated": bool(deprecated or getattr(action, "deprecated", False) or dying(action.help)),
    }
    made = configuration(reader) or (named_configuration(str(told["name"])) if kind == "json" else None)
    return {**told, "fields": fields(made)} if made is not None else told


def dying(text: Any) -> bool:
    """Whether a help text says that the flag will go; vLLM marks few of them otherwise."""
    lower = str(text or "").lower()
    return "deprecated" in lower and "removed" in lower


def unwrapped(reader: Any) -> "tuple[Any, bool]":
    """The type below vLLM's ``optional_type`` and ``parse_type``, and whether "None" is taken."""
    optional = False
    while getattr(reader, "__name__", "") in ("_optional_type", "_parse_type", "_type"):
        optional = optional or reader.__name__ == "_optional_type"
        inner = [cell.cell_contents for cell in reader.__closure__ or () if callable(cell.cell_contents)]
        if not inner:
            break
        reader = inner[0]
    return reader, optional


def configuration(reader: Any) -> Any:
    """The dataclass behind a JSON-valued flag, None where there is none."""
    found = [*(getattr(reader, "__defaults__", None) or ())]
    found += [cell.cell_contents for cell in getattr(reader, "__closure__", None) or ()]
    return next((one for one in found if isinstance(one, type) and dataclasses.is_dataclass(one)), None)


def named_configuration(name: str) -> Any:
    """The dataclass of ``vllm.config`` that a flag is named after, such as speculative-config's: its values
    reach vLLM as a plain mapping."""
    found = getattr(importlib.import_module("vllm.config"), name.title().replace("-", ""), None)
    return found if isinstance(found, type) and dataclasses.is_dataclass(found) else None


def fields(made: Any) -> "list[dict[str, Any]]":
    """The fields of a configuration."""
    docs: dict[str, str] = {}
    read = getattr(importlib.import_module("vllm.engine.arg_utils"), "get_attr_docs", None)
    if read is not None:
        try:
            docs = read(made)
        except (OSError, TypeError, ValueError, SyntaxError):
            docs = {}
    return [
        {
            "name": one.name,
            "type": type_text(one.type),
            "choices": literals(one.type),
            "default": plain(default_of(one)),
            "help": str(docs.get(one.name, "")).strip(),
        }
        for one in dataclasses.fields(made)
        if one.init
    ]


def default_of(one: Any) -> Any:
    """A field's default, None where it has to be made; pydantic's Field holds one of its own."""
    value = one.default
    if value is dataclasses.MISSING:
        return None
    inner = getattr(value, "default", value) if type(value).__name__ == "FieldInfo" else value
    return None if type(inner).__name__ == "PydanticUndefinedType" else inner


def type_text(hint: Any) -> str:
    """A type as it is written."""
    if isinstance(hint, str):
        return hint
    if typing.get_origin(hint) is typing.Annotated:
        return type_text(typing.get_args(hint)[0])
    text = getattr(hint, "__name__", "") if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
    return text.replace("typing.", "")


def literals(hint: Any) -> "list[str]":
    """The words of every ``Literal`` in a type."""
    if typing.get_origin(hint) is typing.Literal:
        return [str(word) for word in typing.get_args(hint)]
    return [word for part in typing.get_args(hint) if not isinstance(part, str) for word in literals(part)]


def words(values: Any) -> "list[str]":
    """Choices as words; None is told by ``optional``."""
    return [str(plain(value)) for value in values or () if value is not None]


def plain(value: Any) -> Any:
    """A default as JSON has it; None for what JSON has no word for, such as a whole configuration."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return None if value == argparse.SUPPRESS else value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(str(plain(item)) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        try:
            return json.loads(json.dumps(value))
        except (TypeError, ValueError):
            return None
    return None
