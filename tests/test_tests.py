"""The tests themselves: each test can fail."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("test_*.py"))
FAILING = {"raises", "fail", "wait_for", "timeout"}
"""What fails a test: pytest's own, and what waits for something to become so, but not for ever."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def called(node: ast.AST) -> set[str]:
    """The names of the functions that are called anywhere below."""
    names = set()
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            target = call.func
            names.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""))
    return names


def judges(node: Function) -> bool:
    """Whether a function can fail by itself."""
    own = any(isinstance(part, ast.Assert) or _raises(part) for part in ast.walk(node))
    return own or bool(called(node) & FAILING)


def _raises(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) and node.exc is not None and "AssertionError" in ast.unparse(node.exc)


def functions(path: Path) -> list[Function]:
    """Every function and method of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


@pytest.fixture(scope="module")
def judging() -> set[str]:
    """The helpers of all tests that can fail, also by a helper they call."""
    helpers = [node for path in HERE.rglob("*.py") for node in functions(path)]
    found = {node.name for node in helpers if judges(node)}
    while more := {node.name for node in helpers if called(node) & found} - found:
        found |= more
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_each_test_can_fail(path: Path, judging: set[str]) -> None:
    tests = [node for node in functions(path) if node.name.startswith("test_")]
    assert tests, "a file of tests without a test"
    assert [node.name for node in tests if not (judges(node) or called(node) & judging)] == []


@pytest.mark.parametrize(
    ("text", "can"),
    [
        ("run()", False),
        ("raise ValueError", False),
        ("assert run()", True),
        ("with raises(OSError): run()", True),
    ],
)
def test_what_is_taken_for_a_judgement(text: str, can: bool) -> None:
    (node,) = ast.parse(f"def test_it():\n    {text}").body
    assert isinstance(node, ast.FunctionDef) and judges(node) is can
