"""What every process waits in, told by its Python stack as py-spy prints it."""

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import STACKS, Source
from cockpit.diagnosis.stacks import refused, waiting
from cockpit.model.finding import Severity
from tests.diagnosis.logs import ENGINE, HOSTS, Log

ENGINE_DUMP = """\
## process 15868 VLLM::EngineCore
Process 15868: VLLM::EngineCore
Python v3.11.7 (/usr/bin/python3.11)

Thread 15868 (idle): "MainThread"
    wait (ray/_private/worker.py:3237)
    client_mode_hook.<locals>.decorator.<locals>.wrapper (ray/_private/client_mode_hook.py:134)
    _wait_until_pg_ready (vllm/v1/executor/ray_utils.py:461)
    initialize_ray_cluster (vllm/v1/executor/ray_utils.py:649)
    spawn_main (multiprocessing/spawn.py:122)
    <module> (<string>:1)
Thread 16425 (idle): "PythonGCThread"
    Condition.wait (threading.py:327)
"""
RANK_DUMP = """\
## process 31 VLLM::Worker_TP1
Process 31: VLLM::Worker_TP1

Thread 31 (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3100)
    _all_reduce_out_place (vllm/distributed/parallel_state.py:560)
    execute_model (vllm/v1/worker/gpu_model_runner.py:3000)
"""
READING = """\
## process 30 VLLM::Worker_TP0
Thread 30 (idle): "MainThread"
    acquire_read (vllm/distributed/device_communicators/shm_broadcast.py:690)
    dequeue (vllm/distributed/device_communicators/shm_broadcast.py:780)
    worker_busy_loop (vllm/v1/executor/multiproc_executor.py:900)
"""


def stacks(host: str, text: str) -> Source:
    return Source(f"stacks/{host}.txt", host, STACKS, text.encode())


def test_the_place_is_the_telling_frame() -> None:
    (engine,) = waiting([stacks("spark-a", ENGINE_DUMP)])
    assert (engine.pid, engine.who, engine.frame) == (
        15868,
        "the engine",
        "_wait_until_pg_ready (vllm/v1/executor/ray_utils.py:461)",
    )
    assert "placement group" in engine.place
    assert ENGINE_DUMP.split("\n")[engine.line - 1].strip() == engine.frame


def test_a_stall_names_what_each_rank_waits_in() -> None:
    log = Log().start().load().ready()
    for _ in range(3):
        log.info(
            ENGINE, "No available shared memory broadcast block found in 60 seconds.", "shm_broadcast.py:705"
        )
    told = explain([log.source(), stacks("spark-a", READING), stacks("spark-b", RANK_DUMP)], HOSTS)
    first = told.findings[0]
    assert (told.status, first.kind) == ("stalled", "hang-timeout")
    assert "on spark-a rank 0 (process 30) is in the shared-memory broadcast" in first.cause
    assert "on spark-b rank 1 (process 31) is in a collective operation" in first.cause
    assert [one.file for one in first.evidence[-2:]] == ["stacks/spark-a.txt", "stacks/spark-b.txt"]


def test_without_a_fault_they_are_a_note() -> None:
    log = Log().start().load()
    told = explain([log.source(), stacks("spark-b", RANK_DUMP)], HOSTS)
    assert (told.status, [one.severity for one in told.findings]) == ("loading", [Severity.NOTE])


def test_what_can_not_be_had_is_said_with_the_remedy() -> None:
    missing = stacks("spark-a", "## missing py-spy is not in the environment that vLLM runs in\n")
    denied = stacks(
        "spark-b", "## process 7 VLLM::Worker\n## refused 7 Permission Denied: Try running again with sudo\n"
    )
    words = refused([missing, denied])
    assert "ray[default]" in words[0]
    assert "SYS_PTRACE" in words[1]
    assert explain([Log().start().source(), missing]).next == (words[0],)
