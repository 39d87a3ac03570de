"""The argv of ``ray start``."""

from __future__ import annotations

import json
from hashlib import sha256

from cockpit.cluster.environment import ray_address
from cockpit.cluster.errors import ClusterError
from cockpit.model.profile import DockerRuntime, FlagValue, HostSpec, Profile, Role
from cockpit.runtime.prelude import CONTAINER_STATE

_OURS = {
    "head": "hosts[].role",
    "address": "hosts[].fabric.address of the head, and ray.port",
    "node-ip-address": "hosts[].fabric.address",
    "port": "ray.port",
    "dashboard-port": "ray.dashboard_port",
    "block": "the cockpit",
}
_HEAD_ONLY = (
    "include-dashboard",
    "dashboard-host",
    "ray-client-server-port",
    "redis-shard-ports",
    "autoscaling-config",
    "system-config",
)
# These take a value; every other flag of `ray start` that is true stands alone (ray 2.60, scripts/scripts.py).
_BOOLEAN = ("include-dashboard", "include-log-monitor")


def ray_start(profile: Profile, host: HostSpec) -> tuple[str, ...]:
    """``ray start`` for ``host``. It stays in the foreground (``--block``) and ends when one of Ray's processes
    does. The dashboard is on loopback; Ray's GCS itself listens on every address (2.60), hence the token.
    Raises ``ClusterError`` for a flag that the profile declares elsewhere.
    """
    flags: dict[str, FlagValue] = {
        "node-ip-address": host.cluster_address,
        "temp-dir": temp_dir(profile, host),
        "disable-usage-stats": True,
        "log-color": "false",
    }
    if host.role is Role.HEAD:
        flags |= {
            "port": profile.ray.port,
            "include-dashboard": True,
            "dashboard-host": "127.0.0.1",
            "dashboard-port": profile.ray.dashboard_port,
        }
        first: tuple[str, ...] = ("--head",)
    else:
        first = (f"--address={ray_address(profile)}",)
    for name, value in declared_flags(profile).items():
        if host.role is Role.HEAD or name not in _HEAD_ONLY:
            flags[name] = value
    words = [word for name, value in flags.items() for word in _words(name, value)]
    return ("ray", "start", *first, "--block", *words)


def temp_dir(profile: Profile, host: HostSpec) -> str:
    """Ray's own folder on ``host``: sockets, and the logs of its session.

    Never Ray's default, /tmp/ray, where it would take the place of the user's own cluster as the one that
    ``address="auto"`` finds. Short, for a socket's path has at most 107 bytes. In a container it is in the
    state folder, so that the logs survive.
    """
    flag = declared_flags(profile).get("temp-dir")
    if isinstance(flag, str):
        return flag
    if isinstance(profile.runtime, DockerRuntime):
        return f"{CONTAINER_STATE}/ray/tmp"
    key = f"{profile.name} {ray_address(profile)} {host.cluster_address}"
    return f"/tmp/spark-cockpit-{sha256(key.encode()).hexdigest()[:8]}"


def declared_flags(profile: Profile) -> dict[str, FlagValue]:
    """``ray.flags`` in Ray's own spelling; raises ``ClusterError`` for one that is declared elsewhere."""
    flags = {name.replace("_", "-"): value for name, value in profile.ray.flags.items()}
    for name in flags:
        if name in _OURS:
            place = profile.place("ray", "flags", name)
            raise ClusterError(
                f"{f'{place}: ' if place else ''}ray.flags.{name} can't be set: it comes from {_OURS[name]}.",
                remedy=f"Leave {name} out of ray.flags.",
            )
    return flags


def _words(name: str, value: FlagValue) -> tuple[str, ...]:
    if isinstance(value, bool) and name not in _BOOLEAN:
        return (f"--{name}",) if value else ()
    if value is None:
        return (f"--{name}",)
    if isinstance(value, bool):
        return (f"--{name}={'true' if value else 'false'}",)
    if isinstance(value, list):
        return (f"--{name}={','.join(str(item) for item in value)}",)
    return (f"--{name}={json.dumps(value) if isinstance(value, dict) else value}",)
