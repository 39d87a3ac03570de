"""The runbook: a shell script that does what ``up`` does, without the cockpit.

Each command of the plan stands in it exactly as the cockpit would run it, handed to the host by OpenSSH.
Secrets are never written: a command that needs one takes it from the environment of whoever runs the script,
or from the host that has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote

from cockpit.bringup.step import Planner, Step
from cockpit.hosts.quoting import command_line, delimiter, join
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec, Profile

HEAD = """\
#!/bin/sh
# {name}: the bring-up of vLLM on {hosts}, step by step.
# Written by Spark Cockpit; it needs OpenSSH, and nothing of the cockpit.
set -eu
"""

SPECIAL = re.compile(r"([\\$`])")


def runbook(planner: Planner, steps: Sequence[Step]) -> str:
    """The script; POSIX sh."""
    profile = planner.profile
    parts = [HEAD.format(name=profile.name, hosts=" and ".join(host.name for host in profile.hosts))]
    parts += [_reach(profile, host) for host in profile.hosts]
    given: set[str] = set()
    for step in steps:
        commands = step.by_hand(planner)
        if commands:
            parts.append(f"\necho {quote(f'== {step.title}')}\n")
        for command in commands:
            parts.append(_call(command, given))
            given |= {command.gives} if command.gives else set()
    return "".join(parts)


def function_name(host: str) -> str:
    """The shell function that reaches ``host``: a name the shell takes, one for each host name."""
    return "on_" + re.sub(r"[^a-z0-9]", lambda found: f"_{ord(found.group()):02x}_", host)


def _reach(profile: Profile, host: HostSpec) -> str:
    if host.is_local:
        return f'{function_name(host.name)}() {{ sh -c "$1"; }}\n'
    argv = ["ssh", "-T", "-o", "BatchMode=yes"]
    argv += ["-F", profile.ssh_config] if profile.ssh_config else []
    argv += ["-p", str(host.port)] if host.port else []
    argv += ["-l", host.user] if host.user else []
    return f'{function_name(host.name)}() {{ {join([*argv, host.address])} "$1"; }}\n'


def _call(command: Command, given: set[str]) -> str:
    missing = [name for name in command.secrets if name not in given]
    needs = "".join(f': "${{{name}:?is needed to {_in_words(command.why)}}}"\n' for name in missing)
    call = f"{function_name(command.host)} {quote(command_line(command))}"
    comment = f"# {command.host}: {command.why}\n".replace("\n", " ").rstrip() + "\n"
    body = _document(command) if command.stdin else " </dev/null"
    if command.gives:
        return f"{comment}{needs}{command.gives}=$({call}{body})\n"
    return f"{comment}{needs}{call}{body}\n"


def _in_words(why: str) -> str:
    return re.sub(r"[^\w .,:-]", "", why)


def _document(command: Command) -> str:
    """Standard input as a here-document; only with secrets does the shell that runs it put values in."""
    word = delimiter(command.stdin, "END_OF_INPUT")
    text = command.stdin if command.stdin.endswith("\n") else command.stdin + "\n"
    if not command.secrets:
        return f" <<'{word}'\n{text}{word}\n"
    text = SPECIAL.sub(r"\\\1", text)
    for name in command.secrets:
        text = text.replace(f"\\${{{name}}}", f"${{{name}}}")
    return f" <<{word}\n{text}{word}\n"
