"""A real vLLM where there is one, and one real serve that a module's tests share."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cockpit.hosts.local import LocalHost
from cockpit.model.command import Command, Completed
from cockpit.model.profile import HostSpec, NativeRuntime, Profile, Role, ServeSpec
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.environment import environment
from cockpit.serving import launch, stop
from tests.rig.environment import default_environment

ROOT = Path(__file__).parent.parent.parent
PORT = 26011
ENV = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


@pytest.fixture(scope="session")
def venv() -> Path:
    """The environment with vLLM."""
    found = default_environment()
    if found is None:
        pytest.skip("no environment with vLLM: `spark-cockpit lab up` makes one")
    return found.venv


@pytest.fixture(scope="session")
def model(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab's tiny model."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    script = ROOT / "cockpit" / "lab" / "tiny_model.py"
    subprocess.run([venv / "bin" / "python", script, folder], check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder of the module's own."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder / "spark-cockpit" / "one"


@dataclass(frozen=True, slots=True)
class Local:
    """A profile whose one host is this machine, and the way to run its commands."""

    profile: Profile
    state: Path

    @property
    def log(self) -> Path:
        """The serve log of the last run."""
        return self.state / "runs" / "current" / "serve.log"

    def run(self, command: Command, *, check: bool = True) -> Completed:
        """Run one command, as the cockpit does."""

        async def once() -> Completed:
            host = LocalHost(self.profile.head, secrets={"HF_TOKEN": "hf_'$(x)\"secret"})
            await host.connect()
            try:
                return await host.run(command, check=check)
            finally:
                await host.close()

        return asyncio.run(once())


def local_profile(venv: Path, serve: ServeSpec) -> Profile:
    """The profile ``one``."""
    head = HostSpec("here", "local", Role.HEAD)
    return Profile("one", (head,), NativeRuntime(str(venv)), serve, file="one.yaml", digest="0" * 64)


@dataclass(frozen=True, slots=True)
class Serving(Local):
    """A serve that is ready; ``url`` is its API's."""

    url: str
    launched: launch.Launched
    seconds: float


@pytest.fixture(scope="module")
def serving(venv: Path, model: Path, state: Path) -> Iterator[Serving]:
    """vLLM with the tiny model, launched as the cockpit launches it, and stopped so."""
    flags = {"port": PORT, "host": "127.0.0.1", "max-model-len": 512, "max-num-seqs": 4, "enforce-eager": True}
    profile = local_profile(venv, ServeSpec(str(model), "tiny", flags, secrets=("HF_TOKEN",)))
    runtime = environment(profile)
    local = Local(profile, state)
    began = time.monotonic()
    launched = launch.parse_launched(local.run(launch.launch_command(profile, runtime, ENV)).stdout)
    try:
        wait_for_line(local.log, b"Application startup complete.")
        yield Serving(profile, state, f"http://127.0.0.1:{PORT}", launched, time.monotonic() - began)
    finally:
        local.run(stop.stop_command(profile, runtime), check=False)


def wait_for_line(log: Path, line: bytes, seconds: float = 240) -> None:
    """Wait until the log holds ``line``; fails with the log's end."""
    end = time.monotonic() + seconds
    while not (log.exists() and line in log.read_bytes()):
        if time.monotonic() > end or (log.parent / "exit-status").exists():
            pytest.fail(log.read_text(errors="replace")[-3000:] if log.exists() else f"no {log}")
        time.sleep(0.2)


def ended(local: Local, seconds: float = 60) -> launch.Run:
    """The last run, once it has ended."""
    command = launch.run_state_command(local.profile, environment(local.profile))
    end = time.monotonic() + seconds
    while True:
        run = launch.parse_run_state(local.run(command).stdout)
        assert run is not None
        if run.process.state is not ProcessState.RUNNING or time.monotonic() > end:
            return run
        time.sleep(0.1)
