"""The runtime that a profile declares."""

from __future__ import annotations

from cockpit.model.profile import DockerRuntime, Profile
from cockpit.runtime.docker import DockerEnvironment
from cockpit.runtime.native import NativeEnvironment


def environment(profile: Profile) -> DockerEnvironment | NativeEnvironment:
    """The ``Runtime`` of ``profile``; one with containers to start is a ``DockerEnvironment``."""
    if isinstance(profile.runtime, DockerRuntime):
        return DockerEnvironment(profile, profile.runtime)
    return NativeEnvironment(profile, profile.runtime)
