"""How much KV cache a model takes, from its config.json. Pure.

vLLM keeps keys and values of every attention layer: 2 x heads x head size a token, the heads dealt out to the
ranks of tensor parallelism (each has one at least); with MLA one latent vector a token, whole on every rank;
of a sliding window no more than the window and a batch; of a linear-attention layer one state a request
(vllm/v1/kv_cache_interface.py, 0.32.0). ``tests/serving/test_kv_sizes.py`` holds it against what vLLM's CPU build
says of models with grouped heads, MLA and sliding windows, and against vLLM's own arithmetic for the state of
gated linear attention, whose models that build can't serve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from cockpit.serving.memory_fit_layers import Layer, layer_kinds

DTYPES = {"float32": 4.0, "float": 4.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0}
KV_DTYPES = {
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "fp8_inc": 1.0,
    "nvfp4": 0.5625,
    **DTYPES,
}
"""Bytes an element; nvfp4 has a scale of one byte to sixteen elements."""

BLOCK = 16
"""Tokens a block, as vLLM takes where nothing else is set."""


class CantTellError(Exception):
    """The configuration is of a kind whose KV cache isn't known here; the message says which."""


@dataclass(frozen=True, slots=True)
class KvCache:
    """The KV cache of one rank. ``full`` is bytes a token of the layers that keep all, ``windows`` pairs of a
    window's tokens and its layers' bytes a token, ``state`` bytes a request; ``block`` is a block's tokens."""

    full: float
    windows: tuple[tuple[int, float], ...] = ()
    state: float = 0.0
    block: int = BLOCK

    def request(self, tokens: int, batch: int) -> int:
        """Bytes that one request of ``tokens`` takes; ``batch`` is max-num-batched-tokens."""
        total = self.full * self._whole(tokens)
        for window, size in self.windows:
            total += size * (self._whole(min(tokens, window - 1 + batch)) + self.block)
        return ceil(total + self.state)

    def _whole(self, tokens: int) -> int:
        return ceil(tokens / self.block) * self.block

    def longest(self, room: float, batch: int) -> int:
        """The most tokens of one request that fit into ``room`` bytes; 0 where none do."""
        low, high = 0, 1 << 31
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.request(middle, batch) <= room else (low, middle - 1)
        return low if self.full else high


