"""The copy of a model between two hosts of the rig beside plain rsync, in the same run: rsync over SSH as an operator
would type it, and rsync's own daemon by hand. Prints each rate and the ratios.

    python tests/bench/bench_copy.py [MEGABYTES]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.e2e.cockpit import Cockpit
from tests.rig.host import Host
from tests.rig.profile import plain_text
from tests.rig.rig import Rig

ROUNDS = 3
SOURCE, TARGET = "/home/aurora/models/bench", "/home/aurora/models/bench"
MAKE = """\
import json, os, struct, sys
folder, size, count = sys.argv[1], int(sys.argv[2]), 4
os.makedirs(folder, exist_ok=True)
names = ["model-%05d-of-%05d.safetensors" % (one + 1, count) for one in range(count)]
block = os.urandom(1 << 24)
for name in names:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with open(folder + "/" + name, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for at in range(0, size, len(block)):
            file.write(block[: size - at])
open(folder + "/config.json", "w").write("{}")
index = {"weight_map": {"w%d" % one: name for one, name in enumerate(names)}}
open(folder + "/model.safetensors.index.json", "w").write(json.dumps(index))
"""
CONF = f"use chroot = no\n[copy]\npath = {SOURCE}\nread only = yes\n"


def timed(target: Host, argv: list[str]) -> float:
    """Seconds of a command on the target, beginning without the files."""
    clear(target)
    began = time.monotonic()
    target.exec(argv, user="aurora", timeout=500)
    return time.monotonic() - began


def clear(target: Host) -> None:
    """Nothing is there, and nothing waits to be written."""
    target.exec(["rm", "-rf", TARGET], timeout=60)
    target.exec(["mkdir", "-p", TARGET], user="aurora")
    target.exec(["sync", "-f", "/home/aurora"], timeout=120)


def ours(cockpit: Cockpit, profile: Path, target: Host) -> tuple[float, float]:
    """Seconds from the copy's start to its last byte, and to its end with the comparison."""
    clear(target)
    running = cockpit.start("prepare", profile, "--only", "model", "--yes", "--json")
    running.until(lambda e: e["event"] == "task" and e["state"] == "running")
    began, last = time.monotonic(), 0.0
    for event in running.lines():
        if event["event"] == "progress" and "copy" in event["doing"]:
            last = time.monotonic() - began
        if event["event"] == "task":
            assert event["state"] == "done", event
            whole = time.monotonic() - began
    running.process.wait(timeout=30)
    return last, whole


def main(megabytes: int) -> None:
    """Measure in turns, so that all have the same company on this machine."""
    rig = Rig.start(docker=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure(rig, Path(folder), megabytes * 1_000_000)
    finally:
        rig.stop()


def measure(rig: Rig, folder: Path, size: int) -> None:
    """Print the figures."""
    head, worker = rig.hosts.values()
    for host in (head, worker):
        host.exec(
            ["sh", "-c", "mkdir -p ~/venv/bin && ln -sf /usr/bin/python3 ~/venv/bin/python"], user="aurora"
        )
    head.exec(["python3", "-c", MAKE, SOURCE, str(size // 4)], user="aurora", timeout=300)
    worker.exec(["sh", "-c", "cat >/home/aurora/.ssh/key && chmod 600 /home/aurora/.ssh/key"],
                user="aurora", stdin=rig.key.read_text())  # fmt: skip
    head.exec(["sh", "-c", f"printf '%s' '{CONF}' >/tmp/rsyncd.conf"])
    head.exec(["sh", "-c", f"rsync --daemon --config=/tmp/rsyncd.conf --port=8730 --address={head.fabric}"])
    ssh = "ssh -i /home/aurora/.ssh/key -o StrictHostKeyChecking=no -o LogLevel=ERROR"
    over_ssh = ["rsync", "-a", "-e", ssh, f"{head.fabric}:{SOURCE}/", f"{TARGET}/"]
    by_daemon = ["rsync", "-a", f"rsync://{head.fabric}:8730/copy/", f"{TARGET}/"]
    cockpit, profile = Cockpit(folder / "cockpit"), folder / "bench.yaml"
    runtime = {"kind": "native", "venv": "~/venv"}
    profile.write_text(plain_text(rig, "bench", runtime=runtime, serve={"model": SOURCE}))
    took: dict[str, list[float]] = {"ssh": [], "daemon": [], "cockpit": [], "compared": []}
    for _ in range(ROUNDS):
        took["ssh"].append(timed(worker, over_ssh))
        took["daemon"].append(timed(worker, by_daemon))
        last, whole = ours(cockpit, profile, worker)
        took["cockpit"].append(last)
        took["compared"].append(whole)
    rate = {name: size / statistics.median(seconds) / 1e6 for name, seconds in took.items()}
    print(f"{size / 1e6:.0f} MB in 4 files, median of {ROUNDS}, in MB/s")
    print(f"rsync -a over SSH                 {rate['ssh']:7.0f}")
    print(f"rsync -a from a daemon            {rate['daemon']:7.0f}")
    print(f"spark-cockpit prepare, the copy   {rate['cockpit']:7.0f}")
    print(f"  with the comparison after it    {rate['compared']:7.0f}")
    print(f"copy / rsync over SSH             {rate['cockpit'] / rate['ssh']:7.2f}   (at least 0.80)")
    print(f"copy / rsync from a daemon        {rate['cockpit'] / rate['daemon']:7.2f}   (at least 0.80)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
