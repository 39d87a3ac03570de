"""The flags of a vLLM as data: read, searched, shipped, and equal to what the versions' own parsers have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.finding import Severity
from cockpit.model.profile import FlagValue
from cockpit.serving.schema import Flag, Kind, Schema, compact, read_schema, schema_of_answer
from cockpit.serving.schema_check import field_mistake, notes, schema_problems, value_mistake
from cockpit.serving.schema_shipped import shipped, shipped_versions
from tests.rig.environment import default_environment

from . import harvest_versions
from .profiles import profile

NEWEST = shipped("0.32.0")


def row(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """A flag as the script prints it."""
    told = {"options": [f"--{name}"], "negations": [], "choices": [], "suggestions": [], "default": None}
    return {"name": name, "kind": kind, **told, "group": "G", "help": "", **more}


def test_an_answer_becomes_a_schema_and_is_kept_whole() -> None:
    rows = [
        row("port", "int", default=8000, help="The port."),
        row("tensor-parallel-size", "int", options=["--tensor-parallel-size", "-tp"], default=1),
        row("enforce-eager", "switch", negations=["--no-enforce-eager"], default=False),
        row("mode", "json", fields=[{"name": "level", "type": "int", "default": 0}]),
    ]
    answer = {"version": "9.9", "parsers": {"tool": ["hermes"], "reasoning": []}, "schema": rows}
    schema = schema_of_answer(answer, at="now")
    assert read_schema(json.loads(json.dumps(schema.to_json()))) == schema
    port, size, eager, mode = schema.flags
    assert (port.default, port.help, size.aliases, eager.default) == (8000, "The port.", ("-tp",), False)
    assert eager.options == ("--enforce-eager", "--no-enforce-eager")
    assert (mode.fields[0].default, schema.tool_parsers) == (0, ("hermes",))


@pytest.mark.parametrize("data", [{}, {"version": "1"}, {"version": "1", "flags": [{"name": "a"}]}])
def test_what_is_no_schema_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a schema"):
        read_schema(data)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("max-model-len", "max-model-len"),
        ("--max_model_len", "max-model-len"),
        ("tp", "tensor-parallel-size"),
        ("cc.mode", "compilation-config"),
        ("no-enable-prefix-caching", "enable-prefix-caching"),
        ("compilation_config.cudagraph_mode", "compilation-config"),
        ("O", "optimization-level"),
        ("gpu-memory-u", "gpu-memory-utilization"),
        ("no-enable-prefix-cach", "enable-prefix-caching"),
    ],
)
def test_every_spelling_finds_its_flag(written: str, name: str) -> None:
    found = NEWEST.find(written)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("written", ["no-max-model-len", "tensor-paralel-size", "", "x"])
def test_what_is_no_flag_finds_none(written: str) -> None:
    assert NEWEST.find(written) is None


def test_the_nearest_and_the_search() -> None:
    assert NEWEST.nearest("tensor-paralel-size") == "tensor-parallel-size"
    assert NEWEST.nearest("qqqqqq") == ""
    assert NEWEST.search("model_len")[0].name == "max-model-len"
    assert "distributed-executor-backend" in [flag.name for flag in NEWEST.search("external_launcher")]
    assert NEWEST.search() == NEWEST.flags


def test_five_versions_are_shipped_without_help_texts() -> None:
    versions = shipped_versions()
    assert len(versions) >= 5
    assert versions[0] == "0.11.2"
    for version in versions:
        schema = shipped(version)
        assert (schema.version, schema.source) == (version, "shipped")
        assert {"tensor-parallel-size", "max-model-len", "gpu-memory-utilization"} <= set(schema.by_name)
        assert not any(flag.help for flag in schema.flags)


@pytest.mark.parametrize(
    ("asked", "given"),
    [("0.25.1", "0.24.0"), ("0.9.0", "0.11.2"), ("", shipped_versions()[-1]), ("v0.28", "0.28.0")],
)
def test_the_nearest_shipped_version(asked: str, given: str) -> None:
    assert shipped(asked).version == given


MISTAKES: list[tuple[str, FlagValue, str]] = [
    ("port", 8000, ""),
    ("port", "8000", ""),
    ("port", "http", "no whole number"),
    ("port", True, "needs a value"),
    ("port", [1, 2], "takes one value"),
    ("max-model-len", "1.5k", ""),
    ("max-model-len", "16K", ""),
    ("max-model-len", "auto", ""),
    ("max-model-len", -1, ""),
    ("max-model-len", "1.5K", "powers of ten"),
    ("max-model-len", "12x", "1k is 1000"),
    ("max-num-batched-tokens", "2k", ""),
    ("gpu-memory-utilization", 0.8, ""),
    ("gpu-memory-utilization", "much", "no number"),
    ("dtype", "bfloat16", ""),
    ("dtype", "float17", "the nearest is float16"),
    ("distributed-executor-backend", "my.own.Executor", ""),
    ("enforce-eager", True, ""),
    ("enforce-eager", False, ""),
    ("enforce-eager", "yes", "it is a switch"),
    ("served-model-name", ["a", "b"], ""),
    ("compilation-config", {"mode": 3}, ""),
    ("compilation-config", '{"mode": 3}', ""),
    ("compilation-config", '{"mode": 3', "no JSON"),
    ("compilation-config", {"nosuchfield": 1}, "no field nosuchfield"),
    ("kv-transfer-config", {"kv_connectr": "x"}, "the nearest is kv_connector"),
    ("hf-overrides", {"rope": 1}, ""),
    ("quantization", "None", ""),
]


@pytest.mark.parametrize(("name", "value", "told"), MISTAKES)
def test_values_are_judged_as_far_as_the_schema_goes(name: str, value: FlagValue, told: str) -> None:
    mistake = value_mistake(NEWEST.by_name[name], value)
    assert (told in mistake) if told else mistake == ""


def test_a_field_by_its_dotted_name() -> None:
    flag = NEWEST.by_name["compilation-config"]
    assert field_mistake(flag, "mode", 3) == ""
    assert "no field mod;" in field_mistake(flag, "mod", 3)


def test_a_foreign_schema_warns_and_its_own_refuses() -> None:
    flags: dict[str, FlagValue] = {"dtype": "auto", "tensor-paralel-size": 2, "port": "http"}
    warnings = schema_problems(profile(flags), NEWEST)
    assert [problem.severity for problem in warnings] == [Severity.WARNING] * 2
    errors = schema_problems(profile(flags), NEWEST, sure=True)
    assert [(problem.flag, problem.place.line) for problem in errors if problem.place] == [
        ("tensor-paralel-size", 22),
        ("port", 23),
    ]
    assert errors[0].fix[0].change == {
        "set": {"serve.flags.tensor-parallel-size": 2},
        "unset": ["serve.flags.tensor-paralel-size"],
    }


def test_what_a_newer_vllm_may_not_take_is_noted() -> None:
    flags: dict[str, FlagValue] = {
        "gpu-memory-u": 0.8,
        "tp": 2,
        "no-enforce-eager": True,
        "disable-cascade-attn": True,
    }
    found = notes(profile(flags), NEWEST)
    assert [(one.flag, one.severity) for one in found] == [
        ("gpu-memory-u", Severity.NOTE),
        ("disable-cascade-attn", Severity.NOTE),
    ]
    assert found[0].fix[0].change == {
        "set": {"serve.flags.gpu-memory-utilization": 0.8},
        "unset": ["serve.flags.gpu-memory-u"],
    }


def test_a_switch_without_a_negation() -> None:
    assert "no --no- form" in value_mistake(Flag("headless", Kind.SWITCH), False)


ASKED_DIRECTLY = """
import importlib, json, sys
sys.argv = ["vllm", "serve"]
try:
    utils = importlib.import_module("vllm.utils.argparse_utils")
