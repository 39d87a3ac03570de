"""What a launch was: its arguments, version and topology, as its own log tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cockpit.diagnosis.reading import Hit

UNIFIED = (110.0, 130.0)
"""GiB that CUDA reports in all on a GB10 (119 to 122); no discrete card of such a size is on the market."""


@dataclass(frozen=True, slots=True)
class Situation:
    """``args`` are the arguments that differ from vLLM's defaults; ``unified`` whether the GPU shares the
    host's memory; None where the log does not tell. ``ranks`` has the address of each rank over Ray that the log
    tells of, "" for one on the driver's own node."""

    args: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    model: str = ""
    ray: bool = False
    nodes: int = 1
    world: int = 0
    unified: bool | None = None
    ready: bool = False
    gcs: str = ""
    ranks: Mapping[int, str] = field(default_factory=dict)

    @property
    def backend(self) -> str:
        """The executor backend asked for, "" when none was."""
        return str(self.args.get("distributed_executor_backend") or "")

    def number(self, name: str, default: float) -> float:
        """A number among the arguments."""
        value = self.args.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def parts(self) -> dict[str, str]:
        """The words that templates use."""
        return {
            "model": self.model or "the model",
            "version": self.version or "this release",
            "tp": str(int(self.number("tensor_parallel_size", 1))),
            "port": str(int(self.number("port", 8000))),
            "util": f"{self.number('gpu_memory_utilization', 0.9):g}",
            "len": str(int(self.number("max_model_len", 0)) or "the model's own length"),
        }


def _args(text: str) -> dict[str, Any]:
    """The dictionary that vLLM prints, as far as it can be read."""
    try:
        value = ast.literal_eval(text)
        return value if isinstance(value, dict) else {}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        pass
    found: dict[str, Any] = {}
    for name, word in re.findall(r"'(\w+)': ('[^']*'|[\d.]+|True|False|None)", text):
        try:
            found[name] = ast.literal_eval(word)
        except (ValueError, SyntaxError):
            continue
    return found


def situation(hits: Iterable[Hit]) -> Situation:
    """The situation that the ``fact`` hits of one attempt tell."""
    facts: dict[str, str] = {}
    seen: set[str] = set()
    ranks: dict[int, str] = {}
    for hit in hits:
        if hit.signature.id == "fact-world" and hit.head.process and "rank" in hit.parts:
            ranks[int(hit.parts["rank"])] = hit.head.ip
        seen.add(hit.signature.id)
        if hit.signature.role in ("fact", "begin", "stall"):
            for key, value in hit.parts.items():
                facts.setdefault(key, value)
    args = _args(facts.get("args", "")[:20000])
    total = facts.get("total_gib", "")
    size = float(total) if re.fullmatch(r"\d+(\.\d+)?", total) else 0.0
    unified = UNIFIED[0] < size < UNIFIED[1] if size else None
    nodes = args.get("nnodes", 1)
    ray = args.get("distributed_executor_backend") == "ray" or bool(seen & {"fact-ray", "fact-ray-actor"})
    return Situation(
        args=args,
        version=facts.get("version", ""),
        model=str(args.get("model") or args.get("model_tag") or facts.get("model", "")),
        ray=ray,
        nodes=nodes if isinstance(nodes, int) else 1,
        world=int(facts.get("world", "0")) if facts.get("world", "0").isdecimal() else 0,
        unified=True if "fact-gb10" in seen else unified,
        ready="ready" in seen,
        gcs=facts.get("gcs", ""),
        ranks=ranks,
    )
