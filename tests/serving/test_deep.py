"""The helper that stays loaded with the real vLLM, and vLLM's messages explained."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.profile import DockerRuntime, FlagValue, Profile, ServeSpec
from cockpit.runtime.detached import ProcessState, parse_state
from cockpit.runtime.docker import DockerEnvironment
from cockpit.runtime.environment import environment
from cockpit.serving.deep import (
    helper_state_command,
    helper_stop_command,
    identity_command,
    judge_command,
    judge_source,
    model_command,
    once_command,
    parse_identity,
    question,
)
from cockpit.serving.deep_explain import explained
from cockpit.serving.memory_fit import parse_model_facts
from cockpit.serving.parser_check import Verdicts, read_verdicts, serve_pieces
from cockpit.serving.schema import schema_of_answer
from cockpit.serving.schema_shipped import shipped

from . import harvest_versions
from .conftest import ENV, Local, local_profile
from .profiles import profile as two

DATA = Path(__file__).parent.parent / "data" / "flags"


def test_a_throw_away_container_has_the_environment_of_a_launch() -> None:
    """What is set for the serve decides too: a longer length may be allowed by a variable."""
    declared = replace(two({"max-model-len": 4096}), runtime=DockerRuntime("vllm-node:latest"))
    runtime = environment(declared)
    assert isinstance(runtime, DockerEnvironment)
    env = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    command = once_command(declared, runtime, question(deep=True), env, secrets=("HF_TOKEN",))
    assert command.stdin is not None
    assert "export VLLM_ALLOW_LONG_MAX_MODEL_LEN=1\n" in command.stdin
    assert "export HF_TOKEN\n" in command.stdin
    assert "--gpus all" in command.stdin
    assert command.secrets == ("HF_TOKEN",)


def explained_cases() -> list[tuple[str, dict[str, FlagValue], str, object]]:
    """A message, the profile's flags, the flag that is blamed, and the change."""
    return [
        (
            "World size (2) is larger than the number of available GPUs (1) in this node. If this is",
            {"tensor-parallel-size": 2},
            "distributed-executor-backend",
            {"set": {"serve.flags.distributed-executor-backend": "ray"}},
        ),
        (
            "Tensor parallel size (2) cannot be larger than the number of available GPUs (1).",
            {"tp": 2},
            "distributed-executor-backend",
            {"set": {"serve.flags.distributed-executor-backend": "ray"}},
        ),
        (
            "nnodes > 1 can only be set when distributed executor backend is mp, uni or external_launcher.",
            {"nnodes": 2, "node_rank": 0},
            "nnodes",
            {"unset": ["serve.flags.nnodes", "serve.flags.node_rank"]},
        ),
        ("Failed to import Ray: No module named 'ray'.", {}, "distributed-executor-backend", None),
        (
            "max_num_batched_tokens (256) is smaller than max_model_len (512). This effectively limits",
            {"max_num_batched_tokens": 256},
            "max-num-batched-tokens",
            {"set": {"serve.flags.max_num_batched_tokens": 512}},
        ),
    ]


@pytest.mark.parametrize(("message", "flags", "flag", "change"), explained_cases())
def test_common_messages_are_explained(
    message: str, flags: dict[str, FlagValue], flag: str, change: object
) -> None:
    found = explained(message, flags)
    assert found is not None
    assert found.flag == flag
    assert [fix.change for fix in found.fix] == [change]
    assert "{" not in found.why


def test_what_is_not_common_is_not_explained() -> None:
    assert explained("something new went wrong", {}) is None


def test_most_recorded_refusals_of_the_configuration_are_explained() -> None:
    """Those of argparse explain themselves; of the others seven in ten at least have our words."""
    verdicts = json.loads((DATA / "verdicts.json").read_text())["verdicts"]
    told = [one["words"] for one in verdicts.values() if not one["taken"] and "error: " not in one["words"]]
    assert len([words for words in told if explained(words, {})]) >= 0.7 * len(told)


@pytest.fixture(scope="module")
def helper(venv: Path, model: Path, state: Path) -> Iterator[Local]:
    """A helper that stays loaded for the module; it is ended in the end."""
    local = Local(
        local_profile(venv, ServeSpec(str(model), "tiny", {"max-model-len": 512, "port": 26211})), state
    )
    yield local
    local.run(helper_stop_command(local.profile, environment(local.profile)), check=False)


def ask(
    local: Local, flags: dict[str, FlagValue], *, env: dict[str, str] | None = None, **more: Any
) -> Verdicts:
    """The helper's answer to the profile with ``flags``."""
    one = with_flags(local.profile, flags)
    asked = question(serve_pieces(one), deep=True, schema=more.pop("schema", False))
    completed = local.run(
        judge_command(one, environment(one), asked, env or ENV, **{"keep": True, **more}), check=False
    )
    return read_verdicts(completed.stdout, completed.stderr)


def with_flags(profile: Profile, flags: dict[str, FlagValue]) -> Profile:
    """The profile with other flags."""
    return local_profile(Path(profile.runtime.venv), ServeSpec(profile.serve.model, "tiny", flags))  # type: ignore[union-attr]


