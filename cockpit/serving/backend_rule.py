"""The rule that vLLM leaves to its user: ranks on more than one host need an executor that reaches them.

vLLM never chooses Ray by itself outside a Ray placement group; with no backend it looks for every GPU on its
own host and ends (vllm/config/parallel.py, 0.17.1 to 0.32.0, on CUDA only).
"""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import Profile
from cockpit.serving.arguments import (
    BACKEND_FLAG,
    WORLD_FLAGS,
    backend,
    number_of,
    world_size,
    written_key,
)

TO_RAY = Fix(
    f"profile  + {BACKEND_FLAG}: ray",
    {"set": {f"serve.flags.{BACKEND_FLAG}": "ray"}},
)
ONE_HOST_BACKENDS = ("mp", "uni")


def backend_problems(profile: Profile, gpus: Mapping[str, int]) -> tuple[Problem, ...]:
    """What stands between the profile's world size and its hosts.

    ``gpus`` has the GPUs each host brought, by name; a host that could not be asked is left out. A head of
    several hosts then counts with the one GPU of a DGX Spark; beside that, what is unknown is never held to
    be too little.
    """
    flags = profile.serve.flags
    size, executor, nodes = world_size(flags), backend(flags), number_of(flags, "nnodes", 1)
    local = gpus.get(profile.head.name, 1 if len(profile.hosts) > 1 else size)
    problems = []
    if executor == "ray" and nodes > 1:
        problems.append(_ray_with_nnodes(profile, nodes))
    elif nodes > 1:
        problems.append(_mp_over_hosts(profile))
    elif size > local and not executor:
        problems.append(_missing_backend(profile, size, local, gpus))
    elif size > local and executor in ONE_HOST_BACKENDS:
        problems.append(_backend_of_one_host(profile, size, local, executor))
    if _more_than_all(profile, size, gpus):
        problems.append(_too_few(profile, size, gpus))
    return tuple(problems)


def _missing_backend(profile: Profile, size: int, local: int, gpus: Mapping[str, int]) -> Problem:
    head = profile.head.name
    if len(profile.hosts) == 1:
        return _one_host_too_small(profile, size, local)
    total = sum(gpus.get(host.name, 1) for host in profile.hosts)
    count = len(profile.hosts)
    return Problem(
        BACKEND_FLAG,
        Severity.ERROR,
        f"Tensor parallelism over {_hosts(count)} was not told to use Ray: --{BACKEND_FLAG} is missing.",
        why=(
            f"World size is {size}, {head} has {_gpus(local)}, and no --{BACKEND_FLAG} is set, so vLLM looks "
            f"for {_every(size)} on {head} and ends in engine start. It never chooses Ray by itself. "
            f"The hosts have {_gpus(total)} together."
        ),
        fix=(TO_RAY,),
        place=profile.place("serve", "flags", _size_key(profile)),
    )


def _one_host_too_small(profile: Profile, size: int, local: int) -> Problem:
    name = _size_flag(profile)
    return Problem(
        name,
        Severity.ERROR,
        f"World size is {size}, and {profile.head.name}, the only host, has {_gpus(local)}.",
        why="vLLM needs one GPU for every rank and refuses to start with fewer.",
        fix=(Fix(f"profile  {name}: {local}", {"set": {f"serve.flags.{_size_key(profile)}": local}}),)
        if _only_size(profile)
        else (),
        place=profile.place("serve", "flags", _size_key(profile)),
    )


def _backend_of_one_host(profile: Profile, size: int, local: int, executor: str) -> Problem:
    """Measured on two H200 hosts, 0.24.0: ``DP adjusted local rank 1 is out of bounds for 1 devices``."""
    head = profile.head.name
    key = written_key(profile.serve.flags, BACKEND_FLAG) or BACKEND_FLAG
    fix = Fix(f"profile  {key}: ray", {"set": {f"serve.flags.{key}": "ray"}})
    return Problem(
        BACKEND_FLAG,
        Severity.ERROR,
        f"The backend {executor} keeps all ranks on {head}, which has {_gpus(local)} for {size} ranks.",
        why=(
            f"Without nnodes, {executor} starts every rank on its own host; there the rank without a GPU ends "
            "with an error that does not speak of Ray. Over hosts it has to be ray."
        ),
        fix=(fix,) if len(profile.hosts) > 1 else (),
        place=profile.place("serve", "flags", key),
    )


