"""From the profile's flag map to vLLM's command line, and the few facts that are read from the map itself.

The profile writes flags in vLLM's own names. Underscores and the short names are taken as vLLM takes them
(vllm/utils/argparse_utils.py and engine/arg_utils.py, 0.32.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from cockpit.model.profile import FlagValue, Profile

Flags = Mapping[str, FlagValue]

SHORT_NAMES = {
    "ac": "attention-config",
    "asc": "api-server-count",
    "cc": "compilation-config",
    "dc": "diffusion-config",
    "dcp": "decode-context-parallel-size",
    "dp": "data-parallel-size",
    "dpa": "data-parallel-address",
    "dpb": "data-parallel-backend",
    "dpe": "data-parallel-external-lb",
    "dph": "data-parallel-hybrid-lb",
    "dpl": "data-parallel-size-local",
    "dpm": "data-parallel-multi-port-external-lb",
    "dpn": "data-parallel-rank",
    "dpp": "data-parallel-rpc-port",
    "dpr": "data-parallel-start-rank",
    "ep": "enable-expert-parallel",
    "n": "nnodes",
    "O": "optimization-level",
    "pcp": "prefill-context-parallel-size",
    "pp": "pipeline-parallel-size",
    "q": "quantization",
    "r": "node-rank",
    "sc": "speculative-config",
    "tp": "tensor-parallel-size",
}
"""vLLM's short options and the long names behind them (0.32.0)."""

WORLD_FLAGS = ("tensor-parallel-size", "pipeline-parallel-size", "prefill-context-parallel-size")
"""The sizes whose product is the world size (vllm/config/parallel.py, 0.32.0; data and decode-context
parallelism don't count)."""

BACKEND_FLAG = "distributed-executor-backend"


def canonical(name: str) -> str:
    """A flag's long name: no leading dashes, dashes for underscores (but not after a dot, where a JSON
    field's own name begins), the long form of a short name."""
    bare = name.lstrip("-")
    head, dot, field = bare.partition(".")
    return SHORT_NAMES.get(head, head.replace("_", "-")) + dot + field


def written_key(flags: Flags, name: str) -> str | None:
    """The key under which the profile has the flag ``name`` (a long name), None where it has not."""
    return next((key for key in flags if canonical(key) == name), None)


def value_of(flags: Flags, name: str) -> FlagValue:
    """The value of the flag ``name`` (a long name), however the profile writes it; None where it is not."""
    key = written_key(flags, name)
    return None if key is None else flags[key]


def number_of(flags: Flags, name: str, default: int) -> int:
    """The whole number given for ``name``, also as a string. Anything else is for vLLM's parser to refuse:
    ``default`` then."""
    value = value_of(flags, name)
    if isinstance(value, bool):
        return default
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value)
    return default


def world_size(flags: Flags) -> int:
    """How many ranks one engine has: TP x PP x PCP."""
    size = 1
    for name in WORLD_FLAGS:
        size *= max(1, number_of(flags, name, 1))
    return size


def backend(flags: Flags) -> str:
    """The declared distributed-executor-backend, "" where none is."""
    value = value_of(flags, BACKEND_FLAG)
    return value if isinstance(value, str) else ""


def serve_argv(profile: Profile) -> tuple[str, ...]:
    """``vllm serve MODEL ...`` as it will run, flags in the profile's order."""
    serve = profile.serve
    argv = ["vllm", "serve", serve.model]
    if serve.served_name and written_key(serve.flags, "served-model-name") is None:
        argv += ["--served-model-name", serve.served_name]
    for name, value in serve.flags.items():
        argv += flag_argv(name, value)
    return tuple(argv)


def flag_argv(name: str, value: FlagValue) -> list[str]:
    """One flag of the map as arguments.

    ``true`` and nothing give the bare flag, ``false`` its ``--no-`` form, a list the flag followed by its
    values, a mapping JSON. A value with a leading dash is joined by ``=``, lest it be read as a flag.
    """
    option = option_of(name)
    if value is True or value is None:
        return [option]
    if value is False:
        return [f"--no-{canonical(name)}"]
    if isinstance(value, list):
        return [option, *(_text(item) for item in value)]
    text = _text(value)
    return [f"{option}={text}"] if text.startswith("-") else [option, text]


def option_of(name: str) -> str:
    """``name`` with its dashes: one for vLLM's short names, two for all else."""
    bare = name.lstrip("-")
    return f"-{bare}" if bare.partition(".")[0] in SHORT_NAMES else f"--{bare}"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | dict | list) or value is None:
        return json.dumps(value, separators=(",", ":"))
    return str(value)
