"""Preparation's pieces: the pipe between two hosts, the comparison of files, the readers, the pace."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cockpit.bringup.preparation import pipe, rsync
from cockpit.bringup.preparation.amounts import amount, duration
from cockpit.bringup.preparation.files import Compared, Listed, lacking, parse_compared, parse_listed
from cockpit.bringup.preparation.image import Pulled, image_tasks
from cockpit.bringup.preparation.model import model_tasks
from cockpit.bringup.preparation.moving import ONE_TIME, Heard
from cockpit.bringup.preparation.pace import Pace
from cockpit.bringup.session import Session
from cockpit.hosts.local import LocalHost
from cockpit.model.profile import Fabric, HostSpec, Role
from cockpit.model.profile_yaml import parse
from cockpit.probes.answers import EnvironmentFacts, HostFacts, ImageFacts, ModelFacts
from cockpit.probes.asked import Asked
from cockpit.probes.machine import Disk, MachineFacts
from cockpit.runtime.environment import environment
from cockpit.runtime.script_text import script_text

ONE = HostSpec("one", "one", Role.HEAD, Fabric("127.0.0.1"))
TWO = HostSpec("two", "two", Role.WORKER, Fabric("127.0.0.1"))
SCRIPTS = "cockpit.bringup.preparation.scripts"


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def end(words: list[str], secret: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-I", "-S", "-c", script_text(SCRIPTS, "pipe"), *words]
    env = {**os.environ, ONE_TIME: secret}
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def both(
    program: list[str], into: list[str], *, giver: str = "s", taker: str = "s"
) -> tuple[int, Heard, bytes]:
    """A whole transfer over loopback: the giver's status, the taker's last word, its errors."""
    port = free_port()
    giving = end(["give", "127.0.0.1", str(port), "127.0.0.1", *program], giver)
    assert giving.stdout is not None
    try:
        assert json.loads(giving.stdout.readline())["listening"] == port
        taking = end(["take", "127.0.0.1", "127.0.0.1", str(port), *into], taker)
        output, errors = taking.communicate(timeout=60)
        heard = [one for line in output.splitlines() if (one := pipe.parse(line))]
        if giver == taker:
            giving.wait(timeout=30)
    finally:
        giving.kill()
        giving.communicate()
    return giving.returncode, heard[-1] if heard else Heard(), errors


def test_bytes_go_through_the_pipe_whole(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(30_000_001))
    status, heard, _ = both(["cat", str(source)], ["sh", "-c", f"cat >{target}; echo taken"])
    assert (status, heard) == (0, Heard(30_000_001, 0, "taken\n"))
    assert target.read_bytes() == source.read_bytes()


def test_who_does_not_know_the_secret_gets_nothing(tmp_path: Path) -> None:
    target = tmp_path / "target"
    status, heard, errors = both(
        ["echo", "private"], ["sh", "-c", f"cat >{target}"], giver="right", taker="wrong"
    )
    assert (status, heard) == (-9, Heard())
    assert b"EOFError" in errors
    assert not target.exists()


def test_a_program_that_fails_on_the_way_does_not_pass_for_the_whole(tmp_path: Path) -> None:
    target = tmp_path / "target"
    status, heard, _ = both(
        ["sh", "-c", "echo half; exit 3"], ["sh", "-c", f"cat >{target}.part && mv {target}.part {target}"]
    )
    assert status == 3
    assert heard.status == 74 and "closed" in heard.said
    assert not target.exists(), "the taking program was ended before its input was"
    _, heard, _ = both(["echo", "x"], ["sh", "-c", "echo the disk is full >&2; exit 5"])
    assert (heard.status, heard.said) == (5, "the disk is full\n")


def look(folder: Path, **more: object) -> bytes:
    """The script's answer."""
    asked = {"folder": str(folder), "address": "127.0.0.1", **more}
    argv = [sys.executable, "-I", "-S", "-c", script_text(SCRIPTS, "model_files")]
    done = subprocess.run(argv, input=json.dumps(asked).encode(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A model as the hub's cache holds it: a large file named by its sha256, a small one as git names it."""
    folder = tmp_path / "models--a--b"
    (folder / "blobs").mkdir(parents=True)
    (folder / "snapshots/c0ffee").mkdir(parents=True)
    large, small = os.urandom(100_000), b"{}"
    names = {
        "model.safetensors": (hashlib.sha256(large).hexdigest(), large),
        "config.json": (hashlib.sha1(b"blob 2\0" + small).hexdigest(), small),
    }
    for name, (digest, data) in names.items():
        (folder / "blobs" / digest).write_bytes(data)
        (folder / "snapshots/c0ffee" / name).symlink_to(f"../../blobs/{digest}")
    (folder / "blobs/half.incomplete").write_bytes(b"x")
    return folder


def test_a_hub_cache_is_listed_and_compared_by_its_sums(cache: Path, tmp_path: Path) -> None:
    source = parse_listed(look(cache))
    assert source.exists and source.writable and source.free > 0 and source.port > 0
    assert [(path.partition("/")[0], known.partition(":")[0]) for path, _, _, known in source.entries] == [
        ("blobs", "git" if len(source.entries[0][0]) < 50 else "sha256"),
        ("blobs", "git" if len(source.entries[1][0]) < 50 else "sha256"),
        ("snapshots", ""),
        ("snapshots", ""),
    ]
    assert source.bytes == 100_002 and source.outside == ()
    nothing = parse_listed(look(tmp_path / "elsewhere/deep"))
    assert (nothing.exists, nothing.writable, nothing.at) == (False, True, str(tmp_path))
    assert len(lacking(source, nothing)) == 4 and lacking(source, source) == ()
    compared = parse_compared(look(cache, files=source.entries).splitlines()[-1])
    assert compared == Compared((), (), 2)
    blob = max((cache / "blobs").glob("?" * 64))
    data = bytearray(blob.read_bytes())
    data[500] ^= 1
    blob.write_bytes(data)
    changed = parse_compared(look(cache, files=source.entries).splitlines()[-1])
    assert isinstance(changed, Compared) and changed.differs == (f"blobs/{blob.name}",) and not changed.same
    blob.unlink()
    gone = parse_compared(look(cache, files=source.entries).splitlines()[-1])
    assert isinstance(gone, Compared) and gone.missing == (f"blobs/{blob.name}",)


def test_links_that_lead_out_are_told(cache: Path) -> None:
    (cache / "snapshots/c0ffee/more").symlink_to("../../../elsewhere")
    (cache / "snapshots/c0ffee/absolute").symlink_to("/etc/passwd")
    assert set(parse_listed(look(cache)).outside) == {"snapshots/c0ffee/more", "snapshots/c0ffee/absolute"}


@pytest.mark.parametrize("output", [b"", b"{}", b"[]", b"\xff", b'{"folder": 1, "files": 3}'])
def test_hostile_answers_are_refused(output: bytes) -> None:
    with pytest.raises(ValueError):
        parse_listed(output)
    assert parse_compared(output) is None
    assert pipe.parse(output) is None and rsync.parse(output) is None
    assert not Pulled().hear(output)


def test_rsyncs_progress_is_read() -> None:
    # As rsync 3.5.0 says it; the separators are the locale's.
    assert rsync.parse(b"    109,740,032  36%   96.81MB/s    0:00:01  ") == Heard(109_740_032)
    assert rsync.parse(b"    300.000.000  99%   95,43MB/s    0:00:03 (xfr#1, to-chk=0/7)") == Heard(300_000_000)
    assert rsync.parse(b"sent 85,847 bytes  received 150,097,028 bytes  42,909,392.86 bytes/sec") is None


def test_the_plan_has_the_secrets_name_and_not_its_value() -> None:
    offer = rsync.offer_command(ONE, TWO, "/models/a b", 4711)
    take = rsync.take_command(TWO, ONE, "/models/a b", 4711)
    give = pipe.give_command(ONE, TWO, 4711, ("docker", "save", "x"), "offer")
    for command in (offer, take, give):
        assert f"${{{ONE_TIME}}}" in command.stdin and command.secrets == (ONE_TIME,)
        assert b"c0ffee" in command.stdin_bytes({ONE_TIME: "c0ffee"})
    assert "path = /models/a b\n" in offer.stdin and "hosts allow = 127.0.0.1\n" in offer.stdin
    assert "'/models/a b'/" in take.stdin
    six = replace(ONE, fabric=Fabric("fd00::1"))
    assert "rsync://cockpit@[fd00::1]:4711/copy/" in rsync.take_command(TWO, six, "/m", 4711).stdin
    assert rsync.usable("/models/a b") and not any(
        map(rsync.usable, ("/a\n", "/a$(b)", "/a`b`", "/100%x", "/a\\b"))
    )


def test_the_pace_tells_rate_and_time_left() -> None:
    clock = [0.0]
    pace = Pace(lambda: clock[0])
    assert pace.at(0, 1000) == (None, None)
    clock[0] = 2.0
    assert pace.at(200, 1000) == (100.0, 8.0)
    clock[0] = 20.0
    assert pace.at(200, None) == (0.0, None), "it stands still"
    assert pace.at(100, 1000) == (None, None), "it was begun anew"


def test_amounts_and_times_in_words() -> None:
    assert [amount(one) for one in (0, 999, 1500, 26_400_000_000, 3e15)] == [
        *("0 B", "999 B", "1.50 kB", "26.40 GB", "3000.00 TB"),
    ]
    assert [duration(one) for one in (0.4, 61, 3725)] == ["0 s", "1 min 1 s", "1 h 2 min"]


def test_a_list_with_another_size_or_link_is_lacking() -> None:
    base = Listed("/m", True, True, "/m", 1, True, 1, (("a", 1, "", ""), ("b", 0, "a", "")), ())
    other = replace(base, entries=(("a", 2, "", ""), ("b", 0, "c", "")))
    assert lacking(base, other) == base.entries


PAIR = """\
hosts:
  - {name: one, address: one, role: head, fabric: {address: 192.168.100.10}}
  - {name: two, address: two, role: worker, fabric: {address: 192.168.100.11}}
runtime: {kind: docker, image: vllm-node, mounts: ["~/.cache/huggingface:/root/.cache/huggingface"]}
serve: {model: Qwen/Qwen3.5-122B-A10B-FP8, secrets: [HF_TOKEN]}
"""


async def test_an_image_that_finds_no_room_is_left_to_the_operator() -> None:
    profile = parse(PAIR.encode(), "pair.yaml")
    local = {spec.name: LocalHost(spec) for spec in profile.hosts}
    session = Session(profile, local, environment(profile))
    await session.connect()
    host = HostFacts(
        "6.17", "aarch64", "Ubuntu", "n", docker_version="28", image=ImageFacts("sha256:a", size=20 * 10**9)
    )
    hosts = {"one": host, "two": replace(host, image=ImageFacts(error="No such image"))}
    for free, left in ((25 * 10**9, False), (5 * 10**9, True)):
        machines = {"two": MachineFacts({}, (Disk("/var/lib/docker", 10**12, free),))}
        (task,), _ = await image_tasks(session, Asked(profile, hosts, {}, {}, machines=machines))
        assert ("20.0 GB are to come, and 5.0 GB are free" in task.by_hand) is left, task.by_hand


async def test_a_model_that_no_host_has_is_named_with_its_download() -> None:
    """One host downloads; the others get it over the fabric. Nothing is asked of the hosts for it."""
    profile = parse(PAIR.encode(), "pair.yaml")
    hosts = {spec.name: LocalHost(spec) for spec in profile.hosts}
    session = Session(profile, hosts, environment(profile))
    absent = ModelFacts("hub", False, False, "/root/.cache/huggingface/hub/models--Qwen--Qwen3.5-122B-A10B-FP8")
    inside = EnvironmentFacts(
        "3.12.3", "/usr/bin/python3", "0.32.0", "2.60.0", "2.13.0", "/usr/bin/vllm", absent
    )
    (task,), notes = await model_tasks(session, Asked(profile, {}, {"one": inside, "two": inside}, {}))
    assert (task.host, task.commands, notes) == ("one", (), [])
    assert task.bytes == 122_000_000_000
    first, then = task.by_hand.splitlines()
    assert "hf download Qwen/Qwen3.5-122B-A10B-FP8 --cache-dir ~/.cache/huggingface/hub" in first
    assert "about 122 GB are to come" in first and "with HF_TOKEN exported there" in first
    assert then.startswith("Then: spark-cockpit prepare pair --only model")
    bare = parse(
        PAIR.replace('mounts: ["~/.cache/huggingface:/root/.cache/huggingface"]', "mounts: []").encode(),
        "pair.yaml",
    )
    tasks, notes = await model_tasks(session, Asked(bare, {}, {"one": inside, "two": inside}, {}))
    assert tasks == [] and "no mount holds /root/.cache" in notes[0] and len(notes) == 2
