"""What processes wait in, as their Python stacks tell (the output of ``py-spy dump``). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cockpit.diagnosis.sources import STACKS, Source
from cockpit.model.finding import Confidence, Evidence, Explanation, Finding, Severity

_PROCESS = re.compile(r"Process (?P<pid>\d+): ?(?P<title>.*)")
_TITLE = re.compile(r"## process (?P<pid>\d+) (?P<title>.*)")
_THREAD = re.compile(r"Thread (?P<id>\S+) \((?P<state>[\w+]+)\)(?:: \"(?P<name>.*)\")?")
_FRAME = re.compile(r"    (?P<function>.+) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)$")
_REFUSED = re.compile(r"## (?P<what>missing|refused)(?: (?P<pid>\d+))? (?P<why>.*)")
_RANK = re.compile(r"Worker\w*?_?TP(?P<rank>\d+)")

_PLACES = (
    (r"init_process_group|_store_based_barrier|_tcp_rendezvous|rendezvous_handler|_create_c10d_store|TCPStore", "",
     "the rendezvous of the ranks: another rank has not come"),
    (r"create_placement_group|_wait_until_pg_ready|initialize_ray_cluster", "",
     "Ray's placement group: the cluster has too few free GPUs"),
    (r"", r"pynccl(?:_wrapper)?\.py|distributed/distributed_c10d\.py|cuda_communicator|cpu_communicator|"
     r"communication_op\.py|base_device_communicator", "a collective operation: it waits for the other ranks"),
    (r"all_reduce|all_gather|broadcast_object|barrier|reduce_scatter", "parallel_state|torch/distributed",
     "a collective operation: it waits for the other ranks"),
    (r"acquire_write", "shm_broadcast", "the shared-memory broadcast: a rank does not read what it is sent"),
    (r"acquire_read|dequeue|wait_for_data|wait", "shm_broadcast", "the shared-memory broadcast: it waits for a message"),
    (r"", r"safetensors|weight_utils\.py|default_loader\.py|model_loader/", "the load of the weights"),
    (r"", r"torch/_inductor|torch/_dynamo|vllm/compilation|triton/compiler|triton/backends", "a compilation"),
    (r"capture_model|_dummy_run|determine_available_memory|profile_run|capture", "model_runner|gpu_worker|cudagraph",
     "the profiling run or the capture of CUDA graphs"),
    (r"synchronize|current_stream|item$|tolist", "torch/cuda|model_runner|gpu_worker", "the GPU: a kernel does not end"),
    (r"", r"ray/_private/worker\.py|ray/_raylet|ray/_private/client_mode_hook", "an answer of Ray"),
    (r"_find_and_load|_load_unlocked|exec_module|get_code", "importlib", "imports"),
    (r"", r"zmq/|asyncio/|uvloop|selectors\.py|queue\.py", "work: nothing is asked of it"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: ``state`` as py-spy tells it ("active", "idle"), ``frames`` innermost first, as printed."""

    name: str
    state: str
    frames: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where one process is: ``place`` in words, ``frame`` the telling one and its line in the source."""

    source: Source
    pid: int
    title: str
    place: str
    frame: str
    line: int

    @property
    def who(self) -> str:
        """The process as people call it."""
        rank = _RANK.search(self.title)
        if rank:
            return f"rank {rank['rank']}"
        if "EngineCore" in self.title:
            return "the engine"
        return "a rank" if "Worker" in self.title else "the API server"


def waiting(sources: Sequence[Source]) -> list[Waiting]:
    """Where every process of the stacks among ``sources`` is."""
    found = []
    for source in sources:
        if source.role == STACKS:
            for pid, title, threads in _processes(bytes(source.data).decode("utf-8", "replace")):
                thread = next(
                    (one for one in threads if one.name == "MainThread"), threads[0] if threads else None
                )
                if thread is not None:
                    place, frame, line = _place(thread)
                    found.append(Waiting(source, pid, title, place, frame, line))
    return found


def refused(sources: Sequence[Source]) -> list[str]:
    """Why there are no stacks of a host or a process, in words."""
    found = []
    for source in sources:
        if source.role != STACKS:
            continue
        for line in bytes(source.data).decode("utf-8", "replace").split("\n"):
            match = _REFUSED.match(line)
            if match:
                process = f"process {match['pid']}: " if match["pid"] else ""
                found.append(
                    f"No stacks of {source.host}: {process}{match['why'].strip()}.{_remedy(match['why'])}"
                )
    return list(dict.fromkeys(found))


def _remedy(why: str) -> str:
    if "py-spy is not" in why:
        return (
            " Use an image that has it (Ray's dashboard needs it: ray[default]); nothing is installed on hosts."
        )
    if re.search(r"(?i)permission|ptrace|operation not permitted", why):
        return (
            " Tracing is not permitted there: in a container add --cap-add=SYS_PTRACE to runtime.run_flags; on a host "
            "kernel.yama.ptrace_scope must be 0, or py-spy be run by root."
        )
    return ""


def _processes(text: str) -> Iterator[tuple[int, str, list[Thread]]]:
    pid, title, threads = 0, "", list[Thread]()
    for number, line in enumerate(text.split("\n"), 1):
        match = _TITLE.match(line) or (None if title else _PROCESS.match(line))
        if match:
            if threads:
                yield pid, title, threads
            pid, title, threads = int(match["pid"]), match["title"], []
            continue
        thread = _THREAD.match(line)
        if thread:
            threads.append(Thread(thread["name"] or "", thread["state"], (), number))
        elif threads and _FRAME.match(line):
            last = threads[-1]
            threads[-1] = Thread(last.name, last.state, (*last.frames, line.strip()), last.line)
    if threads:
        yield pid, title, threads


def _place(thread: Thread) -> tuple[str, str, int]:
    """The first place, from the innermost frame out, that says something; else the innermost frame itself."""
    for functions, files, place in _PLACES:
        for number, frame in enumerate(thread.frames):
            match = _FRAME.match(f"    {frame}")
            if match and re.search(functions, match["function"]) and re.search(files, match["file"]):
                return place, frame, thread.line + 1 + number
    first = thread.frames[0] if thread.frames else "no Python frame"
    return f"{first}", first, thread.line + 1


def told_with(told: Explanation, sources: Sequence[Source]) -> Explanation:
    """The explanation with what the stacks among ``sources`` add: where every process is, or why they don't tell."""
    found, why = waiting(sources), refused(sources)
    if not found:
        return replace(told, next=(*told.next, *why)) if why else told
    words = "; ".join(f"{_on(one)}{one.who} (process {one.pid}) is in {one.place}" for one in found)
    lines = tuple(Evidence(one.source.name, one.line, one.frame) for one in found)
    hangs = told.status == "stalled" or any(finding.kind == "hang-timeout" for finding in told.findings)
    if told.findings and hangs:
        first = told.findings[0]
        first = replace(
            first, cause=f"{first.cause} By the Python stacks: {words}.", evidence=(*first.evidence, *lines)
        )
        return replace(told, findings=(first, *told.findings[1:]), next=(*told.next, *why))
    if told.findings:
        return told
    cause = f"The Python stacks, when they were taken: {words}."
    note = Finding("hang-timeout", Severity.NOTE, cause, Confidence.POSSIBLE, "", (), lines)
    return replace(told, findings=(note,), next=(*told.next, *why))


def _on(one: Waiting) -> str:
    return f"on {one.source.host} " if one.source.host else ""
