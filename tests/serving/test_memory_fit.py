"""What a model takes of memory: against vLLM's own figures, on model configurations of every kind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.finding import Severity
from cockpit.model.profile import FlagValue
from cockpit.serving.memory_fit import HostMemory, ModelFacts, Wanted, fit, parse_model_facts
from cockpit.serving.memory_fit_config import CantTellError, Split, element_bytes, kv_cache, longest_context
from cockpit.serving.memory_fit_problems import memory_problems, ranks_per_host, size_of, wanted_of
from cockpit.serving.schema_shipped import shipped

from .profiles import profile

GIB = 1 << 30
LOGS = Path(__file__).parent.parent / "data" / "logs"
SCRIPT = Path(__file__).parents[2] / "cockpit" / "serving" / "scripts" / "model_facts.py"

LAB: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_size": 128,
    "dtype": "bfloat16",
    "max_position_embeddings": 2048,
    "layer_types": ["full_attention"] * 4,
    "sliding_window": None,
}
QWEN3_32B: dict[str, Any] = {
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 5120,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 40960,
    "sliding_window": None,
    "use_sliding_window": False,
    "max_window_layers": 64,
}


def test_the_lab_models_cache_as_vllm_tells_it() -> None:
    """1 GiB held 2,097,152 tokens a rank at TP=2 (0.32.0): 512 bytes each."""
    log = (LOGS / "ray_tp2_nodedup.log").read_text(errors="replace")
    found = re.search(r"KV cache size: ([\d,]+) tokens, Maximum concurrency for 512 tokens", log)
    assert found is not None
    tokens = int(found[1].replace(",", ""))
    kv = kv_cache(LAB, Split(2), element_bytes(LAB, "auto", "auto"))
    assert kv.full == GIB / tokens == 512


@pytest.mark.parametrize(
    ("config", "split", "element", "full"),
    [
        (QWEN3_32B, Split(1), 2.0, 64 * 2 * 8 * 128 * 2),
        (QWEN3_32B, Split(2), 1.0, 64 * 2 * 4 * 128),
        (QWEN3_32B, Split(1, 2), 2.0, 32 * 2 * 8 * 128 * 2),
        # More ranks than KV heads: each has one.
        (LAB, Split(4), 2.0, 4 * 2 * 1 * 32 * 2),
        # Heads that are not named are as many as those of attention.
        (
            {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64},
            Split(1),
            2.0,
            2 * 2 * 4 * 16 * 2,
        ),
        # MLA keeps one latent vector a token, whole on every rank.
        (
            {"num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
            Split(2),
            2.0,
            61 * 576 * 2,
        ),
        ({"text_config": QWEN3_32B, "vision_config": {"num_hidden_layers": 27}}, Split(2), 2.0, 64 * 1024 * 2),
    ],
)
def test_bytes_a_token(config: dict[str, Any], split: Split, element: float, full: float) -> None:
    kv = kv_cache(config, split, element)
    assert (kv.full, kv.windows, kv.state) == (full, (), 0)


def test_a_sliding_window_keeps_no_more_than_itself_and_a_batch() -> None:
    config = {**QWEN3_32B, "num_hidden_layers": 6, "sliding_window": 1024, "sliding_window_pattern": 6}
    config["use_sliding_window"] = True
    kv = kv_cache(config, Split(1), 2.0)
    layer = 2 * 8 * 128 * 2
    assert (kv.full, kv.windows) == (layer, ((1024, 5 * layer),))
    assert kv.request(100_000, 2048) == 100_000 * layer + 5 * layer * (3072 + 16)
    assert kv_cache(config, Split(1), 2.0, hybrid=False).full == 6 * layer


def test_linear_attention_keeps_a_state() -> None:
    """Qwen3-Next's shape: three layers of four."""
    config = {
        "num_hidden_layers": 48,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "full_attention_interval": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    }
    kv = kv_cache(config, Split(1), 2.0)
    assert kv.full == 12 * 2 * 2 * 256 * 2
    assert kv.state == 36 * ((2 * 16 * 128 + 32 * 128) * 3 * 2 + 32 * 128 * 128 * 2)


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": 4, "hybrid_override_pattern": "M-M*"},
        {"num_hidden_layers": 2, "num_attention_heads": 4, "layer_types": ["full_attention", "moon_attention"]},
        {"model_type": "mystery"},
        {"num_hidden_layers": 2, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "compress_ratios": [4, 128]},
        {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "num_key_value_heads": [1, 2]},
    ],
)
def test_what_is_not_known_is_said_to_be(config: dict[str, Any]) -> None:
    with pytest.raises(CantTellError):
        kv_cache(config, Split(1), 2.0)


@pytest.mark.parametrize(
    ("kv_dtype", "dtype", "checkpoint", "size"),
    [
        ("auto", "auto", "", 2.0),
        ("fp8", "auto", "", 1.0),
        ("auto", "float32", "", 4.0),
        ("auto", "auto", "FP8", 1.0),
    ],
)
def test_the_size_of_an_element(kv_dtype: str, dtype: str, checkpoint: str, size: float) -> None:
    assert element_bytes(LAB, kv_dtype, dtype, checkpoint) == size


