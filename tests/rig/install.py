"""``python -m tests.rig.install``: bring the Debian packages the rig needs, where that may be done.

With root and apt it installs them, and nothing happens when none is missing. Else it names them and ends with
status 0 (the rig's tests are skipped with the reason), or 1 where a skip is not accepted (CI).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.rig.needs import missing_packages, strict
from tests.rig.shell import RigError, run

POLICY = Path("/usr/sbin/policy-rc.d")
"""Debian asks it before a package starts its service; 101 forbids."""


def main() -> int:
    """Install what is missing; the exit status."""
    missing = missing_packages()
    if not missing:
        return 0
    named = " ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"The tests on the rig need root and these Debian packages: {named}", file=sys.stderr)
        return int(strict())
    print(f"Installing for the tests on the rig: {named}", file=sys.stderr)
    try:
        install(missing)
    except RigError as error:
        print(error, file=sys.stderr)
        return 1
    if still := missing_packages():
        print(f"Still missing after the installation: {' '.join(still)}", file=sys.stderr)
        return 1
    return 0


def install(packages: list[str]) -> None:
    """Install without starting any service: a Docker engine or an sshd of the machine's own isn't wanted."""
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    guard = not POLICY.exists()
    if guard:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        run(["apt-get", "-qq", "update"], timeout=300)
        # Where docker.io brings the command docker itself, there is no package docker-cli.
        known = [name for name in packages if "Candidate: (none)" not in policy(name) and policy(name)]
        run(["apt-get", "-qq", "install", "--no-install-recommends", *known], timeout=900)
    finally:
        if guard:
            POLICY.unlink()


def policy(package: str) -> str:
    """What apt knows of the package."""
    return run(["apt-cache", "policy", package]).out


if __name__ == "__main__":
    sys.exit(main())
