"""A plan as a person reads it, and as JSON.

The short form has a line a command and names long scripts by their size and their sum; the full form is every byte of
what runs. The same script on two hosts has the same sum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

from cockpit.bringup.runner import Planned
from cockpit.cli.output import name, say
from cockpit.cli.show import indented
from cockpit.hosts.quoting import command_line, delimiter
from cockpit.model.command import Command

SHORT: Final = 5
"""Lines of a script that the short form still shows whole."""
WIDE: Final = 400
"""Characters of a command that the short form still shows whole."""
_COMES_TO: Final = re.compile(r"(?m)^(?:exec )?((?:docker run|ray start|vllm serve) .*)$")


def show_plan(steps: Iterable[Planned], *, full: bool, more: str) -> None:
    """Per step each command with its host and its reason. ``more`` is the command that shows all of it."""
    shortened = 0
    for number, item in enumerate(steps):
        say(("\n" if number else "") + item.step.title)
        if not item.commands:
            say("  nothing to run")
        for command in item.commands:
            say(f"  # {name(command.host)}: {name(command.why)}")
            if full or _is_short(command):
                _whole(command)
            else:
                shortened += 1
                _short(command)
    if shortened:
        say(f"\n{shortened} of these are shortened. All of it: {name(more)}")


def _is_short(command: Command) -> bool:
    return command.stdin.count("\n") <= SHORT and len(command_line(command)) + len(command.stdin) <= WIDE


def _whole(command: Command) -> None:
    word = delimiter(command.stdin, "EOF")
    say(f"  {name(command_line(command))}" + (f" <<'{word}'" if command.stdin else ""))
    if command.stdin:
        say(f"{indented(command.stdin.rstrip(chr(10)))}\n  {word}")


def _short(command: Command) -> None:
    line = name(command_line(command))
    if len(line) > WIDE:
        line = f"{line[:WIDE]}… ({len(line):,} characters)"
    if command.stdin:
        lines = len(command.stdin.splitlines())
        line += f" <<script, {lines:,} lines, sha256 {sha256(command.stdin.encode()).hexdigest()[:12]}>>"
    say(f"  {line}")
    for found in _COMES_TO.findall(command.stdin):
        say(f"    … {name(found)}")


def plan_json(steps: Iterable[Planned]) -> list[dict[str, Any]]:
    """A plan as the contract has it."""
    return [
        {
            "name": item.step.name.value,
            "commands": [
                {
                    "host": command.host,
                    "argv": list(command.remote_argv),
                    "stdin": command.stdin,
                    "why": command.why,
                }
                for command in item.commands
            ],
        }
        for item in steps
    ]
