"""The recipe that the lab stands on, by plain SSH commands: two Ray nodes, vLLM at TP=2 over them, an answer."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from cockpit.lab.lab import LabInfo
from tests.lab.ssh import ssh, ssh_argv

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Recipe:
    """The lab's profile as plain commands."""

    profile: dict[str, Any]

    def host(self, name: str) -> dict[str, Any]:
        """The host as the profile declares it."""
        return next(host for host in self.profile["hosts"] if host["name"] == name)

    def address(self, name: str) -> str:
        """The host's address in the cluster."""
        return str(self.host(name)["fabric"]["address"])

    @property
    def gcs(self) -> str:
        """Where Ray's head listens."""
        return f"{self.address('spark-1')}:{self.profile['ray']['port']}"

    def environment(self, name: str) -> dict[str, str]:
        """What `ray start` runs with on the host."""
        interface = self.host(name)["fabric"]["interface"]
        return {
            **self.profile["runtime"]["env"],
            "VLLM_HOST_IP": self.address(name),
            "GLOO_SOCKET_IFNAME": interface,
            "TP_SOCKET_IFNAME": interface,
            "RAY_memory_monitor_refresh_ms": "0",
        }

    def line(self, name: str, argv: list[str], more: dict[str, str]) -> str:
        """A shell line that runs ``argv`` of the environment on the host."""
        env = {**self.environment(name), **more}
        words = [f"{self.profile['runtime']['venv']}/bin/{argv[0]}", *argv[1:]]
        return shlex.join(["exec", "env", *(f"{key}={value}" for key, value in env.items()), *words])

    def ray_start(self, name: str) -> str:
        """`ray start` on the host, each node with a folder of its own for temporary files."""
        ray = self.profile["ray"]
        head = [
            "--head",
            f"--port={ray['port']}",
            "--include-dashboard=true",
            "--dashboard-host=127.0.0.1",
            f"--dashboard-port={ray['dashboard_port']}",
        ]
        join = [f"--address={self.gcs}"]
        flags = [f"--{flag}={value}" for flag, value in ray["flags"].items()]
        argv = [
            "ray",
            "start",
            *(head if name == "spark-1" else join),
            f"--node-ip-address={self.address(name)}",
        ]
        line = self.line(name, [*argv, "--disable-usage-stats", *flags], {})
        return f'{line} --temp-dir="$TMPDIR/ray"'

    def serve(self, *leave_out: str) -> str:
        """`vllm serve` on the head."""
        serve = self.profile["serve"]
        flags: list[str] = []
        for flag, value in serve["flags"].items():
            if flag not in leave_out:
                flags += [f"--{flag}"] if value is True else [f"--{flag}", str(value)]
        argv = ["vllm", "serve", serve["model"], "--served-model-name", serve["served_name"], *flags]
        driver = {"RAY_ADDRESS": self.gcs, "RAY_DEDUP_LOGS": "0", "RAY_COLOR_PREFIX": "0"}
        return self.line("spark-1", argv, driver)

    @property
    def url(self) -> str:
        """The API's root."""
        return f"http://{self.address('spark-1')}:{self.profile['serve']['flags']['port']}"


@pytest.fixture(scope="module")
def recipe(lab_info: LabInfo) -> Recipe:
    """The lab's recipe."""
    assert lab_info.profile
    return Recipe(yaml.safe_load(lab_info.profile.read_text()))


@pytest.fixture(scope="module")
def cluster(lab_info: LabInfo, recipe: Recipe) -> Recipe:
    """Ray on both hosts."""
    for name in ("spark-1", "spark-2"):
        done = ssh(lab_info, name, recipe.ray_start(name), limit=90)
        assert done.returncode == 0, done.stdout + done.stderr
    return recipe


@pytest.fixture(scope="module")
def served(lab_info: LabInfo, cluster: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """vLLM, ready to answer; the value is its log."""
    log = tmp_path_factory.mktemp("serve") / "serve.log"
    with log.open("wb") as output:
        serve = subprocess.Popen(
            ssh_argv(lab_info, "spark-1", cluster.serve()),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    until = time.monotonic() + 400
    while not _healthy(cluster.url):
        assert serve.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.5)
    yield log
    serve.kill()
    serve.wait()


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_two_hosts_join_one_cluster(cluster: Recipe) -> None:
    port = cluster.profile["ray"]["dashboard_port"]
    listed = httpx.get(f"http://127.0.0.1:{port}/api/v0/nodes", timeout=10).json()["data"]["result"]["result"]
    alive = {node["node_ip"]: node["resources_total"]["GPU"] for node in listed if node["state"] == "ALIVE"}
    assert alive == {cluster.address("spark-1"): 1.0, cluster.address("spark-2"): 1.0}


def test_the_workers_of_both_hosts_answer(served: Path, cluster: Recipe) -> None:
    message = {"role": "user", "content": cluster.profile["prompt"]["text"]}
    body = {"model": "tiny", "messages": [message], "max_tokens": 8, "temperature": 0}
    answer = httpx.post(f"{cluster.url}/v1/chat/completions", json=body, timeout=120).json()
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["choices"][0]["finish_reason"] == "length"


def test_every_worker_line_comes_once(served: Path, cluster: Recipe) -> None:
    lines = [line for line in served.read_text(errors="replace").splitlines() if "Loading weights took" in line]
    assert len(lines) == 2
    assert [f"ip={cluster.address('spark-2')}" in line for line in lines].count(True) == 1


def test_the_stand_in_says_what_it_is(served: Path) -> None:
    assert "lets this host's CPU stand in for one" in served.read_text(errors="replace")


async def test_each_host_lists_its_own_worker(lab_info: LabInfo, served: Path) -> None:
    query = "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader,nounits"
    answers = await asyncio.gather(
        *(asyncio.to_thread(ssh, lab_info, name, query) for name in ("spark-1", "spark-2"))
    )
    rows = [answer.stdout.decode().splitlines() for answer in answers]
    assert [len(listed) for listed in rows] == [1, 1]
    pids = set()
    for (row,) in rows:
        pid, name, used = row.split(", ")
        pids.add(pid)
        assert name.startswith("ray::RayWorkerProc")
        assert 100 < int(used) < 8000
    assert len(pids) == 2


def test_without_the_backend_vllm_itself_refuses(lab_info: LabInfo, cluster: Recipe) -> None:
    done = ssh(lab_info, "spark-1", cluster.serve("distributed-executor-backend") + " --port 1", limit=120)
    assert done.returncode == 1
    text = (done.stdout + done.stderr).decode(errors="replace")
    assert "World size (2) is larger than the number of available GPUs (1) in this node" in text
    assert "ray, set '--distributed-executor-backend ray'" in text
