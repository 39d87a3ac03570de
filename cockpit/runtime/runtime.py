"""The Runtime protocol: how a script reaches the environment that holds vLLM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from cockpit.model.command import Command
from cockpit.model.profile import EMPTY, HostSpec


class Runtime(Protocol):
    """Builds commands; runs nothing. Every script is POSIX sh and finds ``$STATE``, the cluster's folder
    for logs, process ids and exit statuses: ``${XDG_STATE_HOME:-$HOME/.local/state}/spark-cockpit/PROFILE``
    on the host, which a container sees under a path of its own."""

    def script(
        self,
        host: HostSpec,
        text: str,
        why: str,
        *,
        env: Mapping[str, str] = EMPTY,
        secrets: tuple[str, ...] = (),
        limit: float = 30.0,
    ) -> Command:
        """``text`` run inside the environment, with vLLM's ``python`` and ``vllm`` first on PATH and ``env``
        exported. Where there is no environment (no container of ours runs) the command ends with status 97."""
        ...

    def host_script(
        self,
        host: HostSpec,
        text: str,
        why: str,
        *,
        secrets: tuple[str, ...] = (),
        limit: float = 30.0,
    ) -> Command:
        """``text`` run on the host itself."""
        ...
