"""The scripts for the hosts, as they are sent: each stands alone, in the Python of an older host."""

from __future__ import annotations

import ast
from importlib.resources import files
from pathlib import Path

import pytest

from cockpit.runtime.script_text import SHARED, script_text

ROOT = Path(str(files("cockpit")))
SCRIPTS = sorted(path for path in ROOT.rglob("scripts/*.py") if path.name != "__init__.py")


def named(path: Path) -> tuple[str, str]:
    """The package and the name of a script."""
    return ".".join(("cockpit", *path.parent.relative_to(ROOT).parts)), path.stem


class Run(ast.NodeTransformer):
    """Leaves out what only a type checker reads."""

    def visit_If(self, node: ast.If) -> ast.If | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else node


def imported(text: str) -> set[str]:
    """The modules that a text imports when it runs, anywhere in it."""
    found = set()
    for node in ast.walk(Run().visit(ast.parse(text, feature_version=(3, 10)))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_imports_nothing_of_the_cockpit(path: Path) -> None:
    modules = imported(script_text(*named(path)))
    assert not {name for name in modules if name.split(".")[0] == "cockpit"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_has_no_name_of_what_it_shares_twice(path: Path) -> None:
    """In one file the second would be meant by both."""
    tree = ast.parse(script_text(*named(path)))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    values = [node for node in tree.body if isinstance(node, ast.Assign)]
    names += [target.id for node in values for target in node.targets if isinstance(target, ast.Name)]
    assert sorted(names) == sorted(set(names))


def test_what_scripts_share_is_put_in_where_it_is_imported() -> None:
    guard = script_text("cockpit.serving.scripts", "guard")
    assert f"{SHARED}.processes" in imported((ROOT / "serving/scripts/guard.py").read_text())
    assert guard.count("def descendants(") == 1
    assert guard.index("def descendants(") < guard.index("class Guard")