def _ray_with_nnodes(profile: Profile, nodes: int) -> Problem:
    drop = _nnodes_keys(profile)
    return Problem(
        "nnodes",
        Severity.ERROR,
        f"nnodes {nodes} and the backend ray exclude each other.",
        why="With Ray, vLLM learns the hosts from the Ray cluster; nnodes is for running without Ray.",
        fix=(
            Fix(
                f"profile  - {', '.join(drop)}",
                {"unset": [f"serve.flags.{name}" for name in drop]},
            ),
        ),
        place=profile.place("serve", "flags", drop[0]),
    )


def _nnodes_keys(profile: Profile) -> list[str]:
    """The keys that only a run without Ray has; nnodes, which is there, comes first."""
    names = ("nnodes", "node-rank", "master-addr", "master-port")
    return [key for name in names if (key := written_key(profile.serve.flags, name)) is not None]


def _mp_over_hosts(profile: Profile) -> Problem:
    drop = _nnodes_keys(profile)
    return Problem(
        "nnodes",
        Severity.ERROR,
        "Running over hosts without Ray (mp with nnodes) is not supported yet.",
        why=(
            "This version starts ranks on other hosts through Ray alone; use "
            f"{BACKEND_FLAG}: ray without nnodes."
        ),
        fix=(
            Fix(
                f"profile  + {BACKEND_FLAG}: ray  - {', '.join(drop)}",
                {
                    "set": {f"serve.flags.{BACKEND_FLAG}": "ray"},
                    "unset": [f"serve.flags.{name}" for name in drop],
                },
            ),
        ),
        place=profile.place("serve", "flags", drop[0]),
    )


def _too_few(profile: Profile, size: int, gpus: Mapping[str, int]) -> Problem:
    name = _size_flag(profile)
    total = sum(gpus[host.name] for host in profile.hosts)
    brought = ", ".join(f"{host.name} {gpus[host.name]}" for host in profile.hosts)
    return Problem(
        name,
        Severity.ERROR,
        f"World size is {size}, and all hosts together have {_gpus(total)}.",
        why=(
            f"The GPUs each host brought: {brought}. vLLM would wait half an hour for a placement group "
            "that can't be filled."
        ),
        fix=(Fix(f"profile  {name}: {total}", {"set": {f"serve.flags.{_size_key(profile)}": total}}),)
        if total and _only_size(profile)
        else (),
        place=profile.place("serve", "flags", _size_key(profile)),
    )


def _more_than_all(profile: Profile, size: int, gpus: Mapping[str, int]) -> bool:
    """Whether several hosts, all of them known, have fewer GPUs together than there are ranks."""
    names = [host.name for host in profile.hosts]
    return len(names) > 1 and all(name in gpus for name in names) and size > sum(gpus[name] for name in names)


def _size_flag(profile: Profile) -> str:
    """The largest of the sizes: the one to name."""
    return max(WORLD_FLAGS, key=lambda name: number_of(profile.serve.flags, name, 1))


def _size_key(profile: Profile) -> str:
    name = _size_flag(profile)
    return written_key(profile.serve.flags, name) or name


def _only_size(profile: Profile) -> bool:
    return sum(number_of(profile.serve.flags, name, 1) > 1 for name in WORLD_FLAGS) == 1


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _hosts(count: int) -> str:
    return "two hosts" if count == 2 else f"{count} hosts"


def _every(size: int) -> str:
    return "both GPUs" if size == 2 else f"all {size} GPUs"
