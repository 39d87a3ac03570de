"""Which line of a serve log speaks of which phase: data for ``phases``.

The texts are vLLM's from 0.11.2 to 0.32.0 and Ray's 2.60.0. Each pattern is searched in a line's message,
prefixes taken off; ``rank`` and ``detail`` are its optional groups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cockpit.model.progress import Phase


@dataclass(frozen=True, slots=True)
class Rule:
    """``engine`` rules speak for the whole engine, the others for the rank whose process printed them, else
    for ``rank``, where only that one prints the line. ``{}`` in ``detail`` stands for the pattern's group of
    that name."""

    phase: Phase
    pattern: re.Pattern[str]
    engine: bool = False
    detail: str = "{}"
    rank: int | None = None


def _engine(phase: Phase, pattern: str, detail: str = "{}") -> Rule:
    return Rule(phase, re.compile(pattern), True, detail)


def _rank(phase: Phase, pattern: str, detail: str = "{}", rank: int | None = None) -> Rule:
    return Rule(phase, re.compile(pattern), False, detail, rank)


RULES = (
    _engine(Phase.CONFIG, r"non-default args: "),
    _engine(Phase.CONFIG, r"Resolved architecture: (?P<detail>\S+)"),
    _engine(Phase.CONFIG, r"Using max model len (?P<detail>\d+)", "max model length {}"),
    _engine(Phase.CONFIG, r"Initializing a V1 LLM engine \((?P<detail>v[^)\s]+)\)", "engine {}"),
    _engine(Phase.RAY, r"Using address (?P<detail>\S+) set in the environment variable RAY_ADDRESS"),
    _engine(Phase.RAY, r"Connecting to existing Ray cluster at address: (?P<detail>\S+?)\.*$", "{}"),
    _engine(Phase.RAY, r"(?P<detail>Connected to Ray cluster)\."),
    _engine(Phase.RAY, r"(?P<detail>Started a local Ray instance)\."),
    _engine(Phase.PLACEMENT, r"No current placement group found\. Creating a new placement group"),
    _engine(
        Phase.PLACEMENT,
        r"Waiting for creating a placement group of specs for (?P<detail>\d+) seconds",
        "waiting for {} s",
    ),
    _rank(Phase.WORKERS, r"world_size=\d+ rank=(?P<rank>\d+) local_rank=\d+.* backend=(?P<detail>\w+)"),
    _rank(Phase.NCCL, r"vLLM is using nccl==(?P<detail>\S+)", "NCCL {}", rank=0),
    _rank(Phase.NCCL, r"rank (?P<rank>\d+) in world size \d+ is assigned as "),
    _rank(Phase.WEIGHTS, r"Starting to load model |Loading model from scratch\.\.\."),
    _rank(
        Phase.WEIGHTS,
        r"Filesystem type for checkpoints: .*Checkpoint size: (?P<detail>[\d.]+ GiB)",
        "checkpoint of {}",
    ),
    _rank(Phase.WEIGHTS, r"Loading weights took (?P<detail>[\d.]+) seconds", "weights took {} s"),
    _rank(Phase.PROFILING, r"Model loading took (?P<detail>[\d.]+ Gi?B)", "{} loaded"),
    _rank(Phase.PROFILING, r"Initial profiling/warmup run took (?P<detail>[\d.]+) s", "profiling took {} s"),
    _rank(Phase.PROFILING, r"Memory profiling takes (?P<detail>[\d.]+) seconds", "profiling took {} s"),
    _rank(Phase.COMPILE, r"Using cache directory: .* for vLLM's torch\.compile"),
    _rank(Phase.COMPILE, r"Warming up model for the compilation\.\.\.|Warming up done\."),
    _rank(Phase.COMPILE, r"Dynamo bytecode transform time: (?P<detail>[\d.]+ s)", "Dynamo {}"),
    _rank(Phase.COMPILE, r"Cache the graph (?:of compile range|for dynamic shape|of shape)"),
    _rank(
        Phase.COMPILE,
        r"Compiling a graph for (?:compile range|dynamic shape|shape).* takes (?P<detail>[\d.]+) s",
        "graph compiled in {} s",
    ),
    _rank(Phase.COMPILE, r"Directly load (?:the compiled graph|AOT compilation)", "from the cache"),
    _rank(Phase.COMPILE, r"torch\.compile (?:takes|took) (?P<detail>[\d.]+) s in total", "compile took {} s"),
    _rank(Phase.KV_CACHE, r"Available KV cache memory: (?P<detail>[\d.]+ GiB)", "{} for the KV cache"),
    _rank(
        Phase.KV_CACHE,
        r"Explicitly set \((?P<detail>[\d.]+)/[\d.]+\) GiB for KV cache",
        "{} GiB for the KV cache",
    ),
    _engine(Phase.KV_CACHE, r"KV cache size: (?P<detail>[\d,]+ tokens)", "{}"),
    _engine(
        Phase.KV_CACHE,
        r"^Maximum concurrency for [\d,]+ tokens per request: (?P<detail>[\d.]+x)",
        "concurrency {}",
    ),
    _rank(Phase.GRAPHS, r"Graph capturing finished in (?P<detail>[\d.]+) secs", "graphs took {} s"),
    _engine(Phase.API, r"init engine \(.*\) took (?P<detail>[\d.]+) s", "engine took {} s"),
    _engine(Phase.API, r"Starting vLLM (?:API )?server(?: \d+)? on (?P<detail>\S+)"),
    _engine(Phase.READY, r"^Application startup complete\."),
)

BAR = re.compile(
    r"(?:(?P<weights>Loading [\w ]*?(?:shards|Streamer|loader)[^:\r]*|Multi-thread loading [\w ]*shards)"
    r"|Capturing CUDA graphs?(?: shapes)?(?: \((?P<graphs>[^)]*)\))?)"
    r":\s+\d+%(?: Completed)? ?\|(?:[^|\r]*\| ?| )(?P<done>\d+)/(?P<total>\d+) \["
)
"""tqdm's bars: vLLM's own format for shards ("45% Completed | 9/20 ["), tqdm's for graphs
("40%|####  | 27/67 [")."""

HINTS = re.compile(
    "|".join(
        (
            "non-default args|Resolved arch|Using max model|V1 LLM engine|RAY_ADDRESS|Ray cluster",
            "local Ray inst|placement group|world_size=|in world size|using nccl",
            "to load model|Loading |loading ",
            "checkpoints: |rofiling|cache directory|Warming up|Dynamo|Cache the graph|Compiling a graph",
            "Directly load|torch.compile t|KV cache|Maximum conc|Graph capt|Capturing|init engine",
            "Starting vLLM|startup complete",
        )
    )
)
"""What every line that a rule matches holds: most lines are passed over by this alone."""
