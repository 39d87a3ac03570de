"""The command line that the flag map becomes."""

from __future__ import annotations

import pytest

from cockpit.model.profile import FlagValue, ServeSpec
from cockpit.serving.arguments import backend, canonical, flag_argv, serve_argv, world_size

from .profiles import profile


@pytest.mark.parametrize(
    ("name", "value", "argv"),
    [
        ("max-model-len", 8192, ["--max-model-len", "8192"]),
        ("gpu-memory-utilization", 0.8, ["--gpu-memory-utilization", "0.8"]),
        ("enforce-eager", True, ["--enforce-eager"]),
        ("enforce-eager", None, ["--enforce-eager"]),
        ("enable_prefix_caching", False, ["--no-enable-prefix-caching"]),
        ("ep", False, ["--no-enable-expert-parallel"]),
        ("tp", 2, ["-tp", "2"]),
        ("-tp", "2", ["-tp", "2"]),
        ("--dtype", "auto", ["--dtype", "auto"]),
        ("compilation-config.mode", 3, ["--compilation-config.mode", "3"]),
        ("cc.mode", "none", ["-cc.mode", "none"]),
        ("max-model-len", -1, ["--max-model-len=-1"]),
        ("served-model-name", ["a", "b"], ["--served-model-name", "a", "b"]),
        (
            "speculative-config",
            {"method": "mtp", "num_speculative_tokens": 1},
            ["--speculative-config", '{"method":"mtp","num_speculative_tokens":1}'],
        ),
        ("lora-modules", [{"name": "x", "path": "/x"}], ["--lora-modules", '{"name":"x","path":"/x"}']),
    ],
)
def test_flag(name: str, value: FlagValue, argv: list[str]) -> None:
    assert flag_argv(name, value) == argv


def test_the_flags_keep_the_profiles_order() -> None:
    argv = serve_argv(profile({"port": 8001, "enforce-eager": True, "dtype": "auto"}))
    assert argv == (
        *("vllm", "serve", "/models/big", "--served-model-name", "big"),
        *("--port", "8001", "--enforce-eager", "--dtype", "auto"),
    )


def test_a_served_name_among_the_flags_is_the_only_one() -> None:
    argv = serve_argv(profile({"served_model_name": "other"}))
    assert argv == ("vllm", "serve", "/models/big", "--served_model_name", "other")
    assert serve_argv(profile(serve=ServeSpec("m"))) == ("vllm", "serve", "m")


@pytest.mark.parametrize(
    ("flags", "size"),
    [
        ({}, 1),
        ({"tensor-parallel-size": 2}, 2),
        ({"tensor_parallel_size": "2"}, 2),
        ({"tp": 2, "pp": 2}, 4),
        ({"-tp": 2, "pcp": 2, "decode-context-parallel-size": 2}, 4),
        ({"tp": 2, "data-parallel-size": 4}, 2),
        ({"tp": "two"}, 1),
        ({"tp": True}, 1),
        ({"tp": 0}, 1),
    ],
)
def test_world_size(flags: dict[str, FlagValue], size: int) -> None:
    assert world_size(flags) == size


def test_names() -> None:
    assert canonical("--distributed_executor_backend") == "distributed-executor-backend"
    assert canonical("cc.cudagraph_mode") == "compilation-config.cudagraph_mode"
    assert backend({"distributed_executor_backend": "ray"}) == "ray"
    assert backend({"tp": 2}) == ""
