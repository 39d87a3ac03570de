"""What memory stands against a launch, as problems of the profile. Pure.

An error is only what can't be: more than there is, or a lower bound that is above an upper one. What is
likely to be tight is a warning, what is worth knowing a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import Place, Profile
from cockpit.serving.arguments import backend, number_of, value_of, world_size, written_key
from cockpit.serving.deep_explain import path
from cockpit.serving.memory_fit import BATCH, UTILISATION, Fit, HostMemory, ModelFacts, Wanted, fit
from cockpit.serving.memory_fit_config import Split
from cockpit.serving.schema import Schema

GIB = 1 << 30
UTILISATION_FLAG = "gpu-memory-utilization"
LENGTH_FLAG = "max-model-len"
TIGHT = 4 * GIB
"""What vLLM is likely to need beside weights and KV cache: activations, CUDA graphs, NCCL (0.8 to 3 GiB were
seen on H200)."""

DROP_CACHES = ("sudo", "sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches")

_SUFFIXES = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 1 << 10,
    "M": 1 << 20,
    "G": 1 << 30,
    "T": 1 << 40,
}


def size_of(value: object) -> int:
    """A flag's whole number as vLLM reads it (1k is 1000, 1K is 1024); 0 for ``auto``, -1 and what is none."""
    text = str(value).strip()
    if isinstance(value, bool) or not text:
        return 0
    factor = _SUFFIXES.get(text[-1], 0)
    try:
        return max(0, int(float(text[:-1]) * factor) if factor else int(text))
    except (ValueError, OverflowError):
        return 0


def wanted_of(profile: Profile, schema: Schema | None = None) -> Wanted:
    """What the profile's flags ask for; defaults are the schema's where there is one."""
    flags = profile.serve.flags

    def told(name: str, default: object) -> object:
        value = value_of(flags, name)
        known = schema.by_name.get(name) if schema else None
        return value if value is not None else known.default if known and known.default is not None else default

    quantization = told("quantization", "")
    return Wanted(
        split=Split(
            max(1, number_of(flags, "tensor-parallel-size", 1)),
            max(1, number_of(flags, "pipeline-parallel-size", 1)),
        ),
        utilisation=_share(told(UTILISATION_FLAG, UTILISATION)),
        length=size_of(told(LENGTH_FLAG, 0)),
        batch=size_of(told("max-num-batched-tokens", 0)) or BATCH,
        kv_dtype=str(told("kv-cache-dtype", "auto")),
        dtype=str(told("dtype", "auto")),
        quantization=quantization if isinstance(quantization, str) else "",
        offload=int(_share(told("cpu-offload-gb", 0), 1e6) * GIB),
        cache=size_of(told("kv-cache-memory-bytes", 0)),
        draft=value_of(flags, "speculative-config") is not None,
        language_only=value_of(flags, "language-model-only") is True,
        hybrid=value_of(flags, "disable-hybrid-kv-cache-manager") is not True,
        expert_parallel=value_of(flags, "enable-expert-parallel") is True,
    )


def _share(value: object, most: float = 1.0) -> float:
    try:
        number = float(str(value))
    except ValueError:
        return 0.0
    return number if 0 < number <= most else 0.0


def memory_problems(
    profile: Profile,
    model: ModelFacts | None,
    hosts: Sequence[HostMemory],
    schema: Schema | None = None,
    *,
    running: bool = False,
) -> tuple[Problem, ...]:
    """What stands against the launch on the hosts that were asked. ``running`` tells that this cluster's own
    run holds its memory, so that what is free now says nothing."""
    wanted = wanted_of(profile, schema)
    if not wanted.utilisation or not hosts:
        return ()
    free = () if running else _free(profile, wanted, hosts)
    if model is None or not model.found:
        return free
    smallest = min(hosts, key=lambda host: host.total)
    return (*free, *_fitting(profile, wanted, fit(model, wanted), smallest))


def _free(profile: Profile, wanted: Wanted, hosts: Sequence[HostMemory]) -> tuple[Problem, ...]:
    """vLLM refuses to start where less is free than the share it is to take."""
    problems = []
    for host in hosts:
        budget = wanted.utilisation * host.total
        if budget > host.free:
            problems.append(_too_little_free(profile, wanted, host))
        elif host.unified and budget > host.free - host.cache:
            fix = Fix(
                f"{host.host}  {' '.join(DROP_CACHES[:2])} -c '{DROP_CACHES[3]}'",
                {"run": {"host": host.host, "argv": list(DROP_CACHES)}},
            )
            problems.append(
                Problem(
                    UTILISATION_FLAG,
                    Severity.NOTE,
                    f"{host.host}: {_gib(host.free)} are available, of which {_gib(host.cache)} are page cache.",
                    why=f"vLLM is to take {_gib(budget)}; the kernel has to give up files it has read to make "
                    "room, which slows the load. Dropping the page cache first makes the room at once.",
                    fix=(fix,),
                    place=_place(profile, UTILISATION_FLAG),
                )
            )
    return tuple(problems)


