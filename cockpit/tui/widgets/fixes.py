"""A fix as text: in words, and as a change of the profile that shows what was there before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from textual.content import Content

from cockpit.hosts.quoting import join
from cockpit.logs.sanitise import clean
from cockpit.model.finding import Fix

if TYPE_CHECKING:
    from cockpit.model.profile import Profile

MOST_OUTPUT: Final = 20_000
"""Characters of one text that are shown at once; the rest is told, with where it is whole."""


def block(text: str, indent: str = "  ") -> Content:
    """Remote text as an indented block."""
    shown = clean(text.rstrip("\n"), multiline=True)
    more = ""
    if len(shown) > MOST_OUTPUT:
        more = f"\n{indent}… {len(shown) - MOST_OUTPUT:,} more characters in the middle\n{indent}"
        half = MOST_OUTPUT // 2
        shown = f"{shown[:half]}{more}{shown[-half:]}"
    return Content("\n".join(f"{indent}{line}" for line in shown.split("\n")))


def fix_lines(fix: Fix, profile: Profile | None) -> list[Content]:
    """A fix in words, as a diff of the profile, as the command for a host."""
    change = fix.change or {}
    # Some say no more than the change itself does.
    lines = [] if change and fix.text.startswith("profile ") else [block(fix.text)]
    for key, value in change.get("set", {}).items():
        before = present(profile, str(key))
        if before is not None:
            lines.append(_line("-", f"{key}: {_yaml(before)}"))
        lines.append(_line("+", f"{key}: {_yaml(value)}"))
    for key in change.get("unset", []):
        before = present(profile, str(key))
        lines.append(_line("-", str(key) if before is None else f"{key}: {_yaml(before)}"))
    if "run" in change:
        run = change["run"]
        lines.append(Content(f"    {clean(str(run['host']))}  $ {clean(join([str(a) for a in run['argv']]))}"))
    return lines


def _line(sign: str, text: str) -> Content:
    return Content.styled(
        f"    profile  {sign} {clean(text)}", "$text-success" if sign == "+" else "$text-error"
    )


def present(profile: Profile | None, key: str) -> object | None:
    """What the profile has at ``serve.flags.NAME`` or another key; None where it has nothing."""
    at: Any = profile
    for part in key.split("."):
        at = at.get(part) if isinstance(at, Mapping) else getattr(at, part.replace("-", "_"), None)
    return at if isinstance(at, str | int | float | bool) else None


def _yaml(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
