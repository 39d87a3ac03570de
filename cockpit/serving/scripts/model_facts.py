"""The facts of a model that memory depends on: prints one line of JSON. Imports nothing of vLLM.

Argument: JSON with ``model`` (a folder, or an id of the hub), ``revision`` ("" for main) and ``env`` (the
variables of the serve that say where the hub's cache is). Answer: ``found``, ``path``, ``config`` (its
config.json), ``quantization`` (hf_quant_config.json, where there is one), ``groups`` (bytes of the tensors,
summed up by what their names and shapes tell, see ``kind``), ``tensors``, ``bytes``, ``unread`` (weight files
whose header can't be read).
"""

import json
import os
import re
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from cockpit.runtime.scripts.hub import model_folder, snapshot

LARGEST = 4 << 20  # bytes of a config.json or of a header that are read
NOT_DEALT = (
    r"norm|layernorm|\.ln_|router|\.gate\.(weight|e_score)|kv_a_proj|q_a_proj|wq_a|wkv_a|fused_qkv_a|rotary"
    r"|inv_freq|indexer|compressor|a_log|dt_bias|conv1d|e_score_correction|hc_|_scale$|input_scale|weight_scale_2"
)


def read(path: Path) -> "dict[str, Any]":
    """A JSON object, {} where there is none."""
    try:
        if path.stat().st_size > LARGEST:
            return {}
        told = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def files(folder: Path) -> "list[Path]":
    """The weight files: those the index names, else every safetensors file."""
    names = read(folder / "model.safetensors.index.json").get("weight_map")
    if isinstance(names, dict) and names:
        return [folder / str(name) for name in sorted(set(map(str, names.values())))]
    return sorted(folder.glob("*.safetensors"))


def header(path: Path) -> "dict[str, Any] | None":
    """A safetensors file's header, None where it can't be read."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > 256 << 20:
                return None
            told = json.loads(file.read(length))
    except (OSError, ValueError, struct.error):
        return None
    return told if isinstance(told, dict) else None


def kind(name: str, shape: "list[int]") -> str:
    """What tensor parallelism does with a tensor.

    draft: a multi-token-prediction head, loaded for speculative decoding only; vision: another modality's
    encoder; expert: one of a mixture's experts; embedding: input embedding and output head; kv: keys and
    values, dealt out by heads; whole: on every rank whole; dealt: dealt out to the ranks.
    """
    lower = name.lower()
    if re.search(r"(^|\.)mtp\b|(^|\.)mtp\.|nextn|eagle", lower):
        return "draft"
    if re.search(r"visual|vision|audio|image|mm_projector|multi_modal_projector", lower):
        return "vision"
    if re.search(r"experts?\.(\d+\.)?", lower) and "shared_expert" not in lower:
        return "expert"
    if re.search(r"embed_tokens|lm_head|wte\.|word_embeddings", lower):
        return "embedding"
    if re.search(NOT_DEALT, lower) or len([size for size in shape if size > 1]) < 2:
        return "whole"
    return "kv" if re.search(r"\.(k|v)_proj\.", lower) else "dealt"


def weigh(folder: Path) -> "dict[str, Any]":
    """The tensors' bytes, by layer where that matters (pipeline stages are cut by layers) and by kind."""
    groups: Counter[str] = Counter()
    unread, count = [], 0
    for path in files(folder):
        told = header(path)
        if told is None:
            unread.append(path.name)
            continue
        for name, entry in told.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            groups[f"{kind(name, entry['shape'])}:{entry['dtype']}"] += end - begin
            count += 1
    return {"groups": dict(groups), "tensors": count, "bytes": sum(groups.values()), "unread": unread}


def main(asked: "dict[str, Any]") -> None:
    """Print the answer."""
    env = {**os.environ, **asked["env"]}
    local = Path(asked["model"])
    folder = (
        local if local.is_dir() else snapshot(model_folder(asked["model"], env), asked["revision"] or "main")
    )
    answer: dict[str, Any] = {"found": folder is not None, "path": str(folder or "")}
    if folder is not None:
        answer["config"] = read(folder / "config.json")
        answer["quantization"] = read(folder / "hf_quant_config.json").get("quantization") or {}
        answer.update(weigh(folder))
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