def test_an_unknown_cache_type_can_not_be_told() -> None:
    with pytest.raises(CantTellError, match="turboquant"):
        element_bytes(LAB, "turboquant_4bit_nc", "auto")


def test_the_length_a_model_was_made_for() -> None:
    assert longest_context(QWEN3_32B) == 40960
    assert longest_context({"text_config": {"max_position_embeddings": 4096}}) == 4096
    assert longest_context({**LAB, "rope_scaling": {"type": "linear", "factor": 2}}) == 0


@pytest.mark.parametrize(
    ("value", "size"),
    [("1k", 1000), ("1K", 1024), (512, 512), ("25.6k", 25600), ("auto", 0), (-1, 0), (True, 0)],
)
def test_sizes_as_vllm_reads_them(value: object, size: int) -> None:
    assert size_of(value) == size


def model(size: float, config: dict[str, Any] | None = None, **more: int) -> ModelFacts:
    """A model of ``size`` GiB of weights that are dealt out."""
    groups = {"dealt:BF16": int(size * GIB), **{f"{key}:BF16": value for key, value in more.items()}}
    return ModelFacts(True, QWEN3_32B if config is None else config, groups, {})


def test_weights_are_dealt_out_and_what_is_not_stays_whole() -> None:
    facts = model(100, whole=2 * GIB, draft=3 * GIB, vision=4 * GIB)
    assert fit(facts, Wanted(Split(2))).weights == 54 * GIB
    assert fit(facts, Wanted(Split(2), draft=True)).weights == int(55.5 * GIB)
    assert fit(facts, Wanted(Split(2), language_only=True)).weights == 52 * GIB
    assert fit(facts, Wanted(Split(2), offload=4 * GIB)).weights == 50 * GIB
    assert fit(model(100), Wanted(Split(2), quantization="fp8")).weights == 25 * GIB
    assert fit(model(100), Wanted(Split(2), quantization="mystery")).weights is None


def spark(name: str, free: float = 112.0, cache: float = 2.0) -> HostMemory:
    """A DGX Spark with ``free`` GiB available."""
    return HostMemory(name, int(119.7 * GIB), int(free * GIB), int(cache * GIB), True, "NVIDIA GB10")


BOTH = (spark("spark-1"), spark("spark-2"))
GOOD: dict[str, FlagValue] = {
    "tensor-parallel-size": 2,
    "distributed-executor-backend": "ray",
    "gpu-memory-utilization": 0.8,
    "max-model-len": 32768,
}


def severities(
    flags: dict[str, FlagValue], facts: ModelFacts | None, hosts: tuple[HostMemory, ...]
) -> list[str]:
    """The problems' severities, with the flag each blames."""
    found = memory_problems(profile(flags), facts, hosts, shipped("0.32.0"))
    return [f"{problem.severity} {problem.flag}" for problem in found]


def test_a_model_that_fits_on_two_sparks_passes_with_a_note() -> None:
    (problem,) = memory_problems(profile(GOOD), model(61), BOTH)
    assert (problem.severity, problem.flag) == (Severity.NOTE, "max-model-len")
    assert "30.5 GiB a rank, one request of 32,768 tokens 4.0 GiB" in problem.message
    assert problem.place is not None
    assert problem.place.line == 24


@pytest.mark.parametrize(
    ("flags", "size", "hosts", "told"),
    [
        (GOOD, 300.0, BOTH, ["error tensor-parallel-size"]),
        (GOOD, 192.0, BOTH, ["error gpu-memory-utilization"]),
        ({**GOOD, "max-model-len": 1_000_000}, 61.0, BOTH, ["error max-model-len"]),
        ({**GOOD, "max-model-len": "1M"}, 61.0, BOTH, ["error max-model-len"]),
        (
            GOOD,
            61.0,
            (spark("spark-1"), spark("spark-2", 60)),
            ["error gpu-memory-utilization", "note max-model-len"],
        ),
        (
            GOOD,
            61.0,
            (spark("spark-1", 112, 80), spark("spark-2")),
            ["note gpu-memory-utilization", "note max-model-len"],
        ),
        ({**GOOD, "kv-cache-memory-bytes": "1G"}, 61.0, BOTH, ["error max-model-len"]),
        ({**GOOD, "quantization": "mystery"}, 61.0, BOTH, ["note max-model-len"]),
        ({**GOOD, "kv-cache-dtype": "turboquant_4bit_nc"}, 61.0, BOTH, ["note max-model-len"]),
        ({**GOOD, "gpu-memory-utilization": 1.5}, 61.0, BOTH, []),
        ({**GOOD, "max-model-len": 262_144}, 120.0, BOTH, ["warning max-model-len"]),
    ],
)
def test_what_does_not_fit(
    flags: dict[str, FlagValue], size: float, hosts: tuple[HostMemory, ...], told: list[str]
) -> None:
    assert severities(flags, model(size), hosts) == told


