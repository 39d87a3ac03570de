"""Preparation on two real hosts that have no SSH keys for each other: what is missing on one is brought to it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cockpit import Answer, Cockpit, wait_for
from tests.rig.host import Host
from tests.rig.layout import FABRIC
from tests.rig.profile import plain_text
from tests.rig.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.timeout(600)]

FOLDER = "/home/aurora/models/big"
SHARDS = 3


@pytest.fixture
def cockpit(tmp_path: Path) -> Cockpit:
    """The command line."""
    return Cockpit(tmp_path / "cockpit")


def events(answer: Answer, name: str) -> list[dict[str, object]]:
    """The lines of that name."""
    found = [json.loads(line) for line in answer.out.splitlines()]
    return [event for event in found if event["event"] == name]


def tasks(answer: Answer) -> dict[str, dict[str, object]]:
    """Every task that was shown."""
    return {str(task["task"]): task for plan in events(answer, "plan") for task in plan["tasks"]}  # type: ignore[attr-defined]


def ended(answer: Answer) -> dict[str, str]:
    """The last state of every task."""
    return {str(event["task"]): str(event["state"]) for event in events(answer, "task")}


MAKE = f"""\
import hashlib, json, os, struct, sys
size = int(sys.argv[1])
folder = "{FOLDER}"
os.makedirs(folder, exist_ok=True)
names = ["model-0000%d-of-0000{SHARDS}.safetensors" % (one + 1) for one in range({SHARDS})]
for name in names:
    header = json.dumps({{"w": {{"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}}}).encode()
    with open(folder + "/" + name, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        left = size
        while left:
            part = os.urandom(min(left, 1 << 22))
            file.write(part)
            left -= len(part)
open(folder + "/config.json", "w").write("{{}}")
index = {{"weight_map": {{"w%d" % one: name for one, name in enumerate(names)}}}}
open(folder + "/model.safetensors.index.json", "w").write(json.dumps(index))
os.makedirs(folder + "/.cache/huggingface/download", exist_ok=True)
digest = hashlib.sha256(open(folder + "/" + names[0], "rb").read()).hexdigest()
open(folder + "/.cache/huggingface/download/" + names[0] + ".metadata", "w").write("c0ffee\\n%s\\n0\\n" % digest)
"""
"""A model folder as a download by `hf download --local-dir` leaves it, of random bytes."""


def make_model(host: Host, size: int) -> None:
    """Three shards of ``size`` bytes."""
    host.exec(["python3", "-c", MAKE, str(size)], user="aurora", timeout=120)


def shards_of(host: Host) -> str:
    """Names, sizes and sums of the weight files."""
    return host.exec(["sh", "-c", f"cd {FOLDER} && sha256sum *.safetensors *.json"], timeout=120).out


@pytest.fixture
def profile(plain_rig: Rig, tmp_path: Path) -> Iterator[Path]:
    """A native profile for a model in a folder; its venv is the system's Python, which is all that is asked."""
    for host in plain_rig.hosts.values():
        host.exec(
            ["sh", "-c", "mkdir -p ~/venv/bin && ln -sf /usr/bin/python3 ~/venv/bin/python"], user="aurora"
        )
    path = tmp_path / "copied.yaml"
    runtime = {"kind": "native", "venv": "~/venv"}
    path.write_text(plain_text(plain_rig, "copied", runtime=runtime, serve={"model": FOLDER}))
    yield path


def test_the_model_is_copied_and_compared(plain_rig: Rig, profile: Path, cockpit: Cockpit) -> None:
    head, worker = plain_rig.hosts.values()
    make_model(head, 20_000_000)
    nobody = cockpit("prepare", profile, "--only", "model")
    assert nobody.status == 2 and "--yes" in nobody.err
    planned = cockpit("prepare", profile, "--only", "model", "--plan", "--json")
    assert planned.status == 0, planned.out + planned.err
    (task,) = tasks(planned).values()
    assert (task["kind"], task["host"], task["from"]) == ("model", "spark-2", "spark-1")
    assert 60_000_000 < int(str(task["bytes"])) < 60_100_000
    texts = [str(command["stdin"]) for command in task["commands"]]  # type: ignore[attr-defined]
    assert "rsync --daemon" in texts[0] and head.fabric in texts[0]
    assert "--partial --inplace" in texts[1] and "${SPARK_COCKPIT_ONE_TIME}" in texts[1]
    assert worker.exec(["ls", FOLDER], check=False).status != 0, "a plan changes nothing"
    answer = cockpit("prepare", profile, "--only", "model", "--yes", "--json")
    assert (answer.status, ended(answer)) == (0, {"model:spark-2": "done"}), answer.out + answer.err
    assert shards_of(worker) == shards_of(head)
    last = events(answer, "task")[-1]["reason"]
    assert "are the same as on spark-1, 1 by the hub's sums" in str(last)
    for host in (head, worker):
        assert "rsync" not in host.exec(["ps", "-eo", "args"]).out
        assert host.exec(["sh", "-c", "ls -d /tmp/tmp.* 2>/dev/null"], check=False).out == ""
    again = cockpit("prepare", profile, "--only", "model", "--yes", "--json")
    assert (again.status, tasks(again)) == (0, {})


def test_a_damaged_file_is_found_by_the_hubs_sum_and_mended(
    plain_rig: Rig, profile: Path, cockpit: Cockpit
) -> None:
    head, worker = plain_rig.hosts.values()
    make_model(head, 5_000_000)
    assert cockpit("prepare", profile, "--only", "model", "--yes", "--json").status == 0
    first, second = (f"{FOLDER}/model-0000{one}-of-00003.safetensors" for one in (1, 2))
    # One byte of the first is another, its time and size are the same; the second is cut short.
    worker.exec(
        ["sh", "-c", f"touch -r {first} /tmp/then && printf x | dd of={first} bs=1 seek=3000000 conv=notrunc && "
         f"touch -r /tmp/then {first} && truncate -s 3000000 {second}"],
        user="aurora",
    )  # fmt: skip
    answer = cockpit("prepare", profile, "--only", "model", "--yes", "--json")
    assert (answer.status, ended(answer)) == (0, {"model:spark-2": "done"}), answer.out + answer.err
    assert shards_of(worker) == shards_of(head)


def test_a_cut_fabric_and_a_cockpit_that_was_ended_are_survived(
    plain_rig: Rig, profile: Path, cockpit: Cockpit
) -> None:
    head, worker = plain_rig.hosts.values()
    make_model(head, 60_000_000)
    head.rate("200mbit", FABRIC)
    size = ["sh", "-c", f"cat {FOLDER}/*.safetensors 2>/dev/null | wc -c"]

    def there() -> int:
        return int(worker.exec(size).out)

    running = cockpit.start("prepare", profile, "--only", "model", "--yes", "--json")
    wait_for(lambda: there() > 5_000_000, limit=60, what="some of it is there")
    running.kill()
    wait_for(
        lambda: "rsync" not in head.exec(["ps", "-eo", "args"]).out, limit=30, what="both ends ended with it"
    )
    kept = there()
    assert kept > 5_000_000
    running = cockpit.start("prepare", profile, "--only", "model", "--yes", "--json")
    running.until(lambda e: e["event"] == "progress" and e["done"] > 30_000_000 and e["rate"] is not None)
    worker.drop("on", FABRIC)
    broke = running.until(lambda e: e["event"] == "progress" and "trying again" in e["doing"])
    assert broke["total"] > 180_000_000
    worker.drop("off", FABRIC)
    end = running.until(lambda e: e["event"] == "end")
    running.process.wait(timeout=30)
    assert end["outcome"] == "ready", running.seen
    assert shards_of(worker) == shards_of(head)
    left = [event["eta"] for event in running.seen if event["event"] == "progress" and event["eta"] is not None]
    assert left and all(eta >= 0 for eta in left)


@pytest.mark.full
def test_without_rsync_it_goes_by_tar(plain_rig: Rig, profile: Path, cockpit: Cockpit) -> None:
    head, worker = plain_rig.hosts.values()
    make_model(head, 10_000_000)
    assert cockpit("prepare", profile, "--only", "model", "--yes", "--json").status == 0
    worker.exec(["sh", "-c", f"rm {FOLDER}/config.json && truncate -s 5 {FOLDER}/model-00002*"], user="aurora")
    worker.exec(["mv", "/usr/bin/rsync", "/usr/bin/rsync.away"])
    try:
        answer = cockpit("prepare", profile, "--only", "model", "--yes", "--json")
    finally:
        worker.exec(["mv", "/usr/bin/rsync.away", "/usr/bin/rsync"])
    (task,) = tasks(answer).values()
    assert "without rsync, by tar" in str(task["title"]) and "(2 files)" in str(task["title"])
    assert (answer.status, ended(answer)) == (0, {"model:spark-2": "done"}), answer.out + answer.err
    assert shards_of(worker) == shards_of(head)


@pytest.mark.full
def test_what_can_not_be_copied_is_said(plain_rig: Rig, profile: Path, cockpit: Cockpit) -> None:
    head, worker = plain_rig.hosts.values()
    nowhere = cockpit("prepare", profile, "--only", "model", "--yes", "--json")
    assert (nowhere.status, ended(nowhere)) == (4, {"model:spark-1": "refused"}), nowhere.out
    assert "--local-dir " in str(events(nowhere, "task")[-1]["reason"])
    make_model(head, 3_000_000)
    worker.exec(["sh", "-c", "mkdir -p /home/aurora/models && chown root /home/aurora/models"])
    answer = cockpit("prepare", profile, "--only", "model", "--yes", "--json")
    assert (answer.status, ended(answer)) == (4, {"model:spark-2": "refused"}), answer.out
    assert "may not write in /home/aurora/models" in str(events(answer, "task")[-1]["reason"])
    worker.exec(["chown", "aurora", "/home/aurora/models"])
    worker.exec(["mount", "-t", "tmpfs", "-o", "mode=1777,size=5m", "small", "/home/aurora/models"])
    try:
        full = cockpit("prepare", profile, "--only", "model", "--yes", "--json")
    finally:
        worker.exec(["umount", "/home/aurora/models"])
    assert "GB are free" in str(events(full, "task")[-1]["reason"])


def test_at_a_terminal_each_task_is_shown_and_asked_about(
    plain_rig: Rig, profile: Path, cockpit: Cockpit
) -> None:
    head, worker = plain_rig.hosts.values()
    make_model(head, 30_000_000)
    with Terminal(cockpit.argv("prepare", profile, "--only", "model"), cockpit.env) as terminal:
        shown = terminal.until("Do it? [y/N]: ")
        assert "rsync --daemon" in shown and "${SPARK_COCKPIT_ONE_TIME}" in shown
        terminal.type("n\r")
        assert "declined; nothing was changed" in terminal.until("Something is left to do.")
        assert terminal.status() == 4
    assert worker.exec(["ls", FOLDER], check=False).status != 0
    head.rate("100mbit", FABRIC)
    with Terminal(cockpit.argv("prepare", profile, "--only", "model"), cockpit.env) as terminal:
        terminal.until("Do it? [y/N]: ")
        terminal.type("y\r")
        terminal.until("MB/s, ")
        terminal.type("\x03")
        assert "Ended. What has come stays" in terminal.until("it goes on from there.")
        assert terminal.status() == 130
    assert "rsync" not in head.exec(["ps", "-eo", "args"]).out
    assert int(worker.exec(["sh", "-c", f"cat {FOLDER}/*.safetensors | wc -c"]).out) > 1_000_000


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True, preexec_fn=_own
        )
        os.close(slave)
        self._seen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def until(self, text: str, limit: float = 90) -> str:
        """What has been shown, once ``text`` is in it."""
        end = time.monotonic() + limit
        while text not in self._seen:
            assert time.monotonic() < end, self._seen
            if select.select([self._master], [], [], 0.5)[0]:
                try:
                    self._seen += os.read(self._master, 65536).decode("utf-8", "replace")
                except OSError:
                    raise AssertionError(f"it ended: {self._seen}") from None
        return self._seen

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def status(self) -> int:
        """Its exit status."""
        return self._process.wait(timeout=30)


def _own() -> None:
    """The terminal becomes the process's controlling one, so that Ctrl+C is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