except ImportError:
    utils = importlib.import_module("vllm.utils")
for name in ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args"):
    try:
        made = importlib.import_module(name).make_arg_parser(utils.FlexibleArgumentParser())
        break
    except ImportError:
        continue
def plain(value):
    return repr(getattr(value, "value", value))
rows = {
    option: [[str(c) for c in action.choices or () if c is not None], plain(action.default)]
    for option, action in made._option_string_actions.items()
    if option not in ("-h", "--help")
}
print("MARK " + json.dumps(rows))
"""


@pytest.mark.full
@pytest.mark.lab
@pytest.mark.parametrize("version", shipped_versions())
def test_the_shipped_flags_are_the_parsers_own(version: str) -> None:
    """Its options, choices and plain defaults, by a few lines of their own that ask the parser; and harvested
    anew, they come out the same."""
    found = default_environment()
    if found is None:
        pytest.skip("no environment with vLLM: `spark-cockpit lab up` makes one")
    python, folder = found.venv / "bin" / "python", harvest_versions.default_folder()
    output = harvest_versions.ask(version, folder, python, ASKED_DIRECTLY)
    rows: dict[str, Any] = json.loads(output.rpartition("MARK ")[2])
    schema: Schema = shipped(version)
    assert set(schema.by_option) == set(rows)
    assert {option: list(flag.choices) for option, flag in schema.by_option.items()} == {
        option: choices for option, (choices, _) in rows.items()
    }
    plain = {option: flag.default for option, flag in schema.by_option.items() if flag.default is not None}
    told = {option: rows[option][1] for option in plain if isinstance(plain[option], int | float)}
    assert {option: repr(plain[option]) for option in told} == told
    assert compact(harvest_versions.harvest(version, folder, python)) == _data(version).read_text()


def _data(version: str) -> Path:
    return harvest_versions.data_file(version)
