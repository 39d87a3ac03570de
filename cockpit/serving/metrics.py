"""vLLM's /metrics as a record: what runs, what waits, how full the KV cache is, how fast tokens come."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SAMPLE = re.compile(r"(?P<name>vllm:[\w:]+)(?:\{[^\n]*\})? (?P<value>[^\s]+)")


@dataclass(frozen=True, slots=True)
class Metrics:
    """One look at /metrics, summed over engines. ``kv_usage`` is a fraction (0 to 1), None where it isn't
    told; ``ttft_sum`` in seconds over ``ttft_count`` requests; the totals count from the serve's start."""

    running: int = 0
    waiting: int = 0
    kv_usage: float | None = None
    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0
    ttft_sum: float = 0.0
    ttft_count: float = 0.0
    preemptions: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened between two looks, in tokens a second; ``ttft`` is the mean in seconds of the requests
    that got their first token in between, None where none did."""

    prompt: float
    generation: float
    ttft: float | None


def parse_metrics(text: str) -> Metrics:
    """Read Prometheus text as vLLM writes it; whatever else it holds is passed over."""
    sums: dict[str, float] = {}
    usage: list[float] = []
    for name, value in _samples(text):
        if name in ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"):
            usage.append(value)
        sums[name] = sums.get(name, 0.0) + value
    return Metrics(
        running=int(sums.get("vllm:num_requests_running", 0)),
        waiting=int(sums.get("vllm:num_requests_waiting", 0)),
        kv_usage=max(usage) if usage else None,
        prompt_tokens=sums.get("vllm:prompt_tokens_total", 0.0),
        generation_tokens=sums.get("vllm:generation_tokens_total", 0.0),
        ttft_sum=sums.get("vllm:time_to_first_token_seconds_sum", 0.0),
        ttft_count=sums.get("vllm:time_to_first_token_seconds_count", 0.0),
        preemptions=sums.get("vllm:num_preemptions_total", 0.0),
    )


def rates(before: Metrics, after: Metrics, seconds: float) -> Rates | None:
    """The rates over ``seconds`` between two looks; None where the serve was started anew in between, or
    no time went by."""
    if seconds <= 0 or after.generation_tokens < before.generation_tokens:
        return None
    if after.prompt_tokens < before.prompt_tokens or after.ttft_count < before.ttft_count:
        return None
    firsts = after.ttft_count - before.ttft_count
    return Rates(
        (after.prompt_tokens - before.prompt_tokens) / seconds,
        (after.generation_tokens - before.generation_tokens) / seconds,
        (after.ttft_sum - before.ttft_sum) / firsts if firsts else None,
    )


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for line in text.split("\n"):
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        if value == value and abs(value) != float("inf"):
            yield match["name"], value
