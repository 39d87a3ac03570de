"""What vLLM's own parser says, asked in the real environment, and how its words become problems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.model.profile import FlagValue, Place, Profile, ServeSpec
from cockpit.runtime.environment import environment
from cockpit.serving.arguments import serve_argv
from cockpit.serving.deep import judge_command, once_text, question
from cockpit.serving.parser_check import (
    MARKER,
    NoVerdictError,
    clean_message,
    parse_verdict,
    read_verdicts,
    serve_pieces,
    verdict_problems,
)

from .conftest import ENV, Local, local_profile
from .profiles import profile

NAMES = ["--tensor-parallel-size", "-tp", "--dtype", "--max-model-len", "--enable-auto-tool-choice"]


def output(stage: str, message: str) -> bytes:
    """What the script prints, after vLLM's own log."""
    verdicts = [{"stage": stage, "message": message, "type": "ValueError"}]
    answer = {"version": "0.32.0", "names": NAMES, "verdicts": verdicts, "seconds": 7.1}
    return b"INFO 11-30 20:00:00 [a.py:1] vLLM's log\n" + MARKER + json.dumps(answer).encode() + b"\n"


def test_a_command_line_that_vllm_takes_has_no_problems() -> None:
    assert parse_verdict(output("", ""), profile({"dtype": "auto"})) == ()


def test_an_unknown_flag_has_its_place_and_the_nearest_name() -> None:
    flags: dict[str, FlagValue] = {"dtype": "auto", "tensor-paralel-size": 2}
    message = "unrecognized arguments: --tensor-paralel-size 2"
    (problem,) = parse_verdict(output("parse", message), profile(flags))
    assert (problem.flag, problem.place) == ("tensor-paralel-size", Place("two.yaml", 22, 5))
    assert "The nearest it knows is --tensor-parallel-size" in problem.message
    assert problem.fix[0].change == {
        "set": {"serve.flags.tensor-parallel-size": 2},
        "unset": ["serve.flags.tensor-paralel-size"],
    }


def test_several_unknown_flags_and_one_far_from_all() -> None:
    flags: dict[str, FlagValue] = {"swap-space": 16, "dtyp": "auto", "no_such_thing": False}
    message = "unrecognized arguments: --swap-space 16 --dtyp auto --no-no-such-thing"
    problems = parse_verdict(output("parse", message), profile(flags))
    assert [problem.flag for problem in problems] == ["swap-space", "dtyp", "no_such_thing"]
    assert problems[0].fix[0].change == {"unset": ["serve.flags.swap-space"]}
    assert [problem.place.line for problem in problems if problem.place] == [21, 22, 23]


def test_a_wrong_choice_gets_the_nearest() -> None:
    message = "argument --dtype: invalid choice: 'float17' (choose from 'auto', 'bfloat16', 'float16')"
    (problem,) = parse_verdict(output("parse", message), profile({"tp": 2, "dtype": "float17"}))
    assert (problem.flag, problem.place) == ("dtype", Place("two.yaml", 22, 5))
    assert problem.fix[0].change == {"set": {"serve.flags.dtype": "float16"}}


def test_a_short_name_is_found() -> None:
    message = "argument --tensor-parallel-size/-tp: invalid int value: 'two'"
    (problem,) = parse_verdict(output("parse", message), profile({"dtype": "auto", "tp": "two"}))
    assert (problem.flag, problem.place) == ("tensor-parallel-size", Place("two.yaml", 22, 5))


def test_pydantics_frame_is_taken_off() -> None:
    message = (
        "1 validation error for ModelConfig\n"
        "  Value error, User-specified max_model_len (99999) is greater than the derived max_model_len "
        "[type=value_error, input_value=ArgsKwargs((), {'model': ...}), input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2.12/v/value_error"
    )
    (problem,) = parse_verdict(output("config", message), profile({"max-model-len": 99999}))
    assert problem.message == "User-specified max_model_len (99999) is greater than the derived max_model_len"
    assert problem.flag == "max-model-len"
    assert clean_message("plain words") == "plain words"


def test_every_flag_that_the_parser_refuses_is_told_and_the_rest_judged() -> None:
    flags: dict[str, FlagValue] = {"dtype": "float17", "no-such-thing": 1, "port": 80, "max-model-len": 9000}
    answer = {
        "version": "0.32.0",
        "names": NAMES,
        "verdicts": [{"stage": "parse", "message": "argument --dtype: invalid choice"}],
        "alone": [
            "argument --dtype: invalid choice: 'float17' (choose from 'auto', 'float16')",
            "unrecognized arguments: --no-such-thing 1",
            "",
            "",
        ],
        "rest": {
            "stage": "config",
            "message": "User-specified max_model_len (9000) is greater than the derived "
            "max_model_len (max_position_embeddings=2048.0 or ...)",
        },
    }
    verdicts = read_verdicts(MARKER + json.dumps(answer).encode())
    problems = verdict_problems(verdicts, profile(flags))
    assert [(one.flag, one.place.line) for one in problems if one.place] == [
        ("dtype", 21),
        ("no-such-thing", 22),
        ("max-model-len", 24),
    ]
    assert problems[2].fix[0].change == {"set": {"serve.flags.max-model-len": 2048}}
    assert problems[2].why.startswith("The model was made for 2048 tokens")


