"""``spark-cockpit flags`` as a user calls it: on this machine with the real vLLM, and without any host."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cockpit.lab.environment import Environment


def free_port() -> int:
    """A port that nobody listens on: a second run of these tests on this machine has another."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


PORT = free_port()

NVIDIA_SMI = """#!/bin/sh
# Stands in for the nvidia-smi of a DGX Spark: there is no GPU here.
case "$1" in
  *driver_version*) echo "580.95.05, NVIDIA GB10" ;;
  --query-gpu=*) echo "0, [N/A], [N/A], 0, 4.50, 40, NVIDIA GB10" ;;
esac
"""


@dataclass(frozen=True, slots=True)
class Cli:
    """The command line with folders of its own."""

    folder: Path

    @property
    def state(self) -> Path:
        """The profile's state folder."""
        return self.folder / "state" / "spark-cockpit" / "mine"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``spark-cockpit`` to its end."""
        names = {"XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config"}
        env = {**os.environ, **{name: str(self.folder / path) for name, path in names.items()}}
        env["PATH"] = f"{self.folder / 'bin'}:{env['PATH']}"
        return subprocess.run(
            [sys.executable, "-m", "cockpit", *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
        )

    def json(self, *arguments: str) -> dict[str, Any]:
        """What it answers with ``--json``."""
        answer: dict[str, Any] = json.loads(self.run(*arguments, "--json").stdout)
        return answer

    def profile(self, environment: Path, model: str, flags: str, hosts: str = "") -> Path:
        """A profile's file."""
        path = self.folder / "mine.yaml"
        path.write_text(
            "name: mine # ours\n"
            f"hosts:\n{hosts or '  - {name: here, address: local, role: head}'}\n"
            f"runtime:\n  kind: native\n  venv: {environment}\n"
            "  env: {HF_HUB_OFFLINE: 1, VLLM_NO_USAGE_STATS: 1, DO_NOT_TRACK: 1, VLLM_CPU_KVCACHE_SPACE: 1}\n"
            f"serve:\n  model: {model}\n  flags:\n{flags}"
        )
        return path


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A command line of the test's own."""
    return Cli(tmp_path)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """One that the module's tests with the real vLLM share; its helper is ended in the end."""
    made = Cli(tmp_path_factory.mktemp("flags"))
    (made.folder / "bin").mkdir()
    (made.folder / "bin" / "nvidia-smi").write_text(NVIDIA_SMI)
    (made.folder / "bin" / "nvidia-smi").chmod(0o755)
    yield made
    made.run("down", str(made.folder / "mine.yaml"))
    assert not (made.state / "flags" / "socket").exists()


FLAGS = f"""\
    max-model-len: 99999 # too long
    # a misspelt one
    tensor-paralel-size: 1
    dtype: bfloat
    enforce-eager: true
    port: {PORT}
"""


@pytest.mark.lab
def test_everything_is_found_at_once_and_mended(
    lab: Cli, lab_environment: Environment, lab_model: Path
) -> None:
    path = lab.profile(lab_environment.folder, str(lab_model), FLAGS)
    found = lab.run("flags", str(path), "--deep", "--json")
    told = json.loads(found.stdout)
    assert (found.returncode, told["source"], told["vllm"]) == (4, "runtime", "0.32.0")
    assert found.stderr == "Asking vLLM on here about the flags ...\n"
    assert (told["asked"], told["reason"]) == (True, None)
    errors = [(one["flag"], one["line"]) for one in told["findings"] if one["severity"] == "error"]
    assert errors == [("tensor-paralel-size", 13), ("dtype", 14), ("max-model-len", 11)]
    mended = lab.run("flags", str(path), "--fix")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "-    tensor-paralel-size: 1\n" in mended.stderr
    text = path.read_text()
    assert re.search(r"max-model-len: 2048 +# too long\n", text)
    assert "dtype: bfloat16\n" in text
    assert "# a misspelt one" in text
    assert "name: mine # ours" in text
    again = lab.json("flags", str(path), "--deep")
    assert [one for one in again["findings"] if one["severity"] != "note"] == []
    assert again["command"][-2:] == ["--tensor-parallel-size", "1"]


@pytest.mark.lab
def test_flags_are_listed_and_kept_for_later(lab: Cli, lab_environment: Environment, lab_model: Path) -> None:
    path = lab.profile(lab_environment.folder, str(lab_model), FLAGS)
    listed = lab.json("flags", str(path), "--list", "executor")
    assert listed["source"] == "runtime"
    (backend,) = [one for one in listed["flags"] if one["flag"] == "distributed-executor-backend"]
    assert "ray" in backend["suggestions"]
    assert backend["help"]
    text = lab.run("flags", str(path), "--list", "max-model-len").stdout
    assert text.startswith("--max-model-len\nsize-or-auto")


