"""What the rig needs of the machine, and what is missing here."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.rig.shell import RigError, run

PACKAGES = {
    "containerd": "containerd",
    "curl": "curl",
    "docker": "docker-cli",
    "docker-init": "docker.io",
    "dockerd": "docker.io",
    "ethtool": "ethtool",
    "ip": "iproute2",
    "iptables-legacy": "iptables",
    "nsenter": "util-linux",
    "ping": "iputils-ping",
    "pkill": "procps",
    "rsync": "rsync",
    "runc": "runc",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "tc": "iproute2",
    "tini": "tini",
    "useradd": "passwd",
}
"""Command to Debian package, for the commands the rig or its hosts call. Before Debian 13 the command docker
came with docker.io."""

PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"

PROBE = """
mount -t tmpfs probe /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
ip link add probe0 type veth peer name probe1
ip link add probe2 type bridge
"""
"""What a host is made of, tried in namespaces that end with the trial."""


def missing_packages() -> list[str]:
    """The Debian packages that would bring the commands that are not here."""
    absent = {PACKAGES[command] for command in PACKAGES if shutil.which(command, path=PATH) is None}
    if "docker.io" in absent:
        absent -= {"containerd", "runc"}
    return sorted(absent)


def why_not() -> str:
    """Why no rig can stand on this machine; "" where it can."""
    if os.geteuid() != 0:
        return "The rig needs root."
    if missing := missing_packages():
        return f"The rig needs Debian packages that are not installed: {' '.join(missing)}."
    namespaces = ["--mount", "--uts", "--ipc", "--cgroup", "--pid", "--net", "--fork"]
    try:
        run(["unshare", *namespaces, "--propagation", "private", "sh", "-ec", PROBE])
    except RigError as error:
        return f"The kernel does not give what the rig needs. {error}"
    return ""


def strict() -> bool:
    """Whether a rig that can't be had is a failure: in CI, and where SPARK_COCKPIT_STRICT is 1."""
    return os.environ.get("CI", "").lower() in ("1", "true") or os.environ.get("SPARK_COCKPIT_STRICT") == "1"


def require() -> None:
    """Skip the test where no rig can be had, with the reason; fail where that is not accepted."""
    if reason := why_not():
        refuse(reason)


def refuse(reason: str) -> None:
    """Skip for ``reason``, or fail where a skip is not accepted."""
    if strict():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