def test_the_length_that_would_fit_is_offered() -> None:
    flags = {**GOOD, "max-model-len": 1_000_000}
    (problem,) = memory_problems(profile(flags), model(61), BOTH)
    change = problem.fix[0].change
    assert change is not None
    length = change["set"]["serve.flags.max-model-len"]
    mended = memory_problems(profile({**flags, "max-model-len": length}), model(61), BOTH)
    assert [one.severity for one in mended if one.severity is Severity.ERROR] == []


def test_dropping_the_cache_is_offered_for_the_host_that_needs_it() -> None:
    first, *_ = memory_problems(profile(GOOD), model(61), (spark("spark-1", 112, 80), spark("spark-2")))
    change = first.fix[0].change
    assert change is not None
    assert change["run"]["host"] == "spark-1"


def test_a_run_in_progress_holds_its_memory_rightly() -> None:
    found = memory_problems(profile(GOOD), model(61), (spark("spark-1", 8), spark("spark-2", 9)), running=True)
    assert [problem.severity for problem in found] == [Severity.NOTE]


def test_where_nothing_is_known_nothing_is_said() -> None:
    assert memory_problems(profile(GOOD), None, BOTH) == ()
    assert memory_problems(profile(GOOD), model(61), ()) == ()


def test_defaults_are_the_schemas() -> None:
    wanted = wanted_of(profile({}), shipped("0.11.2"))
    assert (wanted.utilisation, wanted.length, wanted.kv_dtype) == (0.9, 0, "auto")
    assert wanted_of(profile({}), shipped("0.32.0")).utilisation == 0.92


def test_a_model_is_weighed_by_its_headers(tmp_path: Path) -> None:
    """Real safetensors files, as the format's own specification has them."""

    def write(name: str, tensors: dict[str, tuple[str, list[int], int]]) -> None:
        header, at = {}, 0
        for tensor, (dtype, shape, size) in tensors.items():
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        raw = json.dumps(header).encode()
        (tmp_path / name).write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(at))

    write(
        "a.safetensors",
        {
            "model.embed_tokens.weight": ("BF16", [8, 4], 64),
            "model.layers.0.self_attn.q_proj.weight": ("BF16", [4, 4], 32),
            "model.layers.0.self_attn.k_proj.weight": ("BF16", [2, 4], 16),
            "model.layers.0.input_layernorm.weight": ("BF16", [4], 8),
            "model.layers.0.mlp.gate.weight": ("BF16", [4, 4], 32),
        },
    )
    write(
        "b.safetensors",
        {
            "model.layers.0.mlp.experts.0.up_proj.weight": ("F8_E4M3", [4, 4], 16),
            "mtp.layers.0.weight": ("BF16", [4, 4], 32),
            "visual.blocks.0.weight": ("BF16", [4, 4], 32),
        },
    )
    (tmp_path / "config.json").write_text(json.dumps(LAB))
    asked = json.dumps({"model": str(tmp_path), "revision": "", "env": {}})
    output = subprocess.run([sys.executable, SCRIPT, asked], capture_output=True, check=True, timeout=60).stdout
    facts = parse_model_facts(output)
    assert facts.groups == {
        "embedding:BF16": 64,
        "dealt:BF16": 32,
        "kv:BF16": 16,
        "whole:BF16": 40,
        "expert:F8_E4M3": 16,
        "draft:BF16": 32,
        "vision:BF16": 32,
    }
    assert facts.config["num_hidden_layers"] == 4
    (tmp_path / "b.safetensors").write_bytes(b"\xff" * 20)
    output = subprocess.run([sys.executable, SCRIPT, asked], capture_output=True, check=True, timeout=60).stdout
    assert parse_model_facts(output).unread == ("b.safetensors",)


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    asked = json.dumps({"model": "no/such", "revision": "", "env": {"HF_HOME": str(tmp_path)}})
    output = subprocess.run([sys.executable, SCRIPT, asked], capture_output=True, check=True, timeout=60).stdout
    assert not parse_model_facts(output).found
    with pytest.raises(ValueError, match="not a model's facts"):
        parse_model_facts(b"[]")


@pytest.mark.parametrize(
    ("flags", "ranks"),
    [
        (GOOD, {"spark-1": 1, "spark-2": 1}),
        ({"tensor-parallel-size": 2, "nnodes": 2}, {"spark-1": 1, "spark-2": 1}),
        ({"tensor-parallel-size": 2}, {"spark-1": 2}),
        ({"distributed-executor-backend": "ray"}, {"spark-1": 1}),
    ],
)
def test_ranks_a_host(flags: dict[str, FlagValue], ranks: dict[str, int]) -> None:
    assert ranks_per_host(profile(flags), {"spark-1": 1, "spark-2": 1}) == ranks
