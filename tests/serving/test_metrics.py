"""/metrics of vLLM 0.24.0 before, during and after twenty requests at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.serving.metrics import Metrics, parse_metrics, rates

API = Path(__file__).parent.parent / "data" / "api"


def read(name: str) -> Metrics:
    return parse_metrics((API / f"ray_tp2_cold.metrics_{name}.txt").read_text())


def test_during() -> None:
    during = read("during")
    assert (during.running, during.waiting) == (20, 0)
    assert during.kv_usage == pytest.approx(0.00109, abs=1e-5)
    assert (during.prompt_tokens, during.generation_tokens) == (630.0, 9366.0)
    assert (during.ttft_count, round(during.ttft_sum, 3)) == (42.0, 6.629)


def test_between() -> None:
    before, during, after = read("before"), read("during"), read("after")
    between = rates(before, during, 10.0)
    assert between is not None
    assert between.generation == (during.generation_tokens - before.generation_tokens) / 10
    assert between.ttft is not None
    assert after.running == 0
    assert rates(after, before, 10.0) is None
    assert rates(before, during, 0.0) is None
    idle = rates(after, after, 1.0)
    assert idle is not None
    assert (idle.generation, idle.ttft) == (0.0, None)


def test_the_older_name_and_several_engines() -> None:
    text = (
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.25\n'
        'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 3.0\n'
        "vllm:num_requests_waiting NaN\n"
    )
    assert parse_metrics(text) == Metrics(running=5, kv_usage=0.25)


@given(st.text(max_size=300).filter(lambda text: "vllm:" not in text))
def test_any_text_is_taken(text: str) -> None:
    assert parse_metrics("vllm:num_requests_running 1.0\n" + text).running == 1
