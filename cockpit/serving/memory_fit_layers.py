"""What kind each layer of a model is, from its config.json. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any


class Layer(Enum):
    """Keeps all tokens; the last ones; the last chunk; a state of fixed size; nothing."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    STATE = "state"
    NONE = "none"


_WORDS = {
    "full_attention": Layer.FULL,
    "global": Layer.FULL,
    "attention": Layer.FULL,
    "sliding_attention": Layer.SLIDING,
    "chunked_attention": Layer.CHUNKED,
    "linear_attention": Layer.STATE,
}
"""Words of ``layer_types`` (transformers' configuration classes)."""

_UNKNOWN_HYBRIDS = (
    "hybrid_override_pattern",
    "layers_block_type",
    "attn_type_list",
    "attn_layer_indices",
    "block_types",
    "mamba_d_state",
    "state_size",
    "ssm_state_size",
    "linear_attn_config",
    "cross_attention_layers",
)


def layer_kinds(text: Mapping[str, Any]) -> tuple[Layer, ...] | None:
    """The kind of every layer; None where they are of kinds that are not known here."""
    count = next((v for key in _COUNTS if isinstance(v := text.get(key), int) and v > 0), 0)
    named = text.get("layer_types")
    if isinstance(named, list) and named:
        kinds = tuple(_WORDS.get(str(word)) for word in named[: count or None])
        return None if None in kinds else tuple(kind for kind in kinds if kind is not None)
    if not count or any(text.get(key) for key in _UNKNOWN_HYBRIDS):
        return None
    return _by_pattern(text, count)


_COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")


def _by_pattern(text: Mapping[str, Any], count: int) -> tuple[Layer, ...]:
    """Layers of models that say it by numbers."""
    interval = text.get("full_attention_interval")
    if isinstance(interval, int) and interval > 1 and "linear_num_value_heads" in text:
        return tuple(Layer.STATE if (at + 1) % interval else Layer.FULL for at in range(count))
    if not text.get("sliding_window") or text.get("use_sliding_window") is False:
        return (Layer.FULL,) * count
    pattern = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern")
    if isinstance(pattern, int) and pattern > 1:
        return tuple(Layer.SLIDING if (at + 1) % pattern else Layer.FULL for at in range(count))
    first = text.get("max_window_layers")
    if isinstance(first, int) and text.get("use_sliding_window"):
        return (Layer.FULL,) * min(first, count) + (Layer.SLIDING,) * max(0, count - first)
    return (Layer.SLIDING,) * count
