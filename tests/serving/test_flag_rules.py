"""What vLLM does not check; a profile that is right has nothing against it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cockpit.bringup.profiles import shipped_folder
from cockpit.model.finding import Severity
from cockpit.model.profile import FlagValue, NativeRuntime, Profile, RaySpec, ServeSpec
from cockpit.model.profile_yaml import parse
from cockpit.serving.flag_environment import bind_problem, environment_problems, port_problems
from cockpit.serving.flag_rules import family_of, gb10_problems, parser_problems
from cockpit.serving.schema_shipped import shipped

from .profiles import HEAD, WORKER, profile

NEWEST = shipped("0.32.0")
GIB = 1 << 30


def of_model(name: str, **flags: FlagValue) -> Profile:
    """A profile of the model ``name``; underscores in the flags' names stand for dashes."""
    declared = {flag.replace("_", "-"): value for flag, value in flags.items()}
    return replace(profile(declared), serve=ServeSpec(name, "", declared))


@pytest.mark.parametrize(
    ("name", "tool", "reasoning"),
    [
        ("Qwen/Qwen3.5-122B-A10B-FP8", "qwen3_coder", "qwen3"),
        ("Qwen/Qwen3-32B", "hermes", "qwen3"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_coder", ""),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3_json", ""),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "hermes", "deepseek_r1"),
        ("openai/gpt-oss-120b", "openai", "openai_gptoss"),
        ("zai-org/GLM-4.5-Air", "glm45", "glm45"),
        ("/models/weights", "", ""),
    ],
)
def test_families(name: str, tool: str, reasoning: str) -> None:
    family = family_of(of_model(name), {})
    found = (family.tool[0], next(iter(family.reasoning), "")) if family else ("", "")
    assert found == (tool, reasoning)


def test_every_parser_that_is_proposed_exists_in_some_version() -> None:
    schemas = [shipped(version) for version in ("0.11.2", "0.17.1", "0.24.0", "0.28.0", "0.32.0")]
    tools = {name for schema in schemas for name in schema.tool_parsers}
    reasoning = {name for schema in schemas for name in schema.reasoning_parsers}
    for model in (
        "Qwen/Qwen3-32B",
        "meta-llama/Llama-3.3-70B-Instruct",
        "openai/gpt-oss-120b",
        "zai-org/GLM-4.5",
    ):
        family = family_of(of_model(model), {})
        assert family is not None
        assert family.tool[0] in tools
        assert not family.reasoning or family.reasoning[0] in reasoning


def test_the_architecture_tells_where_the_name_does_not() -> None:
    family = family_of(of_model("/models/weights"), {"architectures": ["Qwen3ForCausalLM"]})
    assert family is not None
    assert family.reasoning[0] == "qwen3"


def test_another_familys_parser_is_warned_of() -> None:
    wrong = of_model("Qwen/Qwen3-32B", tool_call_parser="llama3_json", reasoning_parser="deepseek_v3")
    found = parser_problems(wrong, {}, NEWEST)
    assert [(one.flag, one.severity) for one in found] == [
        ("tool-call-parser", Severity.WARNING),
        ("reasoning-parser", Severity.WARNING),
    ]
    assert found[0].fix[0].change == {"set": {"serve.flags.tool-call-parser": "hermes"}}


@pytest.mark.parametrize(
    "right",
    [
        of_model("Qwen/Qwen3-32B", tool_call_parser="hermes", reasoning_parser="qwen3"),
        of_model("Qwen/Qwen3-32B", tool_call_parser="my_own_parser"),
        of_model("someone/finetune", tool_call_parser="mistral"),
        of_model("Qwen/Qwen3-32B"),
    ],
)
def test_fitting_own_and_unknown_parsers_pass(right: Profile) -> None:
    assert parser_problems(right, {}, NEWEST) == ()


@pytest.mark.parametrize(
    ("flags", "weights", "told"),
    [
        ({"gpu-memory-utilization": 0.95}, 0, ["warning gpu-memory-utilization"]),
        ({"gpu-memory-utilization": 0.9}, 0, []),
        ({"gpu-memory-utilization": "0.95"}, 0, ["warning gpu-memory-utilization"]),
        ({"gpu-memory-utilization": "words"}, 0, []),
        ({"cpu-offload-gb": 10}, 0, ["warning cpu-offload-gb"]),
        ({"cpu_offload_gb": 0}, 0, []),
        ({"swap-space": 16}, 0, ["warning swap-space"]),
        ({}, 60 * GIB, ["note load-format"]),
        ({"load-format": "fastsafetensors"}, 60 * GIB, []),
        ({}, 3 * GIB, []),
    ],
)
def test_what_harms_on_gb10(flags: dict[str, FlagValue], weights: int, told: list[str]) -> None:
    found = gb10_problems(profile(flags), weights=weights, schema=NEWEST)
    assert [f"{one.severity} {one.flag}" for one in found] == told
    assert all("Source: " in one.why for one in found)


