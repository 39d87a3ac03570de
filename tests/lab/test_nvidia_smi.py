"""The nvidia-smi stand-in speaks the real one's formats and tells only what is so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.lab import processes
from cockpit.lab.lab import LabInfo
from cockpit.lab.nvidia_smi import answer, header, without_unit
from cockpit.probes.scripts.machine_facts import GPU_FIELDS as PREFLIGHT_FIELDS
from tests.lab.ssh import ssh, ssh_argv

# Header lines of nvidia-smi 580.159.04.
GPU_HEADER = (
    "index, name, uuid, driver_version, memory.total [MiB], memory.used [MiB], memory.free [MiB], "
    "memory.reserved [MiB], utilization.gpu [%], temperature.gpu, power.draw [W], pstate, compute_cap, pci.bus_id"
)
GPU_FIELDS = (
    "index,name,uuid,driver_version,memory.total,memory.used,memory.free,memory.reserved,utilization.gpu,"
    "temperature.gpu,power.draw,pstate,compute_cap,pci.bus_id"
)
APPS_HEADER = "pid, process_name, used_gpu_memory [MiB], gpu_uuid"
MIB = 1024 * 1024

WORKER = """
import os, sys
if sys.argv[1:]:
    os.execv(sys.executable, ["ray::RayWorkerProc.run", "-c", sys.argv[1]])
"""
HOLD = "held = b'x' * (64 << 20); print('up', flush=True); import sys; sys.stdin.read()"


def test_what_preflight_asks_is_answered(tmp_path: Path) -> None:
    status, text = answer([f"--query-gpu={PREFLIGHT_FIELDS}", "--format=csv,noheader"], tmp_path)
    assert (status, text) == (0, "[N/A], [N/A], [N/A]\n")


def smi(info: LabInfo, host: str, options: str) -> subprocess.CompletedProcess[bytes]:
    return ssh(info, host, f"nvidia-smi {options}")


def lines(info: LabInfo, host: str, options: str) -> list[str]:
    done = smi(info, host, options)
    assert done.returncode == 0, done.stdout
    return done.stdout.decode().splitlines()


@pytest.fixture
def worker(lab_info: LabInfo) -> Iterator[int]:
    """A real process on the second host, titled as Ray titles a worker; the value is its id."""
    from shlex import join

    command = "echo $$; exec " + join([sys.executable, "-c", WORKER, HOLD])
    argv = ssh_argv(lab_info, "spark-2", command)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        pid = int(process.stdout.readline())
        assert process.stdout.readline() == b"up\n"
        yield pid
        process.stdin.close()
        process.wait(30)


@pytest.mark.lab
def test_titles_are_the_real_ones(lab_info: LabInfo) -> None:
    assert lines(lab_info, "spark-1", f"--query-gpu={GPU_FIELDS} --format=csv")[0] == GPU_HEADER
    query = "--query-compute-apps=pid,process_name,used_memory,gpu_uuid --format=csv"
    assert lines(lab_info, "spark-1", query) == [APPS_HEADER]


@pytest.mark.lab
def test_memory_is_not_available_as_on_a_gb10(lab_info: LabInfo) -> None:
    query = (
        "--query-gpu=name,memory.total,memory.used,memory.free,temperature.gpu --format=csv,noheader,nounits"
    )
    assert lines(lab_info, "spark-1", query) == ["NVIDIA GB10, [N/A], [N/A], [N/A], [N/A]"]


@pytest.mark.lab
def test_a_worker_is_listed_on_its_host_alone_with_its_memory(lab_info: LabInfo, worker: int) -> None:
    query = "--query-compute-apps=pid,process_name,used_memory --format=csv,noheader"
    (row,) = lines(lab_info, "spark-2", query)
    pid, name, used = row.split(", ")
    assert (int(pid), name) == (worker, "ray::RayWorkerProc.run")
    number, unit = used.split(" ")
    assert unit == "MiB"
    assert 64 <= int(number) < 128
    assert lines(lab_info, "spark-1", query) == []
    table = "\n".join(lines(lab_info, "spark-2", ""))
    assert f"{worker}      C   ray::RayWorkerProc.run" in table


@pytest.mark.lab
def test_the_list_of_gpus_and_the_table_say_what_they_are(lab_info: LabInfo) -> None:
    (first,), (second,) = lines(lab_info, "spark-1", "-L"), lines(lab_info, "spark-2", "-L")
    assert first.startswith("GPU 0: NVIDIA GB10 (UUID: GPU-")
    assert first != second
    table = lines(lab_info, "spark-1", "")
    assert any("a stand-in for nvidia-smi. No NVIDIA GPU or driver is here." in line for line in table)
    assert {len(line) for line in table if line.startswith(("|", "+"))} == {91}
    assert any("No running processes found" in line for line in table)


@pytest.mark.lab
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--query-gpu=name,speed --format=csv", 'Field "speed" is not a valid field to query.'),
        ("--query-compute-apps=pid,colour --format=csv", 'Field "colour" is not a valid field to query.'),
        ("--query-gpu=name", '"--format=" switch is missing.'),
        ("--reset", "Invalid combination of input arguments."),
    ],
)
def test_what_it_does_not_know_it_refuses(lab_info: LabInfo, options: str, text: str) -> None:
    done = smi(lab_info, "spark-1", options)
    assert done.returncode == 2
    assert text in done.stdout.decode()


@pytest.mark.parametrize(
    ("cell", "bare"),
    [
        ("12 MiB", "12"),
        ("memory.used [MiB]", "memory.used"),
        ("[N/A]", "[N/A]"),
        ("3 %", "3"),
        ("name", "name"),
    ],
)
def test_nounits_takes_units_only(cell: str, bare: str) -> None:
    assert without_unit(cell) == bare


def test_used_memory_is_titled_by_its_other_name() -> None:
    assert header("used_memory") == "used_gpu_memory [MiB]"


def test_the_memory_of_a_process_is_what_it_holds() -> None:
    code = "held = b'x' * (64 << 20); print('up', flush=True); import sys; sys.stdin.read()"
    argv = (sys.executable, "-c", code)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        used = processes.memory(process.pid)
        process.stdin.close()
    assert 64 * MIB <= used < 128 * MIB
