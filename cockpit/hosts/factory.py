"""The right Host for a profile's host. asyncssh is loaded on the first host that needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cockpit.hosts.errors import HostKeyUnknown
from cockpit.hosts.host import Host
from cockpit.hosts.local import LocalHost
from cockpit.hosts.running import Secrets
from cockpit.model.profile import HostSpec


def open_host(
    spec: HostSpec,
    *,
    ssh_config: str = "",
    ask: Callable[[HostKeyUnknown], Awaitable[bool]] | None = None,
    trust: frozenset[str] = frozenset(),
    secrets: Secrets = None,
) -> Host:
    """A host that is not connected yet: await ``connect()``.

    ``ssh_config`` is the path of the file to use instead of the user's and the system's own. An unknown host
    key is accepted, and kept in known_hosts, when its SHA256 fingerprint is in ``trust`` or ``ask`` says so;
    a changed or revoked one never is. ``secrets`` gives the values for ``Command.secrets``, the environment
    where it is None.
    """
    if spec.is_local:
        return LocalHost(spec, secrets=secrets)
    from cockpit.hosts.ssh import SshHost

    return SshHost(spec, ssh_config=ssh_config, ask=ask, trust=trust, secrets=secrets)
