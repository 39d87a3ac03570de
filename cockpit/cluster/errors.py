"""What the cluster refuses."""

from cockpit.model.errors import CockpitError


class ClusterError(CockpitError):
    """The profile asks for a cluster that the cockpit can't make."""
