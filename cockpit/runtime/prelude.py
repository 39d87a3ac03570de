"""Pieces of POSIX sh that every script of the runtimes starts from."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from hashlib import sha256

from cockpit.model.profile import HostSpec, Profile, RuntimeSpec

NO_ENVIRONMENT = 97
"""The exit status of a script that found no environment to run in: no container of ours, no venv."""

CONTAINER_STATE = "/spark-cockpit"
"""Where a container sees the cluster's state folder."""


def state_folder(profile: Profile) -> str:
    """sh text that sets ``$STATE`` on the host, by the XDG rules of the user there."""
    name = shlex.quote(profile.name)
    return f'STATE="${{XDG_STATE_HOME:-$HOME/.local/state}}/spark-cockpit/"{name}\nexport STATE\n'


STATE_PATH = "$STATE/"
"""A variable's value that begins so is a path in the state folder, whose place only the host knows."""


def exports(env: Mapping[str, str]) -> str:
    """sh text that exports ``env``; a leading ``$STATE/`` of a value is put in on the host, nothing else is.

    Names are checked, for they stand unquoted; raises ``ValueError``.
    """
    for name in env:
        if not (name.isascii() and name.isidentifier()):
            raise ValueError(f"not a variable's name: {name!r}")
    return "".join(f"export {name}={_value(value)}\n" for name, value in env.items())


def _value(value: str) -> str:
    if value.startswith(STATE_PATH):
        return f'"$STATE"/{shlex.quote(value.removeprefix(STATE_PATH))}'
    return shlex.quote(value)


def runtime_env(runtime: RuntimeSpec, host: HostSpec, env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a script on ``host``: the runtime's, the host's, then the caller's, the last wins."""
    return {**runtime.env, **host.env, **env}


def heredoc(text: str) -> tuple[str, str]:
    """The opening word and the body, with its end, of a here-document that hands on ``text`` unchanged.

    The delimiter is made from the text's own hash, so that the text can't hold it as a line.
    """
    body = text if text.endswith("\n") else f"{text}\n"
    delimiter = f"END_{sha256(text.encode()).hexdigest()[:16]}"
    return f"<<'{delimiter}'", f"{body}{delimiter}\n"


def home_path(path: str) -> str:
    """``path`` as one word of sh; a leading ``~`` becomes the home folder of the user on the host."""
    if path == "~":
        return '"$HOME"'
    if path.startswith("~/"):
        return f'"$HOME"{shlex.quote(path[1:])}'
    return shlex.quote(path)
