"""Flags and environments as a profile writes them.

A flag is written in the program's own spelling without the leading dashes: ``max-model-len``. Underscores for
dashes, vLLM's short forms (``tp``) and leading dashes are refused with the right word, so that a flag has one
name in the file, in the checks and in every fix.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from cockpit.model.profile import FlagValue
from cockpit.model.profile_nodes import Node, Scalar, Sequence

_FLAG = re.compile(r"[a-z][a-z0-9-]*(\.[A-Za-z0-9_.-]+)?")
_WORDS_FOR_BOOL = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}

SHORT_FORMS: Mapping[str, str] = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "ep": "enable-expert-parallel",
    "dcp": "decode-context-parallel-size",
    "pcp": "prefill-context-parallel-size",
    "n": "nnodes",
    "r": "node-rank",
    "q": "quantization",
    "sc": "speculative-config",
    "cc": "compilation-config",
    "ac": "attention-config",
    "O": "optimization-level",
}
"""vLLM 0.32.0, engine/arg_utils.py."""
_LEVEL = re.compile(r"-*O([0-9])")
"""``-O3``, which vLLM takes for ``-O 3``."""

SERVE_ELSEWHERE: Mapping[str, str] = {
    "model": "serve.model",
    "served-model-name": "serve.served_name",
    "api-key": "serve.secrets: [VLLM_API_KEY]",
    "config": "serve.flags, each flag by itself",
}
RAY_ELSEWHERE: Mapping[str, str] = {
    "head": "hosts[].role",
    "address": "hosts[].fabric.address of the head",
    "node-ip-address": "hosts[].fabric.address",
    "port": "ray.port",
    "dashboard-port": "ray.dashboard_port",
}
RAY_OWN = frozenset({"block", "include-dashboard", "dashboard-host"})
"""The cockpit sets these itself: it starts Ray detached and reads membership from the dashboard."""


def canonical(flag: str, short: Mapping[str, str]) -> str:
    """The flag in its one spelling: no leading dashes, dashes for underscores before a dot, no short form."""
    stem, dot, rest = flag.lstrip("-").partition(".")
    stem = short.get(stem, stem.replace("_", "-").lower())
    return stem + dot + rest


def name_mistake(flag: str, short: Mapping[str, str]) -> tuple[str, str]:
    """What is wrong with a flag's name, and the right word; "" twice when nothing is."""
    right = canonical(flag, short)
    if "O" in short and (level := _LEVEL.fullmatch(flag)):
        return "The level is the flag's value", f"{short['O']}: {level[1]}"
    if flag.startswith("-"):
        return "Flags are written without leading dashes", right
    if flag.partition(".")[0] in short:
        return "Flags are written by their long name", right
    if "_" in flag.partition(".")[0]:
        return "Flags are written with dashes, as on the command line", right
    if not _FLAG.fullmatch(flag):
        return "Expected a flag's name, such as max-model-len", right if _FLAG.fullmatch(right) else ""
    return "", ""


def positive(flag: str, short: Mapping[str, str]) -> str:
    """The flag whose ``--no-`` form ``flag`` is, else the flag itself."""
    return canonical(flag, short).removeprefix("no-")


def value_mistake(node: Node) -> tuple[str, str]:
    """What is wrong with a flag's value, and the right word; "" twice when nothing is."""
    if isinstance(node, Sequence):
        if not node.items:
            return "An empty list gives the flag no value", ""
        if any(not isinstance(item, Scalar) or item.value is None for item in node.items):
            return "A flag's list holds words and numbers only", ""
    if isinstance(node, Scalar):
        if node.value is None:
            return "The flag has no value: `true` gives the bare flag, `false` its --no- form", ""
        if node.plain and str(node.value).lower() in _WORDS_FOR_BOOL:
            right = _WORDS_FOR_BOOL[str(node.value).lower()]
            return (
                f"`{node.text}` is a word in YAML 1.2, not a switch (put quotes around it if you mean it)",
                right,
            )
    return "", ""


def plain_value(node: Node) -> FlagValue:
    """The node as plain data."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain_value(item) for item in node.items]
    return {key: plain_value(entry.node) for key, entry in node.entries.items()}


def scalars(node: Node) -> list[Scalar]:
    """Every scalar at or below the node."""
    if isinstance(node, Scalar):
        return [node]
    below = node.items if isinstance(node, Sequence) else tuple(entry.node for entry in node.entries.values())
    return [scalar for child in below for scalar in scalars(child)]


def env_mistake(node: Node) -> str:
    """What is wrong with an environment variable's value; "" when nothing is. Numbers count as written."""
    if not isinstance(node, Scalar):
        return "expected text or a number"
    if isinstance(node.value, bool):
        return f'`{node.text}` can mean "1" or "true" to a program: write the text it wants, in quotes'
    if node.value is None:
        return 'the variable has no value; write "" for an empty one'
    if isinstance(node.value, float) and not math.isfinite(node.value):
        return f"`{node.text}` is no number a program can use; put quotes around it if you mean the word"
    return ""


def finite(node: Scalar) -> bool:
    """Whether the value is no infinity and no NaN."""
    return not isinstance(node.value, float) or math.isfinite(node.value)