def test_what_harms_on_gb10_in_the_environment() -> None:
    harmful = replace(
        profile(),
        runtime=NativeRuntime("/v", {"NCCL_IB_DISABLE": "1"}),
        ray=RaySpec(env={"RAY_memory_monitor_refresh_ms": "250"}),
    )
    assert [one.flag for one in gb10_problems(harmful)] == ["RAY_memory_monitor_refresh_ms", "NCCL_IB_DISABLE"]
    harmless = replace(
        profile(),
        runtime=NativeRuntime("/v", {"NCCL_IB_DISABLE": "0"}),
        ray=RaySpec(env={"RAY_memory_monitor_refresh_ms": "0"}),
    )
    assert gb10_problems(harmless) == ()


def test_the_ports() -> None:
    (problem,) = port_problems(profile({"port": 8265}))
    assert (problem.flag, problem.severity) == ("port", Severity.ERROR)
    assert port_problems(profile({"port": 8000})) == ()
    assert port_problems(profile({"port": 8265}, hosts=(HEAD,))) == ()


@pytest.mark.parametrize(
    ("bind", "flag"),
    [
        ("[Errno 98] Address already in use", "port"),
        ("[Errno 99] Cannot assign requested address", "host"),
        ("bind(): port must be 0-65535.", "port"),
    ],
)
def test_an_address_that_can_not_be_listened_on(bind: str, flag: str) -> None:
    found = bind_problem(profile({"host": "192.0.2.1", "port": 8000}), bind)
    assert found is not None
    assert (found.flag, found.severity) == (flag, Severity.ERROR)
    assert bind_problem(profile(), "") is None


def serving(env: dict[str, str], **flags: FlagValue) -> Profile:
    """A profile whose serve has ``env``."""
    return replace(profile(), serve=ServeSpec("/models/big", "big", flags, env))


@pytest.mark.parametrize(
    ("contradicting", "told"),
    [
        (
            replace(profile(), runtime=NativeRuntime("/v", {"VLLM_HOST_IP": "1.2.3.4"})),
            ["warning VLLM_HOST_IP"],
        ),
        (serving({"NCCL_SOCKET_IFNAME": "eth0"}), ["warning NCCL_SOCKET_IFNAME"]),
        (serving({"NCCL_SOCKET_IFNAME": "enp1s0f1np1"}), []),
        (serving({"RAY_ADDRESS": "10.9.9.9:6379"}), ["error RAY_ADDRESS"]),
        (serving({"RAY_ADDRESS": "192.168.100.10:6379"}), []),
        (serving({"CUDA_VISIBLE_DEVICES": ""}), ["warning CUDA_VISIBLE_DEVICES"]),
        (serving({"CUDA_VISIBLE_DEVICES": "0"}), []),
        (replace(profile(), hosts=(HEAD, replace(WORKER, env={"VLLM_HOST_IP": "192.168.100.11"}))), []),
        (profile({"api-key": "secret"}), ["warning api-key"]),
    ],
)
def test_an_environment_that_contradicts(contradicting: Profile, told: list[str]) -> None:
    found = environment_problems(contradicting)
    assert [f"{one.severity} {one.flag}" for one in found] == told


def test_two_words_for_the_attention_backend() -> None:
    both = replace(serving({"VLLM_ATTENTION_BACKEND": "FLASHINFER"}), name="two")
    both = replace(both, serve=replace(both.serve, flags={"attention-backend": "flash_attn"}))
    assert [one.flag for one in environment_problems(both)] == ["attention-backend"]


@pytest.mark.parametrize("file", sorted(shipped_folder().glob("*.yaml")), ids=lambda file: file.stem)
def test_the_shipped_profiles_have_nothing_against_them(file: object) -> None:
    from pathlib import Path

    path = Path(str(file))
    declared = parse(path.read_bytes(), str(path))
    found = (
        *port_problems(declared),
        *environment_problems(declared),
        *parser_problems(declared, {}, NEWEST),
        *gb10_problems(declared, weights=120 * GIB, schema=NEWEST),
    )
    assert [one.message for one in found if one.severity is not Severity.NOTE] == []
