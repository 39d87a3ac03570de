"""The probe, run for real on this machine; nvidia-smi is a stand-in, for there is no GPU here."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.hosts.local import LocalHost
from cockpit.model.facts import Gpu, GpuProcess, Interface, Memory, Sample
from cockpit.model.profile import HostSpec, Role
from cockpit.probes.sample import MIB, SampleError, parse_sample, sample_command, stream_command
from cockpit.probes.scripts import probe

DATA = Path(__file__).parent.parent / "data" / "gpu"
SPEC = HostSpec("spark-1", "local", Role.HEAD)

GB10 = "0, [N/A], [N/A], 96, 38.40, 58, NVIDIA GB10"
H200 = "1, 143771, 134781, 0, 117.26, 34, NVIDIA H200"
WORKER = "4581, 13477, ray::RayWorkerProc.run"
HOSTILE = "4582, [N/A], a, \x1b[31mb\x07, [bold]c[/bold] $(reboot)"


def stand_in(folder: Path, body: str) -> Path:
    """An nvidia-smi that is a sh script; ``$1`` is the query."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return folder


def answering(gpus: str, apps: str, *, loops: bool = True, hangs_while: str = "/nonexistent") -> str:
    """A stand-in that gives these rows, again and again where it knows ``-l``; a file makes it hang."""
    then = 'if [ "$3" = -l ]; then while sleep 1; do say "$1"; done; fi' if loops else ""
    refusal = 'if [ "$3" = -l ]; then echo "Invalid combination of input arguments."; exit 2; fi'
    return f"""
{"" if loops else refusal}
say() {{
  while [ -e {hangs_while} ]; do sleep 0.2; done
  case $1 in
    --query-gpu=*) cat <<'END'
{gpus}
END
    ;;
    *) cat <<'END'
{apps}
END
    ;;
  esac
}}
say "$1"
{then}
"""


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def once(folder: Path) -> Sample:
    command = sample_command(SPEC)
    done = subprocess.run(
        command.remote_argv,
        input=command.stdin.encode(),
        capture_output=True,
        env=environment(folder),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 1
    return parse_sample(done.stdout)


@contextmanager
def streaming(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = stream_command(SPEC)
    process = subprocess.Popen(
        command.argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(folder),
        start_new_session=True,
    )
    assert process.stdin
    process.stdin.write(command.stdin.encode())
    process.stdin.close()
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(process: subprocess.Popen[bytes], wanted: str) -> Sample:
    """The first sample whose ``gpu_error`` holds ``wanted`` ("" for none), of the first thirty."""
    assert process.stdout
    seen = []
    for _ in range(30):
        sample = parse_sample(process.stdout.readline())
        if (wanted in sample.gpu_error) if wanted else not sample.gpu_error:
            return sample
        seen.append(sample.gpu_error)
    raise AssertionError(seen)


def alive(marker: Path) -> list[int]:
    """The processes whose command line names the file."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(marker).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


async def test_this_machine_is_read_as_it_is() -> None:
    host = LocalHost(SPEC)
    await host.connect()
    sample = parse_sample((await host.run(sample_command(SPEC))).stdout)
    assert sample.memory.total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < sample.memory.available <= sample.memory.total
    assert abs(sample.at - time.time()) < 60
    names = {name for _, name in socket.if_nameindex()} - {"lo"}
    assert {interface.name for interface in sample.interfaces} <= names


def test_a_gb10_has_no_memory_of_its_own_and_its_processes_have(tmp_path: Path) -> None:
    sample = once(stand_in(tmp_path, answering(GB10, WORKER, loops=False)))
    assert sample.gpus == (Gpu(0, "NVIDIA GB10", None, None, 96.0, 38.4, 58.0),)
    assert sample.processes == (GpuProcess(4581, "ray::RayWorkerProc.run", 13477 * MIB),)
    assert sample.memory.gpu_processes == 13477 * MIB
    assert sample.gpu_error == ""


def test_a_discrete_gpu_tells_its_memory_and_no_process_is_none(tmp_path: Path) -> None:
    sample = once(stand_in(tmp_path, answering(H200, "", loops=False)))
    assert sample.gpus == (Gpu(1, "NVIDIA H200", 143771 * MIB, 134781 * MIB, 0.0, 117.26, 34.0),)
    assert (sample.processes, sample.memory.gpu_processes) == ((), 0)


def test_hostile_names_stay_in_their_field(tmp_path: Path) -> None:
    sample = once(stand_in(tmp_path, answering(GB10, f"{WORKER}\n{HOSTILE}\nnot a row", loops=False)))
    assert sample.processes[1] == GpuProcess(4582, "a, \x1b[31mb\x07, [bold]c[/bold] $(reboot)", None)
    assert len(sample.processes) == 2
    assert sample.memory.gpu_processes is None, "a sum with an unknown part is unknown"


def test_without_nvidia_smi_the_rest_is_told(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").mkdir()  # in the way of any that this machine may have
    sample = once(tmp_path)
    assert sample.gpus == () and sample.memory.gpu_processes is None
    assert "nvidia-smi" in sample.gpu_error
    assert sample.memory.total > 0


def test_the_drivers_error_is_handed_on(tmp_path: Path) -> None:
    text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    sample = once(stand_in(tmp_path, f'echo "{text}"; exit 9'))
    assert (sample.gpu_error, sample.gpus, sample.memory.gpu_processes) == (text, (), None)


def test_a_hung_nvidia_smi_does_not_keep_a_sample_back(tmp_path: Path) -> None:
    sample = once(stand_in(tmp_path, "exec sleep 300"))
    assert sample.gpu_error == "nvidia-smi has not answered for 5 s"
    assert sample.memory.available > 0


def test_the_stream_follows_an_nvidia_smi_that_loops(tmp_path: Path) -> None:
    with streaming(stand_in(tmp_path, answering(GB10, WORKER))) as process:
        first = until(process, "")
        second = until(process, "")
        assert first.gpus[0].name == "NVIDIA GB10"
        assert until(process, "").memory.gpu_processes == 13477 * MIB
        assert second.at > first.at
        assert len(alive(tmp_path / "nvidia-smi")) == 2, "one for the GPUs, one for the processes, both looping"


def test_the_stream_asks_now_and_then_where_nvidia_smi_cannot_loop(tmp_path: Path) -> None:
    with streaming(stand_in(tmp_path, answering(GB10, WORKER, loops=False))) as process:
        assert until(process, "").gpus[0].power == 38.4


@pytest.mark.parametrize("loops", [True, False])
def test_the_stream_goes_on_when_nvidia_smi_hangs_and_comes_back(tmp_path: Path, loops: bool) -> None:
    switch = tmp_path / "hung"
    body = answering(GB10, WORKER, loops=loops, hangs_while=str(switch))
    with streaming(stand_in(tmp_path, body)) as process:
        assert until(process, "").gpus
        switch.touch()
        stuck = until(process, "has not answered")
        assert (stuck.gpus, stuck.memory.gpu_processes) == ((), None)
        assert stuck.memory.available > 0
        switch.unlink()
        assert until(process, "").gpus[0].name == "NVIDIA GB10"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_stream_is_ended(tmp_path: Path, how: signal.Signals) -> None:
    """Also of a child that never prints and so would never notice."""
    script = stand_in(tmp_path, "exec tail -f /dev/null --pid=$$ " + str(tmp_path / "nothing")) / "nvidia-smi"
    (tmp_path / "nothing").touch()
    with streaming(tmp_path) as process:
        until(process, "has not answered")
        assert alive(tmp_path / "nothing"), script
        process.send_signal(how)
        process.wait(timeout=30)
        deadline = time.monotonic() + 30
        while alive(tmp_path / "nothing") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(tmp_path / "nothing")


def test_real_captures_are_read() -> None:
    """nvidia-smi 580.159.04 on two H200 (the fields come in another order there)."""
    header, *rows = (DATA / "smi_query_gpu.csv").read_text().splitlines()
    names = [name.split(" [")[0] for name in header.split(", ")]
    picked = probe.GPU_FIELDS.split(",")
    for row in filter(None, rows):
        values = dict(
            zip(
                names,
                (cell.split(" M")[0].split(" W")[0].split(" %")[0] for cell in row.split(", ")),
                strict=True,
            )
        )
        index, total, used, busy, power, heat, name = (
            probe.gpu_row(", ".join(values[field] for field in picked)) or []
        )
        assert (index, total, used, busy, name) == (int(values["index"]), 143771.0, 0.0, 0.0, "NVIDIA H200")
        assert 70 < power < 90 and heat in (32.0, 33.0)
    idle = (DATA / "smi_query_apps_idle.csv").read_text().splitlines()
    assert [probe.app_row(line) for line in idle] == [None] * len(idle)


def test_lines_of_a_real_gpu_are_read() -> None:
    """The probe on a machine with an H200, driver 580.159.04: one sample, and one of a stream."""
    once, later = map(parse_sample, (DATA / "probe_h200.jsonl").read_bytes().splitlines())
    assert once.gpus == (Gpu(0, "NVIDIA H200", 143771 * MIB, 0, 0.0, 126.48, 42.0),)
    assert (once.processes, once.memory.gpu_processes, once.gpu_error) == ((), 0, "")
    assert later.disk_read - once.disk_read == 1318912
    assert later.interfaces[2] == Interface("eth0", 625, 1473)


def test_the_probe_asks_for_what_the_parser_reads() -> None:
    line = {
        "at": 1.5,
        "memory": {"total": 5, "available": 4, "page_cache": 3, "swap_total": 2, "swap_free": 1},
        "pressure": None,
        "gpus": [[0, None, 2, 1.0, None, 30, "G"]],
        "processes": [[7, 1, "p"]],
        "gpu_error": "",
        "interfaces": [["eth0", 1, 2]],
        "disk_read": 9,
    }
    assert parse_sample(json.dumps(line).encode()) == Sample(
        at=1.5,
        memory=Memory(5, 4, 3, 2, 1, MIB, None),
        gpus=(Gpu(0, "G", None, 2 * MIB, 1.0, None, 30.0),),
        processes=(GpuProcess(7, "p", MIB),),
        interfaces=(Interface("eth0", 1, 2),),
        disk_read=9,
    )
    for key in line:
        with pytest.raises(SampleError):
            parse_sample(json.dumps({k: v for k, v in line.items() if k != key}).encode())


trees = st.recursive(st.none() | st.floats() | st.text(max_size=5), st.lists)


@given(st.binary(max_size=60) | trees.map(lambda tree: json.dumps(tree).encode()))
def test_anything_else_is_no_sample(line: bytes) -> None:
    with pytest.raises(SampleError):
        parse_sample(line)
