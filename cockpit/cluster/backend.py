"""What joins the hosts into one machine."""

from __future__ import annotations

from enum import StrEnum

from cockpit.cluster.errors import ClusterError
from cockpit.model.profile import Profile

_RAYLESS = ("mp", "uni", "external_launcher")


class Backend(StrEnum):
    """One host needs nothing to join it; several are joined by Ray."""

    ONE_HOST = "one-host"
    RAY = "ray"


def backend_of(profile: Profile) -> Backend:
    """The backend of ``profile``; raises ``ClusterError`` for several hosts without Ray.

    A profile of several hosts that names no backend gets Ray: that its serve does not ask for it is for the
    flag checks to say.
    """
    if len(profile.hosts) == 1:
        return Backend.ONE_HOST
    flags = {name.replace("_", "-"): value for name, value in profile.serve.flags.items()}
    named = flags.get("distributed-executor-backend")
    nodes = flags.get("nnodes", flags.get("n", 1))
    if named in _RAYLESS or (named != "ray" and nodes not in (None, 1, "1")):
        raise ClusterError(
            "Running over several hosts without Ray (mp) is not there yet.",
            remedy="Set serve.flags.distributed-executor-backend to ray, and leave out nnodes.",
        )
    return Backend.RAY
