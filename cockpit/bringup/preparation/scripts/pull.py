"""Runs ``docker pull`` and says as JSON, twice a second, how many layers there are, how many of them are there, and
the bytes this host has received meanwhile; last its exit status.

Without a terminal docker says one line for each change of a layer: ``ID: Pulling fs layer``, ``ID: Download
complete``, ``ID: Pull complete``, ``ID: Already exists`` (Docker 20 to 29).
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path


def received() -> int:
    """Bytes that came in by any interface but loopback since boot."""
    total = 0
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, figures = line.partition(":")
        if name.strip() != "lo":
            total += int(figures.split()[0])
    return total


class Layers:
    """What docker has said of each layer."""

    def __init__(self) -> None:
        self.there: dict[str, bool] = {}
        self.said: list[str] = []
        self.began = received()

    def hear(self, line: str) -> None:
        """Read a line of docker's."""
        name, mark, state = line.strip().partition(": ")
        if mark and len(name) == 12 and all(char in "0123456789abcdef" for char in name):
            done = state in ("Pull complete", "Already exists", "Download complete")
            self.there[name] = self.there.get(name, False) or done
        elif line.strip():
            self.said = [*self.said[-10:], line.strip()]

    def tell(self, status: "int | None" = None) -> None:
        """Say how far it is."""
        told = {
            "layers": len(self.there),
            "there": sum(self.there.values()),
            "received": max(0, received() - self.began),
            "status": status,
            "said": "\n".join(self.said),
        }
        print(json.dumps(told), flush=True)


def main(argv: "list[str]") -> int:
    """Pull."""
    layers = Layers()
    program = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )

    def read() -> None:
        for line in program.stdout or ():
            layers.hear(line)

    reader = threading.Thread(target=read)
    reader.start()
    while program.poll() is None:
        layers.tell()
        time.sleep(0.5)
    reader.join(5)
    layers.tell(program.returncode)
    return program.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
