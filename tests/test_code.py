"""The code's own measures: a function fits a screen, a module a few."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(str(files("cockpit")))
SCREEN, MOST = 60, 600
"""Lines of a function, and of a module."""


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_function_fits_a_screen(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST
    nodes = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [node.name for node in nodes if (node.end_lineno or 0) - node.lineno >= SCREEN] == []


def test_a_command_to_type_names_the_profile_as_the_operator_did() -> None:
    """``Profile.word``: a profile that was named by its path is not found by its name."""
    named = re.compile(r"spark-cockpit [a-z]+ \{[^}]*profile\.name")
    found = [path.name for path in ROOT.rglob("*.py") if named.search(path.read_text(encoding="utf-8"))]
    assert found == []
