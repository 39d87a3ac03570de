"""A run of the real vLLM, from launch to stop, and what its API answers in between."""

from __future__ import annotations

import asyncio
import fcntl
import json
from contextlib import aclosing
from dataclasses import replace

import pytest

from cockpit.model.profile import PromptSpec
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.environment import environment
from cockpit.serving import api, launch, stop
from cockpit.serving.load import LoadKind, LoadWatch, judge
from cockpit.serving.metrics import rates
from cockpit.serving.prompt import Piece, PromptError, PromptResult, stream_prompt

from .conftest import ENV, PORT, Serving

pytestmark = pytest.mark.lab


async def answer(serving: Serving, spec: PromptSpec) -> tuple[list[Piece], PromptResult]:
    """All pieces of an answer, and the result."""
    pieces, results = list[Piece](), list[PromptResult]()
    async for item in stream_prompt(serving.url, "tiny", spec):
        if isinstance(item, PromptResult):
            results.append(item)
        else:
            pieces.append(item)
    (result,) = results
    return pieces, result


def test_the_record_tells_what_was_started(serving: Serving) -> None:
    folder = serving.state / "runs" / serving.launched.run
    record = json.loads((folder / "record.json").read_text())
    assert record["id"] == serving.launched.run
    assert record["argv"][:3] == ["vllm", "serve", serving.profile.serve.model]
    assert record["environment"] == ENV
    assert record["secrets"] == ["HF_TOKEN"]
    assert serving.launched.started
    assert folder.samefile(serving.state / "runs" / "current")


def test_the_secret_reached_vllm_and_stands_in_no_file(serving: Serving) -> None:
    folder = serving.state / "runs" / serving.launched.run
    assert not (folder / "secrets").exists()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert all(b"hf_'" not in path.read_bytes() for path in files)
    program = (folder / "program").read_text().split()[0]
    with open(f"/proc/{program}/environ", "rb") as environ:  # noqa: PTH123
        assert b"HF_TOKEN=hf_'$(x)\"secret\0" in environ.read()


def test_a_second_launch_finds_the_first(serving: Serving) -> None:
    command = launch.launch_command(serving.profile, environment(serving.profile), ENV)
    again = launch.parse_launched(serving.run(command).stdout)
    assert again == launch.Launched(serving.launched.run, started=False)
    assert len(list((serving.state / "runs").glob("2*"))) == 1


def test_the_launch_holds_no_lock(serving: Serving) -> None:
    with (serving.state / "runs" / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.fail("somebody still holds the lock of the runs")


def test_the_run_is_seen_running_with_its_log(serving: Serving) -> None:
    command = launch.run_state_command(serving.profile, environment(serving.profile))
    run = launch.parse_run_state(serving.run(command).stdout)
    assert run is not None
    assert (run.id, run.process.state) == (serving.launched.run, ProcessState.RUNNING)
    assert run.log_size == serving.log.stat().st_size
    assert run.record["schema"] == 1


def test_the_load_was_ready(serving: Serving) -> None:
    watch = LoadWatch(0)
    steps = watch.feed(serving.log.read_bytes(), serving.seconds)
    command = launch.run_state_command(serving.profile, environment(serving.profile))
    run = launch.parse_run_state(serving.run(command).stdout)
    assert run is not None
    verdict = judge(watch.state, run.process, serving.seconds, ready_within=600)
    assert verdict.kind is LoadKind.READY_LINE
    assert (0, 4, 4) in [(step.rank, step.done, step.total) for step in steps if step.unit == "shards"]


async def test_health_and_models(serving: Serving) -> None:
    assert await api.health(serving.url) == 200
    assert await api.models(serving.url) == (api.Model("tiny", 512),)
    assert await api.health(f"http://127.0.0.1:{PORT + 1}") is None


async def test_a_prompt_is_answered_in_pieces(serving: Serving) -> None:
    before = await api.metrics(serving.url)
    pieces, result = await answer(serving, PromptSpec("Hello", max_tokens=24))
    after = await api.metrics(serving.url)
    assert "".join(piece.text for piece in pieces) == result.text
    assert len(pieces) > 1
    assert (result.model, result.finish_reason) == ("tiny", "length")
    assert result.usage["completion_tokens"] == 24
    assert result.ttft is not None and result.ttft > 0
    assert result.tokens_per_second is not None and result.tokens_per_second > 0
    assert set(result.to_json()) == {
        *("text", "reasoning", "model", "ttft", "tokens_per_second", "usage", "finish_reason")
    }
    between = rates(before, after, 1.0)
    assert between is not None
    assert between.generation == 24


async def test_the_api_speaks_for_itself(serving: Serving) -> None:
    with pytest.raises(PromptError, match="The model `nope` does not exist") as wrong_model:
        async for _ in stream_prompt(serving.url, "nope", PromptSpec("x")):
            pass
    assert (wrong_model.value.status, wrong_model.value.kind) == (404, "NotFoundError")
    with pytest.raises(PromptError, match="max_tokens=999999 cannot be greater than max_model_len=512"):
        await answer(serving, PromptSpec("x", max_tokens=999999))


async def test_closing_ends_the_request(serving: Serving) -> None:
    async with aclosing(stream_prompt(serving.url, "tiny", PromptSpec("Hello", max_tokens=500))) as stream:
        first = await anext(stream)
    assert isinstance(first, Piece)
    for _ in range(300):
        if (await api.metrics(serving.url)).running == 0:
            break
        await asyncio.sleep(0.1)
    else:
        pytest.fail("the request still runs")


async def test_a_limit_holds(serving: Serving) -> None:
    with pytest.raises(PromptError, match=r"not complete after 0\.01 seconds"):
        async for _ in stream_prompt(serving.url, "tiny", PromptSpec("Hello", max_tokens=500), limit=0.01):
            pass


def test_stop_leaves_nothing(serving: Serving) -> None:
    """The last test: it ends the run."""
    profile, runtime = serving.profile, environment(serving.profile)
    serving.run(stop.note_command(profile, runtime, profile.head))
    before = stop.parse_leftovers(
        serving.run(replace(stop.verify_command(profile, runtime, profile.head, [PORT]), limit=60)).stdout
    )
    assert before.ports == (PORT,)
    assert any("VLLM::EngineCore" in process for process in before.processes)
    assert not before.clean
    assert f"port {PORT} in use" in before.words()
    stopped = serving.run(stop.stop_command(profile, runtime))
    assert b"SIGINT ended its" in stopped.stdout
    left = stop.parse_leftovers(serving.run(stop.verify_command(profile, runtime, profile.head, [PORT])).stdout)
    assert (left.gpu, left.processes, left.ports, left.shm) == ((), (), (), ())
    assert left.clean
    run = launch.parse_run_state(serving.run(launch.run_state_command(profile, runtime)).stdout)
    assert run is not None
    assert (run.process.state, run.process.status) == (ProcessState.ENDED, 0)
    past = launch.parse_runs(serving.run(runtime.script(profile.head, launch.runs_text(), "list runs")).stdout)
    assert [(item.id, item.status) for item in past] == [(serving.launched.run, 0)]