def test_a_line_in_pieces_is_the_line() -> None:
    one = profile({"tp": 2, "served-model-name": ["a", "b"], "enforce-eager": True})
    assert tuple(word for piece in serve_pieces(one) for word in piece) == serve_argv(one)
    assert serve_pieces(one)[1:] == (("-tp", "2"), ("--served-model-name", "a", "b"), ("--enforce-eager",))


@pytest.mark.parametrize("output", [MARKER + b"{", MARKER + b"[]", MARKER + b'{"version": 1}'])
def test_an_answer_that_is_none(output: bytes) -> None:
    with pytest.raises(NoVerdictError, match="can't be read"):
        read_verdicts(output)


def test_no_answer_says_why() -> None:
    with pytest.raises(NoVerdictError, match="No module named 'vllm'"):
        parse_verdict(b"", profile(), b"Traceback\nModuleNotFoundError: No module named 'vllm'\n")


CASES: list[tuple[dict[str, FlagValue], str, str]] = [
    ({"max-model-len": 512, "enforce-eager": True}, "", ""),
    ({"max_model_len": "1k", "tp": 2, "distributed_executor_backend": "ray"}, "", ""),
    ({"compilation-config.mode": 3, "O": 1, "no-enable-prefix-caching": True}, "", ""),
    ({"compilation-config": {"mode": 0}, "enable_prefix_caching": False, "max-model-len": -1}, "", ""),
    ({"served-model-name": ["a", "b"], "kv-cache-dtype": "auto", "gpu-memory-utilization": 0.5}, "", ""),
    ({"tensor-paralel-size": 2}, "parse", "unrecognized arguments: --tensor-paralel-size 2"),
    ({"dtype": "float17"}, "parse", "argument --dtype: invalid choice: 'float17'"),
    ({"max-num-seqs": "abc"}, "parse", "argument --max-num-seqs: invalid int value: 'abc'"),
    ({"enable-auto-tool-choice": True}, "validate", "--enable-auto-tool-choice requires --tool-call-parser"),
    ({"chat-template": "/nope/x.jinja"}, "validate", "appears path-like, but doesn't exist"),
    ({"max-model-len": 99999}, "config", "User-specified max_model_len (99999) is greater"),
    ({"gpu-memory-utilization": 1.5}, "config", "Input should be less than or equal to 1"),
    (
        {"tp": 3, "distributed-executor-backend": "mp"},
        "config",
        "Total number of attention heads (4) must be divisible by",
    ),
    ({"quantization": "foo4"}, "config", "Unknown quantization method: foo4"),
    ({"nnodes": 2, "tp": 2, "distributed-executor-backend": "ray"}, "config", "nnodes > 1 can only be set"),
]


@pytest.mark.lab
def test_the_real_vllm_judges_all_of_them(venv: Path, model: Path, state: Path) -> None:
    """One call: vLLM's import is the most of it."""
    profiles = [local_profile(venv, ServeSpec(str(model), "", flags)) for flags, _, _ in CASES]
    local = Local(profiles[0], state)
    text = once_text(question(lines=[serve_argv(one) for one in profiles], deep=True))
    command = environment(profiles[0]).script(profiles[0].head, text, "ask", env=ENV, limit=240)
    completed = local.run(command)
    verdicts = read_verdicts(completed.stdout, completed.stderr)
    assert "--tensor-parallel-size" in verdicts.names
    found = [
        (stage, wanted in message)
        for (stage, message), (_, _, wanted) in zip(verdicts.messages, CASES, strict=True)
    ]
    assert found == [(stage, True) for _, stage, _ in CASES], verdicts.messages


@pytest.mark.lab
def test_the_profiles_own_command(venv: Path, model: Path, state: Path) -> None:
    one: Profile = local_profile(venv, ServeSpec(str(model), "", {"tensor-paralel-size": 2}))
    completed = Local(one, state).run(judge_command(one, environment(one), question(serve_pieces(one)), ENV))
    (problem,) = parse_verdict(completed.stdout, one, completed.stderr)
    assert "The nearest it knows is --tensor-parallel-size" in problem.message


@pytest.mark.lab
def test_an_environment_without_vllm(tmp_path: Path, state: Path) -> None:
    import venv as maker

    maker.create(tmp_path / "bare")
    bare = local_profile(tmp_path / "bare", ServeSpec("/models/x"))
    command = judge_command(bare, environment(bare), question(serve_pieces(bare)))
    completed = Local(bare, state).run(command, check=False)
    with pytest.raises(NoVerdictError, match="No module named 'vllm'"):
        parse_verdict(completed.stdout, bare, completed.stderr)
