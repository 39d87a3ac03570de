"""Makes a fix's changes in the profile's file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cockpit.bringup.profiles import shipped_folder, user_folder
from cockpit.model.finding import Fix
from cockpit.model.profile import Profile
from cockpit.model.profile_edit import changed, difference


def preview(path: Path, fixes: Sequence[Fix]) -> str:
    """The diff that ``apply_changes`` would make; raises as it does."""
    before = path.read_bytes()
    return difference(before, changed(before, str(path), _changes(fixes)), str(path))


def apply_changes(path: Path, fixes: Sequence[Fix]) -> str:
    """Make the fixes' changes in the profile at ``path``, all or none; the diff of what changed.

    The file is replaced in one step. Raises ``ProfileError``, ``ChangeError`` and ``OSError``.
    """
    before = path.read_bytes()
    after = changed(before, str(path), _changes(fixes))
    write_whole(path, after)
    return difference(before, after, str(path))


def write_whole(path: Path, data: bytes) -> None:
    """Replace the file, or the one that it links to, in one step; raises ``OSError``."""
    mode = path.stat().st_mode & 0o777
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).chmod(mode)
        Path(name).replace(target)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def own_copy(profile: Profile) -> Path:
    """The file to change for ``profile``: its own, or for a shipped one a copy in the user's folder, which
    from then on is found first."""
    path = Path(profile.file)
    if path.resolve().parent != shipped_folder().resolve():
        return path
    copy = user_folder() / path.name
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return copy


def _changes(fixes: Sequence[Fix]) -> list[dict[str, object]]:
    return [fix.change for fix in fixes if fix.of_profile and fix.change is not None]
