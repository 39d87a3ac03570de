"""A profile's file while its flags are being edited: what is changed stays in memory until it is saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cockpit.bringup.profile_edit import own_copy, write_whole
from cockpit.model.errors import inline
from cockpit.model.finding import Fix
from cockpit.model.profile import FlagValue, Profile
from cockpit.model.profile_edit import ChangeError, changed, difference
from cockpit.model.profile_yaml import parse


@dataclass(frozen=True, slots=True)
class Draft:
    """``before`` is the file as it was read, ``data`` as it would be written, ``profile`` what that says:
    its places are those in ``data``."""

    before: bytes
    data: bytes
    profile: Profile

    @property
    def dirty(self) -> bool:
        """Whether there is something to save."""
        return self.data != self.before

    @property
    def diff(self) -> str:
        """What saving would change; "" for nothing."""
        return difference(self.before, self.data, self.profile.file) if self.dirty else ""

    def changed(self, changes: Iterable[Mapping[str, Any]]) -> Draft:
        """The draft with ``changes`` made; raises ``ProfileError`` and ``ChangeError``."""
        data = changed(self.data, self.profile.file, changes)
        return replace(self, data=data, profile=parse(data, self.profile.file))

    def with_flag(self, key: str, value: FlagValue) -> Draft:
        """The draft with one flag set; raises as ``changed``."""
        return self.changed([{"set": {f"serve.flags.{key}": value}}])

    def without_flag(self, key: str) -> Draft:
        """The draft without one flag; raises as ``changed``."""
        return self.changed([{"unset": [f"serve.flags.{key}"]}])

    def moved(self, file: str) -> Draft:
        """The draft of another file with the same words: a shipped profile's copy."""
        return self if self.profile.file == file else replace(self, profile=parse(self.data, file))

    def mended(self, fixes: Iterable[Fix]) -> Draft:
        """The draft with the changes of ``fixes`` that are the profile's; raises as ``changed``."""
        return self.changed([fix.change for fix in fixes if fix.of_profile and fix.change is not None])


def open_draft(profile: Profile) -> Draft:
    """A draft of the profile's file as it is now; raises ``OSError`` and ``ProfileError``."""
    data = Path(profile.file).read_bytes()
    return Draft(data, data, parse(data, profile.file))


def save(draft: Draft) -> Path:
    """Write the draft into its file, a shipped profile's into a copy of the user's own; the file's path.

    Raises ``ChangeError`` where the file was changed by another since it was read, and ``OSError``.
    """
    path = own_copy(draft.profile)
    if path.read_bytes() != draft.before:
        raise ChangeError(
            f"{inline(path)} was changed by another program since it was read: nothing was written.",
            remedy="Leave without saving and open the editor again.",
        )
    write_whole(path, draft.data)
    return path
