"""Complete logs of real runs are explained: status, kind, line, host."""

from pathlib import Path

import pytest

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import collect
from cockpit.model.finding import Evidence, Severity

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
HOSTS = {
    "10.77.0.1": "one",
    "10.77.0.2": "two",
    "10.77.1.1": "spark-a",
    "10.77.1.2": "spark-b",
    "10.77.2.2": "spark-c",
}

FAULTS = [
    ("fail_bad_choice.log", "failed", "args", 3, ""),
    ("fail_chat_template_path.log", "failed", "chat-template", 14, ""),
    ("fail_cpu_platform_no_ray.log", "failed", "executor-backend", 50, ""),
    ("fail_gpu_mem_util.log", "failed", "args", 52, ""),
    ("fail_kv_too_small.log", "failed", "kv-cache-too-small", 72, ""),
    ("fail_max_model_len.log", "failed", "args", 53, ""),
    ("fail_model_missing.log", "failed", "model-missing", 52, ""),
    ("fail_port_in_use.log", "failed", "port-in-use", 38, ""),
    ("fail_quant_unknown.log", "failed", "quantization", 54, ""),
    ("fail_ray_node_death.log", "failed", "ray-membership", 117, "two"),
    ("fail_ray_one_node_only.log", "stalled", "placement-group", 25, ""),
    ("fail_ray_start_worker_head_down.log", "stalled", "ray-membership", 2, ""),
    ("fail_ray_wrong_address.log", "stalled", "ray-membership", 23, ""),
    ("fail_shard_truncated.log", "failed", "model-missing", 152, ""),
    ("fail_tp_heads.log", "failed", "tp-divisibility", 51, ""),
    ("fail_wrong_flag.log", "failed", "args", 5, ""),
    ("world_size_check.txt", "failed", "executor-backend", 3, ""),
    ("gpu/fail_free_memory_remote.log", "failed", "oom-gpu", 96, "spark-b"),
    ("gpu/fail_kv_too_small.log", "failed", "kv-cache-too-small", 84, ""),
    ("gpu/fail_link_down_serving.log", "failed", "ray-membership", 245, "spark-b"),
    ("gpu/fail_nccl_ifname.log", "failed", "network-iface", 105, "10.77.2.1"),
    ("gpu/fail_port_in_use.log", "failed", "port-in-use", 40, ""),
    ("gpu/fail_ray_one_node.log", "stalled", "placement-group", 24, ""),
    ("gpu/fail_tool_parser.log", "failed", "tool-parser", 39, ""),
    ("gpu/fail_worker_proc_killed_during_load.log", "failed", "ray-membership", 57, "spark-c"),
    ("gpu/mp_nnodes_rank1.log", "failed", "crash-engine-core", 44, ""),
    ("gpu/ray_tp2_eager_raylet_killed.log", "failed", "ray-membership", 140, "spark-b"),
    ("gpu/ray_tp2_warm_engine_killed.log", "failed", "crash-engine-core", 248, ""),
    ("gpu/seed_fail_no_backend.log", "failed", "executor-backend", 53, ""),
]

HEALTHY = [
    ("serve_ok.log", "stopped"),
    ("ray_tp2_nodedup.log", "stopped"),
    ("ray_start_head.log", "ok"),
    ("ray_start_worker.log", "ok"),
    ("gpu/ray_tp2_cold.log", "stopped"),
    ("gpu/mp_nnodes_rank0.log", "stopped"),
    ("gpu/stop_sigint_during_load.log", "stopped"),
    ("gpu/stop_sigterm_during_load.log", "loading"),
]


@pytest.mark.parametrize(("name", "status", "kind", "line", "host"), FAULTS, ids=[row[0] for row in FAULTS])
def test_fault(name: str, status: str, kind: str, line: int, host: str) -> None:
    path = CAPTURES / name
    told = explain(collect([path]), HOSTS)
    assert told.status == status
    first = told.findings[0]
    assert (first.kind, first.host) == (kind, host)
    shown = first.evidence[0]
    assert (shown.file, shown.line) == (str(path), line)
    assert shown.text in path.read_bytes().decode().split("\n")[line - 1]


@pytest.mark.parametrize(("name", "status"), HEALTHY, ids=[row[0] for row in HEALTHY])
def test_no_fault(name: str, status: str) -> None:
    told = explain(collect([CAPTURES / name]), HOSTS)
    assert (told.status, told.fault) == (status, False)


def test_the_seed_case_has_the_one_flag_as_its_fix() -> None:
    told = explain(collect([CAPTURES / "gpu" / "seed_fail_no_backend.log"]))
    first = told.findings[0]
    assert first.confidence.value == "certain"
    assert [fix.change for fix in first.fix] == [{"set": {"serve.flags.distributed-executor-backend": "ray"}}]


def test_both_ranks_of_a_stopped_launch_are_no_fault() -> None:
    told = explain(
        collect([CAPTURES / "gpu" / "mp_nnodes_rank0.log", CAPTURES / "gpu" / "mp_nnodes_rank1.log"])
    )
    assert (told.status, told.fault) == ("stopped", False)


def test_an_operators_stop_is_shown_by_its_line() -> None:
    path = CAPTURES / "gpu" / "stop_sigint_during_load.log"
    (note,) = explain(collect([path]), HOSTS).findings
    assert (note.severity, note.evidence) == (Severity.NOTE, (Evidence(str(path), 100, "KeyboardInterrupt"),))


def test_numbers_of_the_message_stand_in_the_fix() -> None:
    told = explain(collect([CAPTURES / "fail_kv_too_small.log"]))
    assert told.findings[0].fix[0].change == {"set": {"serve.flags.max-model-len": 896}}
    told = explain(collect([CAPTURES / "fail_port_in_use.log"]))
    assert "8123" in told.findings[0].cause
    assert told.findings[0].fix[1].change == {"set": {"serve.flags.port": 8124}}


@pytest.mark.parametrize("keep", [0.2, 0.35, 0.5])
def test_a_load_cut_short_is_no_fault(keep: float) -> None:
    whole = (CAPTURES / "gpu" / "ray_tp2_cold.log").read_bytes()
    from cockpit.diagnosis.sources import SERVE, Source

    told = explain([Source("cut", "", SERVE, whole[: int(len(whole) * keep)])])
    assert told.status in ("loading", "ok")
    assert told.findings == ()