def pid_of(local: Local) -> int | None:
    """The helper's process, None where none runs."""
    found = parse_state(local.run(helper_state_command(local.profile, environment(local.profile))).text)
    return found.pid if found.state is ProcessState.RUNNING else None


@pytest.mark.lab
def test_it_stays_loaded_and_judges_each_change(helper: Local) -> None:
    began = time.monotonic()
    first = ask(helper, {"max-model-len": 512, "port": 26211}, schema=True)
    print(f"first deep check: {time.monotonic() - began:.2f} s")
    assert first.messages == (("", ""),)
    assert {flag.name for flag in schema_of_answer(first.answer).flags} == {
        flag.name for flag in shipped("0.32.0").flags
    }
    loaded = pid_of(helper)
    seconds = []
    for flags, stage in (
        ({"max-model-len": 99999}, "config"),
        ({"gpu-memory-utilization": 1.5}, "config"),
        ({"dtype": "float17", "max-model-len": 99999}, "parse"),
        ({"max-model-len": "1k"}, ""),
        ({"enable-auto-tool-choice": True, "tool-call-parser": "nosuch"}, "server"),
    ):
        began = time.monotonic()
        found = ask(helper, {**flags, "port": 26211})
        seconds.append(round(time.monotonic() - began, 2))
        assert found.verdicts[0].stage == stage
    assert found.answer["seconds"]["import"] == first.answer["seconds"]["import"]
    assert pid_of(helper) == loaded
    print(f"warm deep checks: {seconds} s")


@pytest.mark.lab
def test_what_the_parser_refuses_does_not_hide_the_rest(helper: Local) -> None:
    found = ask(helper, {"dtype": "float17", "no-such": 1, "max-model-len": 99999, "port": 26211})
    assert [bool(message) for message in found.alone] == [True, True, False, False]
    assert found.rest is not None
    assert found.rest.stage == "config"
    assert "max_model_len (99999)" in found.rest.message


@pytest.mark.lab
def test_a_port_in_use_is_told(helper: Local) -> None:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        found = ask(helper, {"host": "127.0.0.1", "port": sock.getsockname()[1]})
    assert found.messages == (("", ""),)
    assert "in use" in found.verdicts[0].bind


@pytest.mark.lab
def test_another_environment_gets_a_helper_of_its_own(helper: Local) -> None:
    ask(helper, {"port": 26211})
    before = pid_of(helper)
    found = ask(
        helper, {"max-model-len": 99999, "port": 26211}, env={**ENV, "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    )
    assert found.messages == (("", ""),)
    assert pid_of(helper) not in (before, None)
    assert before is not None
    assert not Path(f"/proc/{before}").exists()


@pytest.mark.lab
def test_it_is_gone_with_its_memory_when_it_is_ended(helper: Local) -> None:
    ask(helper, {"port": 26211})
    pid = pid_of(helper)
    assert pid is not None
    assert resident(pid) > 300 << 20
    helper.run(helper_stop_command(helper.profile, environment(helper.profile)))
    assert pid_of(helper) is None
    assert not Path(f"/proc/{pid}").exists()
    assert not (helper.state / "flags" / "socket").exists()
    again = helper.run(helper_stop_command(helper.profile, environment(helper.profile)))
    assert again.text.strip() in ("nothing of it runs", "no helper runs")


@pytest.mark.lab
def test_without_keep_nothing_stays(helper: Local) -> None:
    assert ask(helper, {"max-model-len": 99999, "port": 26211}, keep=False).verdicts[0].stage == "config"
    assert pid_of(helper) is None


@pytest.mark.lab
def test_it_ends_by_itself_when_nobody_asks(helper: Local) -> None:
    ask(helper, {"port": 26211}, idle=1)
    end = time.monotonic() + 120
    while pid_of(helper) is not None:
        assert time.monotonic() < end, "the helper still runs"
        time.sleep(0.2)


@pytest.mark.lab
def test_the_identity_and_the_model(helper: Local) -> None:
    runtime = environment(helper.profile)
    digest = parse_identity(helper.run(identity_command(helper.profile, runtime)).stdout)
    assert len(digest) == 32
    facts = parse_model_facts(helper.run(model_command(helper.profile, runtime, ENV)).stdout)
    index = json.loads((Path(helper.profile.serve.model) / "model.safetensors.index.json").read_text())
    assert facts.total() == index["metadata"]["total_size"]
    assert facts.unread == ()


@pytest.mark.full
@pytest.mark.lab
@pytest.mark.parametrize("version", ["0.28.0", "0.31.0"])
def test_older_lines_are_judged_too(version: str, venv: Path, model: Path) -> None:
    """By the version's own configuration, from its unpacked wheel."""
    head = ["vllm", "serve", str(model)]
    wrong = (["--dtype", "float17"], ["--max-model-len", "99999"], ["--gpu-memory-utilization", "1.5"])
    asked = question(lines=[head, *([*head, *flags] for flags in wrong)], deep=True)
    folder = harvest_versions.default_folder()
    output = harvest_versions.ask(version, folder, venv / "bin" / "python", judge_source(), json.dumps(asked))
    found = read_verdicts(output.encode())
    assert found.version.startswith(version)
    assert [one.stage for one in found.verdicts] == ["", "parse", "config", "config"]


def resident(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