def _too_little_free(profile: Profile, wanted: Wanted, host: HostMemory) -> Problem:
    share = int(host.free / host.total * 100) / 100
    fix = (_setting(profile, UTILISATION_FLAG, share),) if share >= 0.1 else ()
    dropping = (
        f" Dropping the page cache changes nothing: {_gib(host.cache)} of it are counted as available."
        if host.unified
        else ""
    )
    return Problem(
        UTILISATION_FLAG,
        Severity.ERROR,
        f"{host.host}: {UTILISATION_FLAG} {wanted.utilisation:g} is {_gib(wanted.utilisation * host.total)} of "
        f"{_gib(host.total)}, and {_gib(host.free)} are free.",
        why="vLLM ends at its start where less memory is free than it is to take. Something else on the host "
        f"holds the rest.{dropping}",
        fix=fix,
        place=_place(profile, UTILISATION_FLAG),
    )


def _fitting(profile: Profile, wanted: Wanted, found: Fit, host: HostMemory) -> tuple[Problem, ...]:
    budget = int(wanted.utilisation * host.total)
    if found.why_not or found.weights is None:
        return (_cannot_tell(profile, found),)
    if found.weights > budget:
        return (_weights_too_big(profile, wanted, found.weights, budget, host),)
    if found.kv is None or not found.length:
        return (_cannot_tell(profile, found),)
    room = wanted.cache or (found.room(budget) or 0)
    need = found.kv.request(found.length, wanted.batch)
    longest = found.kv.longest(max(room, 0), wanted.batch)
    if need > room:
        # Where the model or vLLM chooses the length, vLLM may choose a shorter one.
        sure = bool(wanted.length)
        return (_request_too_long(profile, wanted, found, (need, room, longest), host, sure=sure),)
    told = f"Weights take {_gib(found.weights)} a rank, one request of {found.length:,} tokens {_gib(need)}"
    likely = wanted.cache or room - TIGHT + int(0.77 * GIB)
    if need > likely:
        return (
            Problem(
                LENGTH_FLAG,
                Severity.WARNING,
                f"{told}: of {_gib(budget)} that leaves {_gib(max(room - need, 0))} for all else.",
                why="Activations and CUDA graphs need room too; vLLM may end for want of KV cache.",
                place=_place(profile, LENGTH_FLAG),
            ),
        )
    return (
        Problem(
            LENGTH_FLAG,
            Severity.NOTE,
            f"{told}: about {max(1, int(likely / need))} such requests at once in {_gib(budget)} of {host.host}.",
            why="From the model's safetensors headers and its config.json; vLLM measures it as it starts.",
            place=_place(profile, LENGTH_FLAG),
        ),
    )


def _weights_too_big(profile: Profile, wanted: Wanted, weights: int, budget: int, host: HostMemory) -> Problem:
    name = "tensor-parallel-size" if weights > 0.9 * host.total else UTILISATION_FLAG
    return Problem(
        name,
        Severity.ERROR,
        f"The weights take {_gib(weights)} a rank, more than the {_gib(budget)} that vLLM is to use of "
        f"{host.host}'s {_gib(host.total)}.",
        why="Each of the ranks holds its share of the weights. More ranks, a smaller model, or one quantized "
        "to fewer bits would fit."
        + ("" if name == UTILISATION_FLAG else " No share of this memory is enough."),
        place=_place(profile, name),
    )


def _request_too_long(
    profile: Profile, wanted: Wanted, found: Fit, sizes: tuple[int, int, int], host: HostMemory, *, sure: bool
) -> Problem:
    need, room, longest = sizes
    shorter = longest // 1024 * 1024
    fix = (_setting(profile, LENGTH_FLAG, shorter),) if shorter >= 1024 else ()
    room_told = f"{_gib(max(room, 0))} are left beside the weights' {_gib(found.weights or 0)}"
    if wanted.cache:
        room_told = f"kv-cache-memory-bytes gives it {_gib(wanted.cache)}"
    return Problem(
        LENGTH_FLAG,
        Severity.ERROR if sure else Severity.WARNING,
        f"One request of {found.length:,} tokens takes {_gib(need)} of KV cache a rank, and {room_told} on "
        f"{host.host}.",
        why="vLLM ends at its start when not even one request of max-model-len fits into the KV cache."
        + ("" if longest < 1024 else f" About {longest:,} tokens would fit at most."),
        fix=fix,
        place=_place(profile, LENGTH_FLAG),
    )


def _cannot_tell(profile: Profile, found: Fit) -> Problem:
    why = found.why_not or "the context length is not known"
    told = f"; the weights take {_gib(found.weights)} a rank at least" if found.weights else ""
    return Problem(
        LENGTH_FLAG,
        Severity.NOTE,
        f"Whether the KV cache fits can't be told before the start: {why}{told}.",
        place=_place(profile, LENGTH_FLAG),
    )


def _setting(profile: Profile, name: str, value: float | int) -> Fix:
    key = written_key(profile.serve.flags, name) or name
    return Fix(f"profile  {key}: {value}", {"set": {path(key): value}})


def _place(profile: Profile, name: str) -> Place | None:
    key = written_key(profile.serve.flags, name)
    return profile.place("serve", "flags", key) if key else profile.place("serve", "flags")


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def ranks_per_host(profile: Profile, gpus: Mapping[str, int]) -> dict[str, int]:
    """How many of the engine's ranks each host has: over Ray or nodes as its GPUs go, else all on the head."""
    flags = profile.serve.flags
    left = world_size(flags)
    if backend(flags) != "ray" and number_of(flags, "nnodes", 1) == 1:
        return {profile.head.name: left}
    found = {}
    for host in profile.hosts:
        found[host.name] = min(left, gpus.get(host.name, 1))
        left -= found[host.name]
    return {name: count for name, count in found.items() if count}
