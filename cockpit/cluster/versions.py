"""The versions of Python, Ray and vLLM in a host's runtime."""

from __future__ import annotations

import json
from dataclasses import dataclass

from cockpit.cluster.texts import python
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec
from cockpit.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Versions:
    """An empty text where the package isn't installed."""

    python: str
    ray: str
    vllm: str

    @property
    def python_series(self) -> str:
        """Major and minor: Ray refuses a node whose Python differs in these, and only warns of the rest."""
        return ".".join(self.python.split(".")[:2])


def versions_text() -> str:
    """sh text, for ``Runtime.script`` or ``DockerEnvironment.image_script``, that ``parse_versions`` reads."""
    return python("versions", isolated=False)


def versions_command(runtime: Runtime, host: HostSpec) -> Command:
    """Ask in the runtime on ``host``, by the packages' metadata: ``vllm --version`` takes ten seconds."""
    return runtime.script(host, versions_text(), "ask for the versions of Python, Ray and vLLM", limit=20)


def parse_versions(output: bytes) -> Versions:
    """Read the program's answer; raises ``ValueError`` on anything else."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    found = json.loads(lines[-1]) if lines else None
    if not isinstance(found, dict) or not all(
        isinstance(found.get(key), str) for key in ("python", "ray", "vllm")
    ):
        raise ValueError(f"not the versions: {output[:200]!r}")
    return Versions(found["python"], found["ray"], found["vllm"])
