"""The launch script where there is no vLLM to start: the record, the exit status, and the plan's text."""

from __future__ import annotations

import venv as maker
from pathlib import Path

import pytest

from cockpit.model.command import SecretMissingError
from cockpit.model.profile import ServeSpec
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.environment import environment
from cockpit.serving import launch

from .conftest import Local, ended, local_profile
from .profiles import profile


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, state: Path) -> Local:
    """A virtual environment without vLLM."""
    folder = tmp_path_factory.mktemp("bare") / "env"
    maker.create(folder)
    return Local(local_profile(folder, ServeSpec("/models/it's one", "odd")), state)


def test_before_the_first_run_there_is_none(bare: Local) -> None:
    command = launch.run_state_command(bare.profile, environment(bare.profile))
    assert launch.parse_run_state(bare.run(command).stdout) is None


def test_each_launch_is_a_run_with_its_own_folder(bare: Local) -> None:
    command = launch.launch_command(bare.profile, environment(bare.profile), {"A": "b 'c' $(d)"})
    runs = []
    for _ in range(2):
        launched = launch.parse_launched(bare.run(command).stdout)
        assert launched.started
        run = ended(bare)
        # vLLM is not there: the shell's own status for that.
        assert (run.id, run.process.state, run.process.status) == (launched.run, ProcessState.ENDED, 127)
        assert run.record["argv"] == ["vllm", "serve", "/models/it's one", "--served-model-name", "odd"]
        assert run.record["environment"] == {"A": "b 'c' $(d)"}
        assert run.log_size == bare.log.stat().st_size > 0
        runs.append(run)
    assert runs[0].id != runs[1].id
    text = environment(bare.profile).script(bare.profile.head, launch.runs_text(), "list the runs")
    past = launch.parse_runs(bare.run(text).stdout)
    assert {(item.id, item.status) for item in past} == {(run.id, 127) for run in runs}
    assert all(item.started_at.endswith("Z") for item in past)


def test_the_plan_is_what_runs_and_holds_no_secret() -> None:
    one = profile(serve=ServeSpec("m", secrets=("HF_TOKEN",)))
    command = launch.launch_command(one, environment(one), launch.ray_environment(one))
    again = launch.launch_command(one, environment(one), launch.ray_environment(one))
    assert command == again
    assert command.secrets == ("HF_TOKEN",)
    assert "${HF_TOKEN}" in command.stdin
    assert b"hf_abc" in command.stdin_bytes({"HF_TOKEN": "hf_abc"})
    with pytest.raises(SecretMissingError):
        command.stdin_bytes({})


def test_what_every_launch_over_ray_needs() -> None:
    assert launch.ray_environment(profile()) == {
        "RAY_ADDRESS": "192.168.100.10:6379",
        "RAY_DEDUP_LOGS": "0",
        "RAY_COLOR_PREFIX": "0",
        "VLLM_HOST_IP": "192.168.100.10",
    }


def test_answers_that_are_none() -> None:
    with pytest.raises(ValueError, match="not the answer of a launch"):
        launch.parse_launched(b"motd\n")
    with pytest.raises(ValueError, match="not the state of a run"):
        launch.parse_run_state(b"motd\n")
    assert launch.parse_runs(b"motd of the day is long\n") == ()
