"""A stand-in for nvidia-smi on the lab's hosts, which have no GPU; its table and its ``--help`` say so.

It answers in nvidia-smi's formats (driver 580) as a GB10 does: no memory total, used or free, but the memory
of each compute process. Those processes are real: the vLLM workers of this host, with the memory they really
have. The utilisation is those workers' share of the CPU since the last call. What can't be measured here is
``[N/A]``. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from cockpit.lab import processes

WORKERS = ("ray::RayWorkerProc", "ray::RayWorkerWrapper", "VLLM::Worker")
"""How vLLM's workers call themselves: under Ray (vLLM 0.32.0, and older), and without it."""

DRIVER = "580.95.05"
LABEL = "Spark Cockpit lab: a stand-in for nvidia-smi. No NVIDIA GPU or driver is here."
NOT_AVAILABLE = "[N/A]"
MIB = 1024 * 1024

_UNITS = {"memory": "MiB", "utilization": "%", "power": "W", "clocks": "MHz", "used_gpu_memory": "MiB"}
_ALIASES = {"used_memory": "used_gpu_memory", "gpu_name": "name", "gpu_uuid": "uuid"}
_UNMEASURED = (
    "memory.",
    "utilization.memory",
    "temperature.",
    "power.",
    "clocks.",
    "clocks_event_reasons.",
    "persistence_mode",
    "fan.",
    "pstate",
    "ecc.",
    "mig.",
)


@dataclass(frozen=True, slots=True)
class Worker:
    """A compute process: its memory in bytes, its CPU time in clock ticks."""

    pid: int
    name: str
    used: int
    ticks: int


def workers(folder: Path) -> tuple[Worker, ...]:
    """The vLLM workers of the host in ``folder``, by id."""
    named = ((pid, processes.title(pid)) for pid in sorted(processes.of_host(folder)))
    return tuple(
        Worker(pid, name, processes.memory(pid), processes.cpu_ticks(pid))
        for pid, name in named
        if name.startswith(WORKERS)
    )


def utilisation(folder: Path, found: tuple[Worker, ...], now: float) -> int:
    """The workers' share of this machine's CPU in percent since the last call, which ``folder`` remembers."""
    memory = folder / "nvidia-smi.last"
    try:
        last = json.loads(memory.read_text())
        before, since = last["ticks"], float(last["at"])
    except (OSError, ValueError, KeyError, TypeError):
        before, since = {}, 0.0
    ticks = {str(worker.pid): worker.ticks for worker in found}
    fresh = memory.with_name(f"nvidia-smi.{os.getpid()}")
    fresh.write_text(json.dumps({"at": now, "ticks": ticks}))
    fresh.replace(memory)
    spent = sum(count - before.get(pid, count) for pid, count in ticks.items())
    passed = (now - since) * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
    return max(0, min(100, round(100 * spent / passed))) if passed > 0 else 0


class Device:
    """The one GPU that this host's CPU stands in for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers = workers(folder)
        self.uuid = f"GPU-{uuid.uuid5(uuid.NAMESPACE_URL, str(folder))}"

    def gpu_field(self, field: str) -> str | None:
        """The value of a field of ``--query-gpu`` with its unit; None where there is no such field."""
        known = {
            "index": "0",
            "count": "1",
            "name": "NVIDIA GB10",
            "uuid": self.uuid,
            "driver_version": DRIVER,
            "compute_cap": "12.1",
            "pci.bus_id": "0000000F:01:00.0",
            "pci.bus": "0x01",
            "timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"),
        }
        if field in known:
            return known[field]
        if field == "utilization.gpu":
            return f"{utilisation(self.folder, self.workers, time.monotonic())} %"
        return NOT_AVAILABLE if field.startswith(_UNMEASURED) else None

    def app_field(self, worker: Worker, field: str) -> str | None:
        """The value of a field of ``--query-compute-apps`` for one process."""
        if field in ("name", "process_name"):
            return worker.name
        known = {"pid": str(worker.pid), "used_gpu_memory": f"{worker.used // MIB} MiB"}
        return known.get(field) or (self.gpu_field(field) if field in ("uuid", "timestamp") else None)


def header(field: str) -> str:
    """A column's title: the field as asked for, with its unit. ``used_memory`` is titled by its other name."""
    title = "used_gpu_memory" if field == "used_memory" else field
    unit = _UNITS.get(title) or _UNITS.get(title.split(".")[0], "")
    return f"{title} [{unit}]" if unit else title


