"""The KV cache's arithmetic against the real vLLM's, on models of several architectures."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cockpit.serving.memory_fit_config import Split, element_bytes, kv_cache

DATA = Path(__file__).parent.parent / "data" / "flags"
MODELS: dict[str, Any] = json.loads((DATA / "kv_models.json").read_text())
TOLD: dict[str, Any] = json.loads((DATA / "kv_sizes.json").read_text())

CPU_BLOCK = 128
"""Tokens a block in the CPU build, where no flag says otherwise (vllm/platforms/cpu.py, 0.32.0)."""

CALCULATOR = """
import json, math, sys
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
shapes = MambaStateShapeCalculator.gated_delta_net_state_shape(*json.loads(sys.argv[1]))
print("SHAPES", json.dumps([math.prod(shape) for shape in shapes]))
"""


@pytest.mark.parametrize("name", list(TOLD["models"]))
def test_a_request_takes_what_vllm_says(name: str) -> None:
    """vLLM tells how many requests of the whole length its 1 GiB holds, to a hundredth."""
    told, config = TOLD["models"][name], MODELS[name]
    kv = replace(kv_cache(config, Split(1), element_bytes(config, "auto", "auto")), block=CPU_BLOCK)
    held = TOLD["memory"] / kv.request(TOLD["length"], TOLD["batch"])
    assert held == pytest.approx(told["requests"], rel=0.001)


@pytest.mark.lab
@pytest.mark.full
@pytest.mark.parametrize("tensor", [1, 2])
def test_the_state_of_linear_attention_is_vllms_own(venv: Path, tensor: int) -> None:
    """Of Qwen3-Next's sizes: the convolution's inputs in 16 bits, the recurrent state in 32 where the model says so."""
    sizes = {"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128}
    sizes |= {"linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}
    done = subprocess.run(
        [venv / "bin" / "python", "-c", CALCULATOR, json.dumps([tensor, *sizes.values()])],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    convolved, recurrent = json.loads(done.stdout.rpartition("SHAPES")[2])
    heads = {"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "hidden_size": 2048}
    config = {**sizes, **heads, "num_hidden_layers": 4, "full_attention_interval": 4}
    for kept, size in (({}, 2), ({"mamba_ssm_dtype": "float32"}, 4)):
        kv = kv_cache({**config, **kept}, Split(tensor), 2.0)
        assert kv.state == 3 * (convolved * 2 + recurrent * size)
