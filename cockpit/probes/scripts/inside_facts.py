"""The environment of what runs for a cluster, as the processes have it: prints one line of JSON. Changes nothing.

Argument: JSON with ``state`` (the cluster's folder, as its processes see it) and ``names`` (variables). A process is
told of when it has the cluster's mark in its environment and is the raylet, whose environment every rank of Ray
inherits, or the serve itself. A process that sets its own title may have written over its environment
(setproctitle); one without the mark is left out.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def environment(folder: Path) -> "dict[str, str]":
    """A process's environment as it was started with, empty where it can't be read."""
    try:
        words = (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    texts = (word.decode("utf-8", "replace").partition("=") for word in words if b"=" in word)
    return {name: value for name, _, value in texts}


def kind(folder: Path) -> str:
    """raylet, serve or "" for another."""
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    if words[0].rpartition(b"/")[2] == b"raylet":
        return "raylet"
    served = any(word.rpartition(b"/")[2] == b"vllm" for word in words[:3]) and b"serve" in words[:4]
    return "serve" if served else ""


def main(asked: "dict[str, Any]") -> None:
    """Print the answer."""
    found, state = [], os.path.realpath(asked["state"])
    for folder in sorted(Path("/proc").iterdir()):
        what = kind(folder) if folder.name.isdigit() else ""
        told = environment(folder) if what else {}
        if told.get("SPARK_COCKPIT_UNIT", "").startswith(state + "/"):
            values = {name: told.get(name) for name in asked["names"]}
            found.append({"pid": int(folder.name), "kind": what, "values": values})
    print(json.dumps({"processes": found}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
