"""Changes to a profile's YAML that keep its comments and its order. Pure: bytes in, bytes out."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterable, Mapping
from typing import Any

from cockpit.model.errors import CockpitError
from cockpit.model.profile_yaml import parse

SECTIONS = ("serve", "flags"), ("serve", "env"), ("ray", "flags"), ("ray", "env"), ("runtime", "env")
"""Where the last part of a path may hold dots: a flag's or a variable's name."""


class ChangeError(CockpitError):
    """A change that can't be made in this profile."""


def changed(data: bytes, file: str, changes: Iterable[Mapping[str, Any]]) -> bytes:
    """The profile's YAML with ``changes`` made: ``{"set": {PATH: value}}`` and ``{"unset": [PATH]}``, a path
    being keys with dots between them, in a list the item's name (``hosts.spark-1.env.NCCL_IB_HCA``). A ``run``
    is for a host and passed over here.

    The result is a valid profile, else ``ProfileError``; ``ChangeError`` for a path that leads nowhere.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.util import load_yaml_guess_indent

    text = data.decode("utf-8")
    _, indent, offset = load_yaml_guess_indent(text)
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=indent or 2, offset=offset or 0)
    content = yaml.load(text)
    for change in changes:
        for path, value in change.get("set", {}).items():
            _set(content, _keys(path), value)
        for path in change.get("unset", ()):
            _unset(content, _keys(path))
    out = io.StringIO()
    yaml.dump(content, out)
    result = out.getvalue().encode()
    parse(result, file)
    return result


def difference(before: bytes, after: bytes, file: str) -> str:
    """The unified diff of two versions of a profile."""
    lines = difflib.unified_diff(
        before.decode("utf-8", "replace").splitlines(keepends=True),
        after.decode("utf-8", "replace").splitlines(keepends=True),
        file,
        file,
    )
    return "".join(lines)


def _keys(path: str) -> tuple[str, ...]:
    parts = path.split(".")
    for section in SECTIONS:
        if tuple(parts[:2]) == section and len(parts) > 2:
            return (*section, ".".join(parts[2:]))
    return tuple(parts)


def _named(content: Any, name: str) -> Any:
    """The item of a list that has this name; None where there is none."""
    return next((item for item in content if isinstance(item, dict) and item.get("name") == name), None)


def _set(content: Any, keys: tuple[str, ...], value: Any) -> None:
    for key in keys[:-1]:
        if isinstance(content, list):
            content = _named(content, key)
            continue
        if not isinstance(content, dict):
            raise ChangeError(f"The profile has no place for {'.'.join(keys)}.")
        if content.get(key) is None:
            content[key] = {}
        content = content[key]
    if not isinstance(content, dict):
        raise ChangeError(f"The profile has no place for {'.'.join(keys)}.")
    content[keys[-1]] = value


def _unset(content: Any, keys: tuple[str, ...]) -> None:
    for key in keys[:-1]:
        if isinstance(content, list):
            content = _named(content, key)
        else:
            content = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, dict) or keys[-1] not in content:
        raise ChangeError(f"The profile has no {'.'.join(keys)} to take out.")
    del content[keys[-1]]