def without_unit(cell: str) -> str:
    """A title or a value as ``nounits`` has it."""
    for unit in sorted(set(_UNITS.values())):
        cell = cell.removesuffix(f" [{unit}]").removesuffix(f" {unit}")
    return cell


def table(device: Device, fields: list[str], options: list[str], *, apps: bool) -> str:
    """The CSV; raises ``KeyError`` with the name of a field that isn't one."""
    probe = Worker(0, "", 0, 0)
    rows: list[list[str]] = []
    for worker in device.workers if apps else (probe,):
        rows.append([_cell(device, worker, field, apps=apps) for field in fields])
    for field in fields:
        _cell(device, probe, field, apps=apps)
    if "noheader" not in options:
        rows.insert(0, [header(field) for field in fields])
    if "nounits" in options:
        rows = [[without_unit(cell) for cell in row] for row in rows]
    return "".join(", ".join(row) + "\n" for row in rows)


def _cell(device: Device, worker: Worker, field: str, *, apps: bool) -> str:
    name = _ALIASES.get(field, field)
    value = device.app_field(worker, name) if apps else device.gpu_field(name)
    if value is None:
        raise KeyError(field)
    return value


def overview(device: Device) -> str:
    """The table without options, as far as there is something to tell."""
    rule = "+" + "-" * 89 + "+"
    busy = utilisation(device.folder, device.workers, time.monotonic())
    lines = [
        time.strftime("%a %b %e %H:%M:%S %Y"),
        rule,
        f"| {LABEL:<87} |",
        f"| {f'NVIDIA-SMI {DRIVER}':<37} {f'Driver Version: {DRIVER}':<30} {'CUDA Version: 13.0':>17} |",
        rule,
        f"| {'GPU  Name':<43} {'Memory-Usage':>22} {'GPU-Util':>20} |",
        f"| {'  0  NVIDIA GB10 (stand-in)':<43} {'Not Supported':>22} {f'{busy}%':>20} |",
        rule,
        "",
        rule,
        f"| {'Processes:':<87} |",
        f"| {' GPU              PID   Type   Process name':<70} {'GPU Memory':>16} |",
        f"|{'=' * 89}|",
    ]
    for worker in device.workers:
        name = f"   0  {worker.pid:>15}      C   {worker.name[:40]}"
        lines.append(f"| {name:<70} {f'{worker.used // MIB}MiB':>16} |")
    if not device.workers:
        lines.append(f"| {' No running processes found':<87} |")
    return "\n".join([*lines, rule, ""])


def answer(arguments: list[str], folder: Path) -> tuple[int, str]:
    """The exit status and the text for ``arguments``; an unknown option has status 2, as nvidia-smi's."""
    options: list[str] = []
    query: tuple[str, list[str]] | None = None
    device = Device(folder)
    rest = [a for a in arguments if a not in ("-i", "0", "--id=0", "-i0")]
    if rest == ["-L"] or rest == ["--list-gpus"]:
        return 0, f"GPU 0: NVIDIA GB10 (UUID: {device.uuid})\n"
    if rest in (["-h"], ["--help"]):
        return (
            0,
            f"{LABEL}\nIt knows -L, --query-gpu, --query-compute-apps and --format=csv[,noheader][,nounits].\n",
        )
    for argument in rest:
        key, _, value = argument.partition("=")
        if key in ("--query-gpu", "--query-compute-apps") and value:
            query = (key, [field.strip() for field in value.split(",")])
        elif key == "--format" and value:
            options = [option.strip() for option in value.split(",")]
        else:
            return 2, f"Invalid combination of input arguments. {LABEL}\n"
    if query is None:
        return 0, overview(device)
    if "csv" not in options:
        return 2, '"--format=" switch is missing.\n'
    try:
        return 0, table(device, query[1], options, apps=query[0] == "--query-compute-apps")
    except KeyError as field:
        return 2, f'Field "{field.args[0]}" is not a valid field to query.\n\n'


def main() -> None:
    """``python -m cockpit.lab.nvidia_smi FOLDER [OPTION...]`` answers for the host in FOLDER."""
    status, text = answer(sys.argv[2:], Path(sys.argv[1]))
    sys.stdout.write(text)
    sys.exit(status)


if __name__ == "__main__":
    main()
