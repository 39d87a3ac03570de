"""Why the lab can't be had."""

from __future__ import annotations

from collections.abc import Callable

from cockpit.model.errors import CockpitError


class LabError(CockpitError):
    """The lab can't be made or started on this machine."""


Progress = Callable[[str, int | None, int | None], None]
"""Told what is being done, and of how many bytes how many are there, where that is known."""
