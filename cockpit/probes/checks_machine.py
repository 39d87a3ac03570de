"""Preflight of a host's resources: memory, what earlier runs left, disks, limits, power, clocks, CDI, sudo."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

from cockpit.model.verdict import Grade, Verdict
from cockpit.probes.asked import Asked, blocked, ready
from cockpit.probes.machine import Engine, MachineFacts

GIB = 1024**3
DROP = "sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'"

UTILISATION = 0.9
"""vLLM's default share of memory, in round figures (0.9 to 0.92 by version)."""

TRAPPED = 6 * GIB
"""Bytes in use that nobody answers for, beyond what kernel and driver need for themselves: our own choice."""

SHARED = GIB
"""Bytes of /dev/shm that the ranks of a host should have at the least: vLLM's message queue alone takes 240 MiB (0.32.0,
shm_broadcast.py: ten chunks of 24 MiB). Linux gives half of the memory."""

SKEW = 2.0
"""Seconds by which the hosts' clocks may differ: logs of both are read side by side."""

SLOWED = {
    0x08: "the hardware slows it down (heat or power)",
    0x20: "it is too hot",
    0x40: "it is far too hot",
    0x80: "the power supply slows it down",
}
"""Bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReasons) that cost speed."""


@cache
def known_bad(kind: str) -> tuple[Mapping[str, str], ...]:
    """What is known not to work: of ``kernel`` each with its name, of ``driver`` with ``words`` of its own; each
    with ``why``, ``remedy`` and ``source``."""
    text = (files("cockpit.probes") / "data" / "known_bad.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)[kind])


def kernel(asked: Asked) -> Iterable[Verdict]:
    """No kernel that is known to fail, by its name or by what gives it away."""
    for name, facts in asked.hosts.items():
        for bad in known_bad("kernel"):
            if facts.kernel == bad["kernel"]:
                observed = f"Linux {facts.kernel} is known to fail ({bad['source']})."
                yield blocked("kernel", name, observed, bad["why"], f"On {name}: {bad['remedy']}")
    for name, machine in asked.machines.items():
        free, total = machine.memory.get("CmaFree", 0), machine.memory.get("CmaTotal", 0)
        if free > total:
            observed = f"CmaFree ({free >> 20} MiB) is larger than CmaTotal ({total >> 20} MiB)."
            why = "The kernel's count of contiguous memory is broken: RDMA can't register memory on it."
            yield blocked(
                "kernel",
                name,
                observed,
                why,
                f"On {name}: sudo apt update && sudo apt full-upgrade && sudo reboot  (another kernel)",
            )


def driver(asked: Asked) -> Iterable[Verdict]:
    """No driver that is known to fail."""
    for name, facts in asked.machines.items():
        for bad in known_bad("driver"):
            if bad["words"] in facts.driver:
                observed = f"The driver is known to fail on a Spark ({bad['source']}): {facts.driver[:120]}."
                yield blocked("driver", name, observed, bad["why"], f"On {name}: {bad['remedy']}")


def memory(asked: Asked) -> Iterable[Verdict]:
    """What is available now is enough for what vLLM will ask for; a GPU with memory of its own and a build for
    the CPU are not judged."""
    share = _share(asked)
    for name, facts in asked.machines.items():
        told = (
            f"Memory: {facts.available / GIB:.1f} of {facts.total / GIB:.1f} GiB available, "
            f"page cache {facts.page_cache / GIB:.1f}, swapped out {facts.swapped / GIB:.1f}."
        )
        wanted = int(share * facts.total)
        if asked.ours or not _unified(asked, name):
            yield ready("memory", name, told)
        elif facts.available < wanted:
            why = f"GPU and host share this memory, and vLLM asks for {share:g} of it: {wanted / GIB:.1f} GiB."
            yield blocked("memory", name, told, why, f"On {name}: ps -eo pid,rss,args --sort=-rss | head")
        elif cache_in_the_way(asked, name):
            why = "vLLM's start-up check counts free memory, and the page cache is in the way (vllm#48140)."
            prepare = f"spark-cockpit prepare {asked.profile.word} --only cache"
            remedy = f"{prepare} ; or on {name}: {DROP}"
            yield Verdict("memory", (name,), Grade.SLOW, told, why, remedy)
        else:
            yield ready("memory", name, told)
        if facts.swapped > GIB:
            observed = f"{facts.swapped / GIB:.1f} GiB are swapped out."
            why = "What is swapped out comes back while weights load, and both wait for the disk."
            remedy = f"On {name}: sudo swapoff -a && sudo swapon -a"
            yield Verdict("swap", (name,), Grade.SLOW, observed, why, remedy)


def _share(asked: Asked) -> float:
    """The share of memory that vLLM will ask for."""
    share = asked.profile.serve.flags.get("gpu-memory-utilization", UTILISATION)
    return float(share) if isinstance(share, int | float) else UTILISATION


def cache_in_the_way(asked: Asked, name: str) -> bool:
    """Whether enough memory is available, and too little of it free: the page cache has the rest."""
    facts = asked.machines[name]
    wanted = int(_share(asked) * facts.total)
    return _unified(asked, name) and facts.memory.get("MemFree", 0) < wanted <= facts.available


def _unified(asked: Asked, name: str) -> bool:
    """Whether vLLM will count this host's memory as the GPU's: a GB10, and not vLLM's build for the CPU, which
    vLLM itself knows by its version (``vllm/platforms/__init__.py``, 0.32.0) whatever build of torch it has."""
    facts, inside = asked.hosts.get(name), asked.environments.get(name)
    on_cpu = inside is not None and "cpu" in inside.vllm
    return facts is not None and not on_cpu and any("GB10" in model for _, model in facts.gpus)


def leftovers(asked: Asked) -> Iterable[Verdict]:
    """Nothing of an earlier run holds memory."""
    if asked.ours:
        return
    for name, facts in asked.machines.items():
        found = [*_leftovers(asked, name, facts), *_trapped(asked, name, facts)]
        yield from found
        if not found:
            yield ready("leftovers", name, "No vLLM runs, and no shared memory is left of one.")


def _leftovers(asked: Asked, name: str, facts: MachineFacts) -> Iterable[Verdict]:
    for cluster in dict.fromkeys(one.cluster for one in facts.engines):
        engines = [one for one in facts.engines if one.cluster == cluster]
        told = ", ".join(f"{one.pid} ({one.name[:50]}, {one.bytes / GIB:.1f} GiB)" for one in engines[:5])
        why = "They hold memory, and perhaps the GPU, that this run needs."
        of = f" of the cluster {cluster}" if cluster else ""
        count, run = ("1 process", "runs") if len(engines) == 1 else (f"{len(engines)} processes", "run")
        observed = f"{count} of vLLM{of} {run}: {told}."
        yield Verdict("leftovers", (name,), Grade.SLOW, observed, why, _ending(asked, name, cluster, engines))
    others = [row for row in facts.containers if row[3] and row[3] != asked.profile.name]
    for identity, called, _image, label in others:
        why = "It holds memory of its own, and may hold the same ports."
        remedy = f"Take that cluster down with its own profile: spark-cockpit down {shlex.quote(label)}"
        observed = f"The cluster {label} has a container here ({called}, {identity})."
        yield Verdict("leftovers", (name,), Grade.SLOW, observed, why, remedy)
    if facts.shm_left > 64 << 20:
        observed = f"/dev/shm holds {facts.shm_left / GIB:.2f} GiB that no process has open."
        why = "It is memory, and stays in use until it is removed or the host restarts."
        remedy = f"On {name}: rm {' '.join(shlex.quote(path) for path in facts.shm_names[:5])}"
        yield Verdict("leftovers", (name,), Grade.SLOW, observed, why, remedy)


def _ending(asked: Asked, name: str, cluster: str, engines: Sequence[Engine]) -> str:
    """How processes of vLLM are ended: by whose they are."""
    if cluster == asked.profile.name:
        return f"spark-cockpit prepare {asked.profile.word} --only leftovers"
    if cluster:
        return f"Take that cluster down with its own profile: spark-cockpit down {shlex.quote(cluster)}"
    return f"If they are yours, on {name}: kill {' '.join(str(one.pid) for one in engines)}"


def _trapped(asked: Asked, name: str, facts: MachineFacts) -> Iterable[Verdict]:
    """Memory that the driver has not given back (sparkrun#223, eugr#257)."""
    trapped = facts.unaccounted or 0
    if trapped > TRAPPED and _unified(asked, name):
        observed = f"{trapped / GIB:.1f} GiB are in use and belong to no process."
        why = "The driver can keep an earlier run's memory; this run would not get it."
        remedy = f"On {name}: wait a minute and check again; else sudo reboot"
        yield Verdict("leftovers", (name,), Grade.SLOW, observed, why, remedy)


def disk(asked: Asked) -> Iterable[Verdict]:
    """Room where Ray, logs and the model's cache are written."""
    for name, facts in asked.machines.items():
        tight = [disk for disk in facts.disks if disk.size and disk.free < max(disk.size // 20, 256 << 20)]
        for each in tight:
            observed = (
                f"{each.path} is {100 - 100 * each.free // each.size} % full: {each.free / GIB:.2f} GiB left."
            )
            why = "Ray makes no objects on a disk that is 95 % full, and logs and caches need room too."
            remedy = f"On {name}: sudo du -xhd1 {shlex.quote(each.path)} | sort -h | tail"
            yield blocked("disk", name, observed, why, remedy)
        if facts.disks and not tight:
            told = ", ".join(f"{one.path} {one.free / GIB:.0f} GiB" for one in facts.disks)
            yield ready("disk", name, f"Disk that is free: {told}.")


def limits(asked: Asked) -> Iterable[Verdict]:
    """RDMA may lock its memory, and shared memory is large enough."""
    flags = asked.docker.run_flags if asked.docker else ()
    for name, facts in asked.machines.items():
        fabric = asked.fabrics.get(name)
        if fabric is None or not fabric.rdma:
            continue
        declared = _memlock(flags) if asked.docker else facts.memlock
        if declared != -1:
            observed = f"A process may lock {declared >> 20} MiB of memory."
            why = "RDMA works on gigabytes of memory that are locked (never swapped out); else NCCL fails with ibv_reg_mr."
            remedy = (
                "Take --ulimit memlock out of runtime.run_flags: the cockpit's own is unlimited."
                if asked.docker
                else f"On {name}: echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/memlock.conf ; "
                "then connect again"
            )
            yield blocked("limits", name, observed, why, remedy)
        else:
            yield ready("limits", name, "Memory may be locked without a limit.")
    yield from _shared_memory(asked)
    private = [flag for flag in flags if flag.startswith("--ipc") and "host" not in flag]
    if private and not any(flag.startswith("--shm-size") for flag in flags):
        why = "Docker then gives a container 64 MB of /dev/shm; NCCL and vLLM need gigabytes."
        names = tuple(asked.machines)
        yield Verdict(
            "limits",
            names,
            Grade.BLOCKED,
            f"runtime.run_flags has {private[0]} and no --shm-size.",
            why,
            "Take it out of runtime.run_flags: the cockpit's own is --ipc host; or add --shm-size=16g",
        )


def _shared_memory(asked: Asked) -> Iterable[Verdict]:
    """A container has the host's: the cockpit's own flag is --ipc host."""
    for name, facts in asked.machines.items():
        if 0 < facts.shm_size < SHARED:
            observed = f"/dev/shm can hold {facts.shm_size >> 20} MiB."
            why = "vLLM, NCCL and Ray pass data through it; a rank that finds it full ends with a bus error (SIGBUS)."
            remedy = f"On {name}: sudo mount -o remount,size=16g /dev/shm"
            yield Verdict("limits", (name,), Grade.SLOW, observed, why, remedy)


def _memlock(flags: tuple[str, ...]) -> int:
    text = " ".join(flags).replace("=", " ").split()
    values = [text[at + 1] for at, word in enumerate(text[:-1]) if word == "memlock"]
    value = values[-1].partition(":")[0] if values else "-1"
    return int(value) if value.lstrip("-").isdigit() else -1


def power(asked: Asked) -> Iterable[Verdict]:
    """The driver stays loaded, and nothing slows the GPU down."""
    for name, facts in asked.machines.items():
        if not facts.gpus and name in asked.hosts and asked.hosts[name].gpus:
            observed = "nvidia-smi shows the GPU, and does not tell its persistence mode and clocks."
            why = "Whether something slows the GPU down is not known."
            remedy = f"On {name}: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"
            yield Verdict("power", (name,), Grade.UNKNOWN, observed, why, remedy)
        for row in facts.gpus:
            if len(row) < 3:
                continue
            persistence, reasons, heat = row[:3]
            if persistence == "Disabled":
                why = "The driver is loaded anew at each start, which takes seconds and forgets its settings."
                remedy = f"On {name}: sudo nvidia-smi -pm 1"
                yield Verdict("power", (name,), Grade.SLOW, "Persistence mode is off.", why, remedy)
            bits = int(reasons, 16) if reasons.lower().startswith("0x") else 0
            slowed = [words for bit, words in SLOWED.items() if bits & bit]
            if slowed:
                observed = f"The GPU runs below its clocks: {', '.join(slowed)} ({heat} °C)."
                why = "Both ranks wait for the slower one, in every layer."
                remedy = (
                    f"On {name}: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER ; see to its air and supply"
                )
                yield Verdict("power", (name,), Grade.SLOW, observed, why, remedy)


def clocks(asked: Asked) -> Iterable[Verdict]:
    """The hosts' clocks agree; what a question's own time leaves open is not held against them."""
    machines = asked.machines
    if len(machines) < 2:
        return
    early, late = (
        min(machines, key=lambda name: machines[name].between[0]),
        max(machines, key=lambda name: machines[name].between[0]),
    )
    apart = machines[late].between[0] - machines[early].between[1]
    if apart > SKEW:
        observed = f"The clock of {late} is at least {apart:.1f} s ahead of that of {early}."
        why = "Logs of both hosts are read side by side, and tokens and certificates have times in them."
        remedy = f"On {late} and {early}: sudo timedatectl set-ntp true ; timedatectl"
        yield Verdict("clocks", (early, late), Grade.SLOW, observed, why, remedy)
    else:
        yield Verdict("clocks", tuple(machines), Grade.READY, f"The clocks agree within {SKEW:g} s.")


def cdi(asked: Asked) -> Iterable[Verdict]:
    """A description of the GPU for containers (CDI) is of the driver that runs."""
    for name, facts in asked.machines.items():
        running = asked.hosts[name].gpus[0][0] if name in asked.hosts and asked.hosts[name].gpus else ""
        for path, driver in facts.cdi:
            if running and driver != running:
                used = asked.docker and any("nvidia.com/gpu" in flag for flag in asked.docker.run_flags)
                observed = f"{path}, which describes the GPU to containers (CDI), is of driver {driver}; {running} runs."
                why = "A container started by it is given libraries that are not there any more."
                remedy = f"On {name}: sudo nvidia-ctk cdi generate --output={path}"
                grade = Grade.BLOCKED if used else Grade.SLOW
                yield Verdict("cdi", (name,), grade, observed, why, remedy)


def sudo(verdicts: Iterable[Verdict], machines: Mapping[str, MachineFacts]) -> Iterable[Verdict]:
    """Where a remedy needs root, whether the user can have it without a password."""
    for name, facts in machines.items():
        needed = [one for one in verdicts if name in one.hosts and "sudo " in one.remedy]
        if needed and not facts.sudo:
            observed = "sudo asks for a password here, or is not allowed."
            of = ", ".join(dict.fromkeys(one.id for one in needed))
            why = f"A remedy needs it ({of}): run that in a terminal of your own."
            yield Verdict("sudo", (name,), Grade.SLOW, observed, why, f"ssh -t {name} sudo -v")