@pytest.mark.lab
def test_up_refuses_and_a_forced_launch_says_so_in_its_record(
    lab: Cli, lab_environment: Environment, lab_model: Path
) -> None:
    path = lab.profile(lab_environment.folder, str(lab_model), f"    max-model-len: 99999\n    port: {PORT}\n")
    refused = lab.run("up", str(path), "--through", "launch")
    assert refused.returncode == 4
    assert "greater than the derived max_model_len" in refused.stdout + refused.stderr
    assert not (lab.state / "runs" / "current").exists()
    helped = lab.run("flags", str(path), "--deep")
    assert helped.returncode == 4
    assert (lab.state / "flags" / "socket").exists()
    forced = lab.run("up", str(path), "--through", "launch", "--force")
    assert forced.returncode == 0, forced.stdout + forced.stderr
    record = json.loads((lab.state / "runs" / "current" / "record.json").read_text())
    assert "greater than the derived max_model_len" in record["forced"]
    assert not (lab.state / "flags" / "socket").exists()


def test_without_its_host_a_profile_is_judged_by_shipped_flags(cli: Cli) -> None:
    hosts = "  - {name: far, address: 127.0.0.1, port: 9, role: head}"
    path = cli.profile(Path("/opt/vllm"), "/models/x", "    dtpye: auto\n    seed: abc\n", hosts)
    found = cli.run("flags", str(path), "--json")
    told = json.loads(found.stdout)
    assert (found.returncode, told["source"]) == (3, "shipped")
    assert [(one["flag"], one["severity"]) for one in told["findings"]] == [
        ("dtpye", "warning"),
        ("seed", "warning"),
    ]
    assert told["asked"] is False
    assert told["reason"].startswith("far: 127.0.0.1 cannot be reached: ")
    assert found.stderr == ""
    listed = cli.run("flags", str(path), "--list")
    assert listed.returncode == 0
    assert "--tensor-parallel-size" in listed.stdout
    assert "flags that the cockpit brings along)\nThe runtime was not asked. far: 127.0.0.1" in listed.stdout
    assert cli.json("flags", str(path), "--list", "seed")["asked"] is False
    nothing = cli.run("flags", str(path), "--list", "tensr-paralel-size").stdout
    assert nothing.startswith("No flag has tensr-paralel-size in its name")
    assert "Did you mean tensor-parallel-size?" in nothing


def test_without_its_host_the_answer_itself_says_that_it_is_no_verdict(cli: Cli) -> None:
    hosts = "  - {name: far, address: 127.0.0.1, port: 9, role: head}"
    path = cli.profile(Path("/opt/vllm"), "/models/x", "    seed: 1\n", hosts)
    before = path.read_bytes()
    found = cli.run("flags", str(path), "--fix")
    lines = found.stdout.splitlines()
    assert (found.returncode, found.stderr) == (3, "")
    assert lines[0].startswith(
        "The runtime was not asked, so this is no verdict. far: 127.0.0.1 cannot be reached"
    )
    assert "`ssh -p 9 127.0.0.1`" in lines[1]
    assert re.fullmatch(
        r"By vLLM 0\.\d+\.\d+ \(flags that the cockpit brings along\): nothing found\.", lines[2]
    )
    assert lines[3].startswith("Not checked: ")
    assert lines[4] == "--fix changed nothing: it goes by the runtime's own verdict."
    assert path.read_bytes() == before
    answer = json.loads(cli.run("flags", str(path), "--fix", "--json").stdout)
    assert (answer["schema"], answer["asked"], answer["applied"]) == (1, False, [])


def test_a_runtime_that_cannot_be_asked_is_told_in_the_answer(cli: Cli) -> None:
    """The host answers, and has no environment where the profile says."""
    path = cli.profile(cli.folder / "none", "/models/x", "    seed: 1\n")
    found = cli.run("flags", str(path), "--json")
    told = json.loads(found.stdout)
    assert (found.returncode, told["asked"], told["source"]) == (3, False, "shipped")
    assert f"no virtual environment at {cli.folder / 'none'}" in told["reason"]


def test_the_missing_backend_is_told_without_any_host(cli: Cli) -> None:
    hosts = (
        "  - {name: far-1, address: 127.0.0.1, port: 9, role: head, fabric: {address: 10.0.0.1}}\n"
        "  - {name: far-2, address: 127.0.0.1, port: 11, role: worker, fabric: {address: 10.0.0.2}}"
    )
    path = cli.profile(Path("/opt/vllm"), "/models/x", "    tensor-parallel-size: 2\n", hosts)
    told = cli.json("flags", str(path))
    (error,) = [one for one in told["findings"] if one["severity"] == "error"]
    assert error["flag"] == "distributed-executor-backend"
    assert error["fix"][0]["change"] == {"set": {"serve.flags.distributed-executor-backend": "ray"}}


ASKING = """
import asyncio
from cockpit.cli.asking import asking
async def main():
    async with asking("Asking vLLM on spark-1 ..."):
        await asyncio.sleep(1.2)
asyncio.run(main())
print("the answer")
"""


def test_on_a_terminal_a_line_moves_while_it_asks() -> None:
    """It counts the seconds, and is gone when the answer comes."""
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, "-c", ASKING], stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        answer, _ = running.communicate(timeout=60)
    written = os.read(ours, 65536).decode()
    os.close(ours)
    assert answer == b"the answer\n"
    assert "Asking vLLM on spark-1 ... 0 s" in written
    assert "Asking vLLM on spark-1 ... 1 s" in written
    assert "\n" not in written
    assert written.endswith("\r\x1b[K")
