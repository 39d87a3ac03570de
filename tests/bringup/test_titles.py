"""The steps' titles, which the screen shows before the steps are loaded."""

from __future__ import annotations

from cockpit.bringup.steps import all_steps, titles


def test_titles_are_the_steps_own() -> None:
    """In the steps' order too."""
    assert list(titles().items()) == [(step.name, step.title) for step in all_steps()]
