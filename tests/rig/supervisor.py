"""The process that takes a rig away when its owner ends, however that happens.

    python -m tests.rig.supervisor NUMBER OWNER_PID      with the rig's lock inherited

Ends the rig when its standard input ends (the owner's ``stop``), or when the owner's process does (a child of
the owner may hold the other end of the pipe open). It is in a session of its own, so that a Ctrl+C meant
for the tests does not reach it.
"""

from __future__ import annotations

import os
import select
import signal
import sys

from tests.rig.teardown import tear_down


def main() -> None:
    """Wait for the owner's end, then take the rig away."""
    number, owner = int(sys.argv[1]), int(sys.argv[2])
    for unwanted in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(unwanted, signal.SIG_IGN)
    waiting = [0]
    try:
        waiting.append(os.pidfd_open(owner))
    except ProcessLookupError:
        waiting = []
    if waiting:
        select.select(waiting, [], [])
    tear_down(number)


if __name__ == "__main__":
    main()
