"""The environment of every Ray and vLLM process of the cluster on a host."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.model.profile import HostSpec, Profile

TOKEN = "ray/token"
"""The cluster's token, below ``$STATE``: made on the head, handed to the workers, gone when Ray is stopped."""

_INTERFACE = (
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "UCX_NET_DEVICES",
    "OMPI_MCA_btl_tcp_if_include",
)


def join(address: str, port: int) -> str:
    """``address:port``, an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def ray_address(profile: Profile) -> str:
    """Where the head's GCS listens."""
    return join(profile.head.cluster_address, profile.ray.port)


def environment_for(profile: Profile, host: HostSpec) -> Mapping[str, str]:
    """What ``ray start`` on ``host`` and, on the head, ``vllm serve`` run with.

    The interfaces must be right where ``ray start`` runs: given to ``vllm serve`` alone they don't reach
    Ray's workers. Ray's memory monitor is off, for it counts the page cache of a load against unified
    memory. A value that begins with ``$STATE/`` is a path for ``runtime.prelude.exports``. What the profile
    itself sets wins.
    """
    fabric = host.fabric.interface if host.fabric else ""
    return {
        "VLLM_HOST_IP": host.cluster_address,
        **(dict.fromkeys(_INTERFACE, fabric) if fabric else {}),
        "MASTER_ADDR": profile.head.cluster_address,
        "RAY_ADDRESS": ray_address(profile),
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray 2.60 drains a node for up to 30 s before it ends, for Ray Serve's sake.
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_COLOR_PREFIX": "0",
        **_AUTHENTICATION,
        **profile.runtime.env,
        **profile.ray.env,
        **host.env,
    }


# Ray (2.60) takes a token from RAY_AUTH_TOKEN, then RAY_AUTH_TOKEN_PATH, then ~/.ray/auth_token: an empty first
# one keeps a token of the user's own out of the way.
_AUTHENTICATION = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "",
    "RAY_AUTH_TOKEN_PATH": f"$STATE/{TOKEN}",
}
