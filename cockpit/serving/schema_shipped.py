"""The flags of a few vLLM versions, shipped as data, for a runtime that can't be asked yet.

Names, types, choices and defaults; no help texts. ``tests/serving/harvest_versions.py`` makes the files from
the versions' own parsers (CPU builds).
"""

from __future__ import annotations

import json
import re
from importlib.resources import files

from cockpit.serving.schema import Schema, read_schema

_FILE = re.compile(r"vllm-(?P<version>\d+\.\d+\.\d+)\.json")


def shipped_versions() -> tuple[str, ...]:
    """The versions that are shipped, the oldest first."""
    names = (entry.name for entry in files("cockpit.serving").joinpath("data").iterdir())
    found = [match["version"] for name in names if (match := _FILE.fullmatch(name))]
    return tuple(sorted(found, key=numbers))


def shipped(version: str = "") -> Schema:
    """The shipped flags nearest to ``version``: the newest that is not newer, else the oldest; the newest of
    all for ""."""
    versions = shipped_versions()
    wanted = numbers(version)
    older = [one for one in versions if not wanted or numbers(one) <= wanted]
    chosen = older[-1] if older else versions[0]
    text = files("cockpit.serving").joinpath("data", f"vllm-{chosen}.json").read_text()
    return read_schema(json.loads(text), source="shipped")


def numbers(version: str) -> tuple[int, ...]:
    """A version's first three numbers, for comparing; () for what has none."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in match.groups()) if match else ()