@dataclass(frozen=True, slots=True)
class Split:
    """How the ranks share the model: tensor- and pipeline-parallel sizes."""

    tensor: int = 1
    pipeline: int = 1


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config.json: models of several modalities have it one level down."""
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping) and inner:
            return {**{name: config[name] for name in ("dtype", "torch_dtype") if name in config}, **inner}
    thinker = config.get("thinker_config")
    return text_config(thinker) if isinstance(thinker, Mapping) else config


def longest_context(config: Mapping[str, Any]) -> int:
    """The context the model was made for, 0 where config.json does not say (vLLM's max-model-len then comes
    from elsewhere)."""
    text = text_config(config)
    scaling = text.get("rope_scaling") or text.get("rope_parameters") or {}
    length = next((v for key in _LENGTHS if isinstance(v := text.get(key), int) and v > 0), 0)
    scaled = isinstance(scaling, Mapping) and scaling.get("rope_type", scaling.get("type")) in (
        "linear",
        "dynamic",
    )
    return 0 if scaled else length


_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")


def element_bytes(config: Mapping[str, Any], kv_dtype: str, dtype: str, checkpoint: str = "") -> float:
    """Bytes of an element of the cache; ``checkpoint`` is the cache's type that a quantized checkpoint names.
    Raises ``CantTellError``."""
    if kv_dtype not in ("", "auto"):
        if kv_dtype not in KV_DTYPES:
            raise CantTellError(f"how much the KV cache type {kv_dtype} takes is not known here")
        return KV_DTYPES[kv_dtype]
    if "fp8" in checkpoint.lower():
        return 1.0
    text = text_config(config)
    named = (
        dtype if dtype not in ("", "auto") else str(text.get("dtype") or text.get("torch_dtype") or "bfloat16")
    )
    # vLLM runs a float32 checkpoint in 16 bits unless told otherwise.
    if dtype in ("", "auto") and named.removeprefix("torch.") == "float32":
        return 2.0
    return DTYPES.get(named.removeprefix("torch."), 2.0)


def kv_cache(config: Mapping[str, Any], split: Split, element: float, *, hybrid: bool = True) -> KvCache:
    """The KV cache of one rank; with ``hybrid`` off vLLM keeps everything of sliding windows too. Raises
    ``CantTellError`` for configurations that are not known here."""
    text = text_config(config)
    layers = layer_kinds(text)
    if layers is None:
        raise CantTellError(f"the layers of {_model(config)} are of kinds that are not known here")
    full, windows, state = 0.0, dict[int, float](), 0.0
    for layer in layers:
        if layer is Layer.STATE:
            state += _state(text, split)
        elif layer is not Layer.NONE:
            size = _mla(text, element) if _is_mla(text) else _heads(text, split, layer) * element
            window = _window(text, layer)
            if window and hybrid:
                windows[window] = windows.get(window, 0.0) + size
            else:
                full += size
    # Stages of a pipeline get layers in order; the largest has its share rounded up.
    share = ceil(len(layers) / split.pipeline) / len(layers)
    return KvCache(full * share, tuple((w, size * share) for w, size in windows.items()), state * share)


def _window(text: Mapping[str, Any], layer: Layer) -> int:
    key = {Layer.SLIDING: "sliding_window", Layer.CHUNKED: "attention_chunk_size"}.get(layer, "")
    value = text.get(key) or (text.get("sliding_window_size") if layer is Layer.SLIDING else 0)
    return value if isinstance(value, int) else 0


def _is_mla(text: Mapping[str, Any]) -> bool:
    return isinstance(text.get("kv_lora_rank"), int) and text["kv_lora_rank"] > 0


def _mla(text: Mapping[str, Any], element: float) -> float:
    """Bytes a token and layer: the latent vector and the rotary part, and the index of sparse attention
    (vllm/model_executor/models/deepseek_v2.py: 128 bytes and a scale of four)."""
    if any(key in text for key in ("compress_ratios", "compress_ratio")):
        raise CantTellError("how far this model compresses its latent cache is not known here")
    size = (_number(text, "kv_lora_rank") + _number(text, "qk_rope_head_dim")) * element
    index = text.get("index_head_dim")
    return size + (index + index / 128 * 4 if isinstance(index, int) else 0.0)


def _heads(text: Mapping[str, Any], split: Split, layer: Layer) -> float:
    """Elements a token and layer: keys and values of this rank's heads."""
    heads = _number(text, "num_attention_heads", "n_head", "num_heads")
    kv = text.get("num_key_value_heads", text.get("num_kv_heads", text.get("n_head_kv", heads)))
    if layer is Layer.FULL and isinstance(text.get("num_global_key_value_heads"), int):
        kv = text["num_global_key_value_heads"]
    if isinstance(kv, Sequence):
        raise CantTellError("its layers have different numbers of KV heads")
    size = text.get("head_dim") or _number(text, "hidden_size", "n_embd") // heads
    if layer is Layer.FULL and isinstance(text.get("global_head_dim"), int):
        size = text["global_head_dim"]
    value = text.get("v_head_dim") or size
    return float(max(1, int(kv) // split.tensor) * (int(size) + int(value)))


def _state(text: Mapping[str, Any], split: Split) -> float:
    """Bytes a request and layer of gated linear attention (Qwen3-Next and later): the convolution's last
    inputs and the recurrent state, which is kept in 32 bits where the model says so."""
    needed = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    if not all(isinstance(text.get(key), int) for key in needed):
        raise CantTellError("the size of its recurrent state is not known here")
    keys, values, key_size, value_size = (int(text[key]) for key in needed)
    convolved = 2 * keys * key_size + values * value_size
    held = convolved * (int(text.get("linear_conv_kernel_dim", 4)) - 1) * 2.0
    precise = 4.0 if str(text.get("mamba_ssm_dtype", "")) == "float32" else 2.0
    return (held + values * key_size * value_size * precise) / split.tensor


def _number(text: Mapping[str, Any], *keys: str) -> int:
    for key in keys:
        value = text.get(key)
        if isinstance(value, int) and value > 0:
            return value
    raise CantTellError(f"its config.json does not say {keys[0]}")


def _model(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else str(config.get("model_type", "this model"))
