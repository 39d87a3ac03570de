"""A serve whose engine is killed while it answers; its model has no chat template."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from cockpit.model.profile import PromptSpec, ServeSpec
from cockpit.runtime.environment import environment
from cockpit.serving import api, launch, stop
from cockpit.serving.load import LoadKind, LoadWatch, judge
from cockpit.serving.prompt import Piece, PromptError, PromptResult, stream_prompt

from .conftest import ENV, PORT, Local, ended, local_profile, wait_for_line

pytestmark = [pytest.mark.lab, pytest.mark.full]


def engine_pid(local: Local) -> int:
    """The engine's process, by its title and the run's session."""
    leader = (local.state / "runs" / "current" / "pid").read_text().split()[0]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes()
            session = (folder / "stat").read_text().rpartition(") ")[2].split()[3]
        except OSError:
            continue
        if title.startswith(b"VLLM::EngineCore") and session == leader:
            return int(folder.name)
    raise AssertionError("no engine")


async def prompts(url: str, local: Local) -> None:
    items = [item async for item in stream_prompt(url, "plain", PromptSpec("Hello", max_tokens=8))]
    assert isinstance(items[-1], PromptResult)
    assert items[-1].usage["completion_tokens"] == 8
    came = 0
    with pytest.raises(PromptError) as raised:
        async for item in stream_prompt(url, "plain", PromptSpec("Hello", max_tokens=500)):
            assert isinstance(item, Piece)
            came += 1
            if came == 2:
                os.kill(engine_pid(local), signal.SIGKILL)
    assert raised.value.message
    assert raised.value.text


def test_the_engine_is_killed_mid_answer(venv: Path, model: Path, state: Path, tmp_path: Path) -> None:
    import asyncio

    plain = tmp_path / "plain"
    shutil.copytree(model, plain)
    (plain / "chat_template.jinja").unlink()
    port = PORT + 2
    flags = {"port": port, "host": "127.0.0.1", "max-model-len": 1024, "max-num-seqs": 4, "enforce-eager": True}
    profile = local_profile(venv, ServeSpec(str(plain), "plain", flags))
    runtime, local = environment(profile), Local(profile, state)
    local.run(launch.launch_command(profile, runtime, ENV))
    try:
        wait_for_line(local.log, b"Application startup complete.")
        asyncio.run(prompts(f"http://127.0.0.1:{port}", local))
        run = ended(local)
        watch = LoadWatch(0)
        watch.feed(local.log.read_bytes(), 0)
        # The exit status of a serve whose engine died is no proof of an orderly end.
        verdict = judge(watch.state, run.process, 0, ready_within=600)
        assert (verdict.kind, verdict.status) == (LoadKind.DEAD, 0)
        assert asyncio.run(api.health(f"http://127.0.0.1:{port}")) is None
    finally:
        local.run(stop.stop_command(profile, runtime), check=False)
    left = stop.parse_leftovers(local.run(stop.verify_command(profile, runtime, profile.head, [port])).stdout)
    assert left.processes == ()
    assert left.ports == ()
