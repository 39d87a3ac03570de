"""Whether a model fits: weights a rank, KV cache, and what the hosts have. Pure; sizes are in bytes.

vLLM takes ``gpu-memory-utilization`` of a GPU's memory, refuses to start where less than that is free, puts
the weights into it and gives what is left to the KV cache; it ends when that can't hold one request of
``max-model-len``. On unified memory (GB10) the memory is the host's: all of it is MemTotal, and what is free
is MemAvailable (vllm/utils/mem_utils.py, 0.11.2 to 0.32.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from cockpit.serving.memory_fit_config import (
    CantTellError,
    KvCache,
    Split,
    element_bytes,
    kv_cache,
    longest_context,
)

OVERHEAD = 0.77 * (1 << 30)
"""The least that vLLM was seen to need beside weights and KV cache, a rank (0.24.0, 26 GB Qwen3 at TP=2 on
H200: 128.62 GiB of budget, 12.49 of weights, 115.36 of KV cache)."""

UTILISATION = 0.92
"""vLLM's default since 0.24; 0.9 before."""

BATCH = 8192
"""max-num-batched-tokens where nothing is set: 2048 to 16384 by GPU and version."""

_NEVER_DEALT = ("whole",)
_ONLINE = {"fp8": 0.5, "fp8_per_tensor": 0.5, "fp8_per_block": 0.5, "bitsandbytes": 0.28, "mxfp8": 0.52}
"""What is left of 16-bit linear weights that vLLM quantizes as it loads them."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model's files as ``scripts/model_facts.py`` weighed them. ``groups`` maps ``kind:dtype`` to bytes;
    empty where the weights are no safetensors or could not be read."""

    found: bool
    config: Mapping[str, Any]
    groups: Mapping[str, int]
    quantization: Mapping[str, Any]
    unread: tuple[str, ...] = ()
    path: str = ""

    def total(self, *kinds: str) -> int:
        """The bytes of the groups of these kinds, of all without any."""
        return sum(size for key, size in self.groups.items() if not kinds or key.partition(":")[0] in kinds)


def parse_model_facts(output: bytes) -> ModelFacts:
    """The answer of ``scripts/model_facts.py``; raises ``ValueError`` on anything else."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    try:
        told: Any = json.loads(lines[-1]) if lines else None
        return ModelFacts(
            found=bool(told["found"]),
            config=dict(told.get("config") or {}),
            groups={str(key): int(size) for key, size in (told.get("groups") or {}).items()},
            quantization=dict(told.get("quantization") or {}),
            unread=tuple(str(name) for name in told.get("unread") or ()),
            path=str(told.get("path", "")),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a model's facts ({error!r}): {output[:120]!r}") from error


@dataclass(frozen=True, slots=True)
class HostMemory:
    """A GPU's memory on a host, as vLLM will see it. On unified memory ``total`` and ``free`` are the host's
    MemTotal and MemAvailable, and ``cache`` is the page cache in it."""

    host: str
    total: int
    free: int
    cache: int = 0
    unified: bool = True
    name: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the flags ask for. ``length`` is 0 where the model decides; ``quantization`` is the flag's value,
    ``offload`` bytes of cpu-offload-gb, ``cache`` bytes of kv-cache-memory-bytes (0 for none)."""

    split: Split
    utilisation: float = UTILISATION
    length: int = 0
    batch: int = BATCH
    kv_dtype: str = "auto"
    dtype: str = "auto"
    quantization: str = ""
    offload: int = 0
    cache: int = 0
    draft: bool = False
    language_only: bool = False
    hybrid: bool = True
    expert_parallel: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """The arithmetic, of one rank. ``weights`` is the least they take; None and ``why_not`` where it can't
    be told. ``length`` is the context that is asked for, 0 where it isn't known."""

    weights: int | None
    kv: KvCache | None
    length: int
    why_not: str = ""

    def room(self, budget: int) -> int | None:
        """What is left for the KV cache of ``budget`` bytes; negative where not even the weights fit."""
        return None if self.weights is None else int(budget - self.weights - OVERHEAD)


def fit(model: ModelFacts, wanted: Wanted) -> Fit:
    """The arithmetic of ``model`` under the flags."""
    length = wanted.length or longest_context(model.config)
    weights, why = _weights(model, wanted)
    if not model.config:
        return Fit(weights, None, length, why or "the model has no config.json that can be read")
    named = model.quantization.get("kv_cache_quant_algo") or ""
    try:
        element = element_bytes(model.config, wanted.kv_dtype, wanted.dtype, str(named))
        kv = kv_cache(model.config, wanted.split, element, hybrid=wanted.hybrid)
    except CantTellError as error:
        return Fit(weights, None, length, why or str(error))
    return Fit(weights, kv, length, why)


def _weights(model: ModelFacts, wanted: Wanted) -> tuple[int | None, str]:
    """The least that one rank's weights take, or why it can't be told."""
    if not model.groups:
        return None, "the weights are not in safetensors files that can be read here"
    if model.unread:
        return None, f"the headers of {len(model.unread)} weight files could not be read"
    own = bool(model.config.get("quantization_config") or model.quantization)
    if wanted.quantization and not own and wanted.quantization not in _ONLINE:
        return None, f"what quantization {wanted.quantization} makes of the weights is not known here"
    shrunk = _ONLINE.get(wanted.quantization, 1.0) if not own else 1.0
    widened = 2.0 if wanted.dtype in ("float32", "float") and not own else 1.0
    ranks = wanted.split.tensor * wanted.split.pipeline
    linear = model.total("dealt", "expert", "kv") * shrunk / ranks
    tied = model.total("embedding") / wanted.split.tensor
    # The stages of a pipeline share the embeddings: the middle ones have none, so the least is nothing.
    embedding = 0.0 if wanted.split.pipeline > 1 else tied
    vision = 0.0 if wanted.language_only else model.total("vision") / wanted.split.tensor
    draft = model.total("draft") / ranks if wanted.draft else 0.0
    whole = model.total(*_NEVER_DEALT) / wanted.split.pipeline
    return max(0, ceil((linear + embedding + vision + draft + whole) * widened) - wanted.offload), ""
