"""The registry, and everything that comes of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cockpit.bringup.events import StepName
from cockpit.tui import flag_keys
from cockpit.tui.actions import ACTIONS, BY_ID, Context, available, markdown_table
from cockpit.tui.intents import INTENTS
from tests.tui.scenes import Scene

README = Path(__file__).parent.parent.parent / "README.md"


def test_every_action_can_be_done() -> None:
    """Each has its method, and its own key where it is bound."""
    for action in ACTIONS:
        assert action.id in INTENTS, action.id
        assert action.help.endswith("."), action.id
    keys = Counter((action.where, key) for action in ACTIONS for key in action.keys.split(","))
    assert not [key for key, count in keys.items() if count > 1]


def test_the_readme_has_the_table() -> None:
    """The README's table of keys is the registry's."""
    assert markdown_table() in README.read_text(encoding="utf-8")


STARTERS = ["run", "run_all", "run_through", "undo", "down", "force", "flags", "prepare"]


@pytest.mark.parametrize("action", STARTERS)
def test_read_only_starts_nothing(action: str) -> None:
    """With --read-only nothing that changes a host can be used."""
    for read_only in (True, False):
        scene = Scene(read_only=read_only).surveyed()
        assert available(action, Context(scene.store.state, StepName.LAUNCH)) is not read_only


def test_read_only_applies_no_fix() -> None:
    """Nor is the profile changed."""
    assert available("fix", Context(Scene().failed().store.state))
    assert not available("fix", Context(Scene(read_only=True).failed().store.state))


def test_only_what_leaves_something_can_be_undone() -> None:
    """Undo is greyed for steps that only look."""
    state = Scene().opened().store.state
    assert not BY_ID["undo"].available(Context(state, StepName.PREFLIGHT))
    assert BY_ID["undo"].available(Context(state, StepName.LAUNCH))


def test_a_prompt_needs_a_served_model() -> None:
    """The prompt is greyed until the model is ready."""
    assert not available("prompt", Context(Scene().loading().store.state))
    assert available("prompt", Context(Scene().ready().store.state))


def test_the_readme_has_the_keys_of_the_editor_of_flags() -> None:
    """Its second table is theirs."""
    assert flag_keys.markdown_table() in README.read_text(encoding="utf-8")
