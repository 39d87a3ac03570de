"""The model behind the editor of flags, on the shipped flags of 0.32.0."""

from __future__ import annotations

import pytest

from cockpit.model.profile import FlagValue
from cockpit.serving.flag_differences import Difference, between, from_defaults
from cockpit.serving.flag_editor import FlagEditor, listing_json
from cockpit.serving.schema_shipped import shipped

EDITOR = FlagEditor(shipped("0.32.0"))


def texts(prefix: str) -> list[str]:
    """What is proposed for a name."""
    return [one.text for one in EDITOR.complete_name(prefix)]


def test_names_that_begin_so_come_before_those_that_hold_it() -> None:
    found = texts("max-mo")
    assert found[0] == "max-model-len"
    held = texts("model-len")
    assert "max-model-len" in held
    assert texts("--max_model") == texts("max-model")
    assert len(texts("")) == 50


def test_a_flag_is_found_by_what_it_is_about() -> None:
    """By its choices and its group, after those that have the word in their name."""
    found = texts("fp8")
    assert "kv-cache-dtype" in found
    assert "quantization" in texts("awq") or "quantization" in texts("quantiz")


def test_fields_after_a_dot() -> None:
    assert "compilation-config.mode" in texts("cc.mo")
    assert texts("port.x") == []


def test_values() -> None:
    assert [one.text for one in EDITOR.complete_value("dtype", "bf")] == ["bfloat16"]
    assert "ray" in [one.text for one in EDITOR.complete_value("distributed-executor-backend")]
    assert "hermes" in [one.text for one in EDITOR.complete_value("tool-call-parser", "her")]
    assert ("auto", "default") in [(one.text, one.detail) for one in EDITOR.complete_value("dtype")]
    assert [one.text for one in EDITOR.complete_value("enforce-eager")] == ["true", "false"]
    assert EDITOR.complete_value("nosuch") == ()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("enforce-eager", "true", True),
        ("enforce-eager", "false", False),
        ("port", "8000", 8000),
        ("port", "http", "http"),
        ("max-model-len", "16k", "16k"),
        ("max-model-len", "-1", -1),
        ("gpu-memory-utilization", "0.8", 0.8),
        ("compilation-config", '{"mode": 3}', {"mode": 3}),
        ("compilation-config", '{"mode": 3', '{"mode": 3'),
        ("dtype", "auto", "auto"),
        ("nosuch", "x", "x"),
    ],
)
def test_what_is_typed(name: str, text: str, value: FlagValue) -> None:
    assert EDITOR.typed(name, text) == value


def test_a_mistake_is_told_as_it_is_typed() -> None:
    assert EDITOR.mistake("port", EDITOR.typed("port", "80a")) == "'80a' is no whole number"
    assert EDITOR.mistake("port", EDITOR.typed("port", "80")) == ""
    assert "Do you mean tensor-parallel-size?" in EDITOR.mistake("tensor-paralel-size", 2)
    assert "no field" in EDITOR.mistake("compilation-config.mod", 2)


def test_help() -> None:
    text = EDITOR.help("tp")
    assert text.splitlines()[0] == "int = 1"
    assert "-tp" in text
    assert "fields:" in EDITOR.help("compilation-config")
    assert "one of: " in EDITOR.help("dtype")


def test_what_differs_from_the_defaults() -> None:
    flags: dict[str, FlagValue] = {"port": 8000, "tp": 2, "dtype": "auto", "no-enforce-eager": True, "seed": 7}
    assert from_defaults(flags, EDITOR.schema) == (
        Difference("tensor-parallel-size", "2", "1"),
        Difference("seed", "7", "0"),
    )


def test_what_differs_from_a_run() -> None:
    """Spellings, dashes, JSON's blanks and --no- are not differences; values and absent flags are."""
    here = [
        "vllm",
        "serve",
        "m",
        "-tp",
        "2",
        "--port",
        "8000",
        "--no-enable-prefix-caching",
        "-cc",
        '{"mode": 0}',
    ]
    there = ["vllm", "serve", "m", "--tensor_parallel_size=1", "--port=8000", "--seed=-1"]
    there += ["--no_enable_prefix_caching", "--compilation-config", '{"mode":0}', "--trust-remote-code"]
    assert between(here, there, EDITOR.schema) == (
        Difference("tensor-parallel-size", "2", "1"),
        Difference("seed", None, "-1"),
        Difference("trust-remote-code", None, "true"),
    )
    named = ["vllm", "serve", "n", "--served-model-name", "a", "b c"]
    assert between(named, ["vllm", "serve", "m"], EDITOR.schema) == (
        Difference("model", "n", "m"),
        Difference("served-model-name", "a b c", None),
    )


@pytest.mark.parametrize("value", [True, False, 7, 0.5, "auto", ["a", "b c"], {"mode": 3}])
def test_a_value_is_read_as_it_is_shown(value: FlagValue) -> None:
    flags = {bool: "enforce-eager", int: "seed", float: "gpu-memory-utilization", str: "dtype"}
    name = {**flags, list: "served-model-name", dict: "compilation-config"}[type(value)]
    assert EDITOR.typed(name, EDITOR.shown(value)) == value


def test_the_listing() -> None:
    (told,) = listing_json(EDITOR.schema.search("gpu-memory-utilization-x") or (EDITOR.schema.by_name["port"],))
    assert (told["flag"], told["default"], told["options"]) == ("port", 8000, ["--port"])
