"""Where profiles are: the user's folder, those shipped, and those of labs, in this order."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

import cockpit
from cockpit.model.errors import CockpitError, inline
from cockpit.model.profile_error import ProfileError, nearest

if TYPE_CHECKING:
    from cockpit.model.profile import Profile

APP = "spark-cockpit"


class ProfileNotFound(CockpitError):
    """No profile of that name, or no file that can be read at that path."""


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """A profile's file. ``source`` is user, shipped or lab; ``error`` says why it can't be used, ``fault`` the
    same in a line, "" where it can; its name is then the file's."""

    name: str
    path: Path
    source: str
    description: str = ""
    error: str = ""
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        """The entry as the command line's contract has it."""
        entry = {"name": self.name, "path": str(self.path), "source": self.source}
        more = {"description": self.description, "error": self.error}
        return entry | {key: value for key, value in more.items() if value}


def user_folder() -> Path:
    """Where the user keeps profiles: below XDG_CONFIG_HOME on Linux."""
    return platformdirs.user_config_path(APP, appauthor=False) / "profiles"


def labs_folder() -> Path:
    """Where labs keep theirs, ``NAME/profile.yaml`` each: below XDG_DATA_HOME on Linux."""
    return platformdirs.user_data_path(APP, appauthor=False) / "labs"


def shipped_folder() -> Path:
    """The shipped profiles: inside the installed package, or at the top of a checkout."""
    package = Path(cockpit.__file__).parent
    installed = package / "_data" / "profiles"
    return installed if installed.is_dir() else package.parent / "profiles"


def load(path: Path) -> Profile:
    """The profile in the file ``path``. Raises ``ProfileNotFound`` or ``ProfileError``."""
    from cockpit.model.profile_nodes import MAX_BYTES, too_large
    from cockpit.model.profile_yaml import parse

    try:
        found = path.stat()
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            # A pipe would be waited for.
            raise OSError(errno.EINVAL, "it is not an ordinary file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ProfileNotFound(
            f"The profile {inline(path)} can't be read: {error.strerror or error}.",
            remedy="Give the path of a YAML file, or one of the names that `spark-cockpit profiles` lists.",
        ) from error
    if len(data) > MAX_BYTES:
        raise too_large(str(path), max(found.st_size, len(data)))
    return parse(data, str(path))


def find(name_or_path: str) -> Profile:
    """The profile of that name, or in the file at that path; a path has a slash or ends in .yaml.

    Raises ``ProfileNotFound``, or ``ProfileError`` when the file has mistakes.
    """
    if "/" in name_or_path or os.sep in name_or_path or re.search(r"\.ya?ml$", name_or_path):
        return replace(load(Path(name_or_path).expanduser()), called=name_or_path)
    names = []
    for path, source in _files():
        names.append(_stem(path, source))
        try:
            profile = load(path)
        except ProfileNotFound:
            continue
        except ProfileError:
            if names[-1] == name_or_path:
                raise
            continue
        if profile.name == name_or_path:
            return replace(profile, called=name_or_path)
        names[-1] = profile.name
    close = nearest(name_or_path, names)
    hint = f"Did you mean {close}? " if close else ""
    known = ", ".join(dict.fromkeys(names)) or "none"
    raise ProfileNotFound(
        "A profile's name is empty."
        if not name_or_path
        else f"There is no profile called {inline(name_or_path)}.",
        remedy=inline(f"{hint}There are: {known}. Your own go into {user_folder()}; a path works too."),
    )


def listing() -> list[ProfileEntry]:
    """Every profile there is, in the order in which ``find`` looks; those with mistakes too."""
    return [_entry(path, source) for path, source in _files()]


def _entry(path: Path, source: str) -> ProfileEntry:
    try:
        profile = load(path)
    except ProfileError as error:
        return ProfileEntry(_stem(path, source), path, source, error=error.message, fault=error.short)
    except ProfileNotFound as error:
        return ProfileEntry(_stem(path, source), path, source, error=error.message, fault=error.message)
    return ProfileEntry(profile.name, path, source, profile.description)


def _files() -> Iterator[tuple[Path, str]]:
    for folder, source in ((user_folder(), "user"), (shipped_folder(), "shipped")):
        yield from ((path, source) for path in _sorted(folder) if path.suffix in (".yaml", ".yml"))
    yield from (
        (folder / "profile.yaml", "lab")
        for folder in _sorted(labs_folder())
        if (folder / "profile.yaml").is_file()
    )


def _sorted(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _stem(path: Path, source: str) -> str:
    return path.parent.name if source == "lab" else path.stem
