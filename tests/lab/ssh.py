"""Commands on the lab's hosts by the OpenSSH client."""

from __future__ import annotations

import subprocess

from cockpit.lab.lab import LabInfo


def ssh_argv(info: LabInfo, host: str, *words: str) -> tuple[str, ...]:
    """The argv that runs ``words`` on ``host``."""
    return ("ssh", "-F", str(info.ssh_config), "-o", "BatchMode=yes", host, *words)


def ssh(
    info: LabInfo, host: str, command: str, *, stdin: bytes = b"", limit: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run ``command`` on ``host`` to its end."""
    return subprocess.run(ssh_argv(info, host, command), input=stdin, capture_output=True, timeout=limit)
