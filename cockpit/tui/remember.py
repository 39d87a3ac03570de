"""What the cockpit remembers of itself on this machine: the profile that was opened last. Nothing of the hosts."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import platformdirs


def _file() -> Path:
    return platformdirs.user_state_path("spark-cockpit", appauthor=False) / "last-profile"


def recall() -> str:
    """The profile that was opened last, "" where none was."""
    try:
        return _file().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def still_there(profile: str) -> bool:
    """Whether the profile can be found; one with mistakes is there."""
    from cockpit.bringup.profiles import ProfileNotFound, find
    from cockpit.model.profile_error import ProfileError

    try:
        find(profile)
    except ProfileNotFound:
        return False
    except ProfileError:
        return True
    return True


def remember(profile: str) -> None:
    """Remember ``profile``; a folder that can't be written is no reason to stop."""
    path = str(Path(profile).resolve()) if "/" in profile else profile
    with suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _file().write_text(path + "\n", encoding="utf-8")
