"""Themes and style sheets, as the data files they are: shipped ones, and those in the user's own folder."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import platformdirs
from textual.color import Color, ColorParseError
from textual.theme import Theme

import cockpit
from cockpit.model.errors import CockpitError

DEFAULT: Final = "dark"
_COLOURS: Final = (
    "primary",
    "secondary",
    "accent",
    "warning",
    "error",
    "success",
    "foreground",
    "background",
    "surface",
    "panel",
)


class ThemeError(CockpitError):
    """A theme's file can't be used."""


def shipped_folder() -> Path:
    """The shipped themes: inside the installed package, or at the top of a checkout."""
    package = Path(cockpit.__file__).parent
    installed = package / "_data" / "themes"
    return installed if installed.is_dir() else package.parent / "themes"


def user_folder() -> Path:
    """Where the user keeps themes: below XDG_CONFIG_HOME on Linux."""
    return platformdirs.user_config_path("spark-cockpit", appauthor=False) / "themes"


def parse(text: str, where: str) -> Theme:
    """The theme in a TOML text; raises ``ThemeError``."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ThemeError(f"{where} is no TOML: {error}.") from error
    unknown = sorted(set(data) - {"name", "dark", "variables", *_COLOURS})
    if unknown:
        raise ThemeError(
            f"{where} has unknown keys: {', '.join(unknown)}.", remedy=f"Known: {', '.join(_COLOURS)}."
        )
    variables = data.get("variables", {})
    if not isinstance(data.get("name"), str) or "primary" not in data or not isinstance(variables, dict):
        raise ThemeError(f"{where} needs a name and a primary colour.")
    colours = {key: data[key] for key in _COLOURS if key in data}
    for key, value in {**colours, **variables}.items():
        _colour(where, key, value)
    return Theme(
        name=data["name"],
        dark=bool(data.get("dark", True)),
        variables={**_shades(data), **variables},
        **colours,
    )


def _shades(data: dict[str, Any]) -> dict[str, str]:
    """``muted`` and ``faint``, between foreground and background, for a theme that has none of its own."""
    dark = bool(data.get("dark", True))
    foreground = Color.parse(data.get("foreground", "#e0e0e0" if dark else "#202020"))
    background = Color.parse(data.get("background", "#101010" if dark else "#f8f8f8"))
    return {
        "muted": foreground.blend(background, 0.38).hex,
        "faint": foreground.blend(background, 0.62).hex,
    }


def _colour(where: str, key: str, value: Any) -> None:
    try:
        Color.parse(str(value))
    except ColorParseError as error:
        raise ThemeError(f"{where}: {key} is no colour: {value!r}.") from error


def load() -> tuple[list[Theme], list[str]]:
    """Every theme, the user's after the shipped ones so that a same name is theirs; and what could not be read."""
    themes: dict[str, Theme] = {}
    faults: list[str] = []
    for path in _files():
        try:
            theme = parse(path.read_text(encoding="utf-8"), str(path))
        except (ThemeError, OSError, UnicodeDecodeError) as error:
            faults.append(str(error))
        else:
            themes[theme.name] = theme
    return list(themes.values()), faults


def _files() -> Iterator[Path]:
    for folder in (shipped_folder(), user_folder()):
        if folder.is_dir():
            yield from sorted(folder.glob("*.toml"))
