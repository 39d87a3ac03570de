"""Gives back the shared memory that a stopped run held and left: files of /dev/shm that were noted before the
stop and that no process holds now. Argument: the cluster's state folder. Prints one line of JSON.

Runs inside the environment: in a container the files belong to its user. vLLM 0.32.0 leaves two segments of
its message queue behind when SIGINT ends it.
"""

import json
import sys
from pathlib import Path

from cockpit.runtime.scripts.processes import shared_memory, table


def main() -> None:
    try:
        noted = json.loads(Path(sys.argv[1], "shared-memory.json").read_bytes())
    except (OSError, ValueError):
        noted = []
    kept, released = shared_memory(set(table())), []
    for path in noted:
        if path.startswith("/dev/shm/") and ".." not in path and path not in kept and Path(path).exists():
            Path(path).unlink()
            released.append(path)
    print(json.dumps({"released": released}))


main()
