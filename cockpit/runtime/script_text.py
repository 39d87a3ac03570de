"""The text of a script for a host: one file, with the parts it shares with other scripts put in.

A script is a module like any other, checked and tested as such; on a host there is no cockpit to import from. So a
line ``from cockpit.runtime.scripts.NAME import ...`` is replaced by that module's own text.
"""

from __future__ import annotations

import re
from importlib.resources import files

SHARED = "cockpit.runtime.scripts"

_IMPORT = re.compile(rf"^from {re.escape(SHARED)}\.(\w+) import (?:\([^)]*\)|[^\n(]*)\n", re.MULTILINE)


def script_text(package: str, name: str) -> str:
    """The script ``name`` (without ``.py``) of ``package``, whole."""
    return _IMPORT.sub(lambda found: _read(SHARED, found[1]), _read(package, name))


def _read(package: str, name: str) -> str:
    return (files(package) / f"{name}.py").read_text(encoding="utf-8")
