"""The words and numbers of findings: fitting units, short lists, values that the message itself allows."""

import pytest

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import SERVE, Source
from cockpit.model.finding import Finding
from tests.diagnosis.logs import API, ENGINE, Log


def first(log: Log) -> Finding:
    """The first finding of a log that ends so."""
    return explain([log.engine_failed().source()]).findings[0]


def refused(config: str, field: str, why: str, value: str) -> Log:
    """A launch whose configuration is refused, as pydantic prints it."""
    return (
        Log()
        .start(f"'{field}': {value}")
        .traceback(
            API,
            f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {config}",
            field,
            f"  {why} [type=x, input_value={value}, input_type=y]",
            "    For further information visit https://errors.pydantic.dev/2.12/v/x",
        )
    )


@pytest.mark.parametrize(
    ("field", "why", "value", "change"),
    [
        ("gpu_memory_utilization", "Input should be less than or equal to 1", "1.5", 0.9),
        ("gpu_memory_utilization", "Input should be less than or equal to 1", "85", 0.85),
        ("gpu_memory_utilization", "Input should be greater than 0", "0", 0.9),
        ("max_num_seqs", "Input should be greater than or equal to 1", "0", 1),
        ("swap_space", "Input should be greater than 3", "1", 4),
        ("dtype", "Input should be 'auto', 'half' or 'float16'", "'float17'", "float16"),
    ],
)
def test_a_value_out_of_bounds_is_changed_to_one_that_is_allowed(
    field: str, why: str, value: str, change: object
) -> None:
    (fix,) = first(refused("CacheConfig", field, why, value)).fix
    assert fix.change == {"set": {f"serve.flags.{field.replace('_', '-')}": change}}


def test_a_value_that_no_rule_knows_is_only_told() -> None:
    (fix,) = first(refused("CacheConfig", "seed", "Input should be a valid integer", "'a'")).fix
    assert fix.change is None
    assert "--seed" in fix.text


def test_numbers_that_were_rounded_away_are_not_shown() -> None:
    text = (
        "ValueError: To serve at least one request with the model's max seq len (2048), (0.0 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (0.0 GiB). Based on the available memory, the estimated "
        "maximum model length is 896. Try increasing `gpu_memory_utilization`"
    )
    found = first(Log().start().traceback(ENGINE, text, source="core.py:1"))
    assert "0.0" not in found.cause
    assert "896 tokens" in found.cause


def test_a_share_above_what_the_driver_leaves_blames_no_other_process() -> None:
    text = (
        "ValueError: Free memory on device cuda:0 (79.10/79.60 GiB) on startup is less than desired GPU memory "
        "utilization (1.0, 79.60 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    found = first(Log().start().traceback(ENGINE, text, source="core.py:1"))
    assert "process" not in found.cause
    assert [fix.change for fix in found.fix] == [{"set": {"serve.flags.gpu-memory-utilization": 0.95}}]


def test_of_a_long_list_the_nearest_choices_are_told() -> None:
    names = [f"parser{number}" for number in range(40)]
    log = f"vllm serve: error: argument --tool-call-parser: invalid choice: 'parser07' (choose from {str(names)[1:-1]})"
    found = explain([Source("serve.log", "", SERVE, log.encode())]).findings[0]
    assert "34 more" in found.fix[0].text
    assert len(found.fix[0].text) < 250
    assert found.fix[0].change == {"set": {"serve.flags.tool-call-parser": "parser7"}}


ENDS = {
    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.": (
        "Only 1 of 2 ranks came in 601 seconds to the rendezvous"
    ),
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376.": (
        "more of the GPU's shared memory than this GPU has on spark-a: 147456, and it has 101376"
    ),
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 999: unknown error": (
        "could not be started on spark-a (error 999: unknown error)"
    ),
    "torch._dynamo.exc.BackendCompilerFailed: backend='<Backend object at 0xe1>' raised:\nAssertionError: no tensor": (
        "torch.compile failed on spark-a: AssertionError: no tensor."
    ),
    "PermissionError: [Errno 13] Permission denied": "does not name the file or port",
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tip: 10.0.0.2\n"
    "The actor died because its node has died. Node Id: 47c1": "Ray lost the node of a rank on 10.0.0.2",
}


@pytest.mark.parametrize("text", ENDS, ids=[text.split(":")[0] for text in ENDS])
def test_what_the_message_tells_stands_in_the_cause(text: str) -> None:
    assert ENDS[text] in first(Log().start().traceback(ENGINE, *text.split("\n"), source="core.py:1")).cause


@pytest.mark.parametrize(
    ("config", "flag"),
    [
        ("CompilationConfig", "--compilation-config"),
        ("PassConfig", "--compilation-config"),
        ("KVTransferConfig", "--kv-transfer-config"),
        ("EPLBConfig", "--eplb-config"),
        ("StructuredOutputsConfig", "--structured-outputs-config"),
    ],
)
def test_a_key_of_a_flag_that_takes_json_is_no_flag(config: str, flag: str) -> None:
    found = first(refused(config, "full_graph", "Unexpected keyword argument", "True"))
    assert f"The key full_graph of {flag}" in found.cause
    assert "--full-graph" not in found.cause + found.fix[0].text


def test_a_value_that_is_no_json_is_to_be_quoted() -> None:
    line = "vllm serve: error: argument --speculative-config: Value {a:3} cannot be converted to <function loads at 0x7f>."
    found = explain([Source("serve.log", "", SERVE, line.encode())]).findings[0]
    assert """--speculative-config '{"key": 1}'""" in found.fix[0].text


WARNED = "host1:10:10 [0] bootstrap.cc:102 NCCL WARN Bootstrap Root : mismatch in rank count from procs 4 : 2"
HARMLESS = "host1:10:10 [0] net.cc:1 NCCL WARN NET/Plugin: could not load libnccl-net.so"


@pytest.mark.parametrize(("line", "told"), [(WARNED, "mismatch in rank count"), (HARMLESS, "not in this log")])
def test_what_nccl_warned_of_is_its_reason(line: str, told: str) -> None:
    log = Log().start().raw(line)
    log.traceback(
        ENGINE, "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
    )
    assert told in first(log).cause


def test_a_name_that_could_not_be_resolved_is_why_no_rank_came() -> None:
    log = Log().start()
    log.raw(
        "[W1130 20:26:26.000000000 socket.cpp:767] [c10d] The IPv6 network addresses of (spark-9, 29501) "
        "cannot be retrieved (gai error: -2 - Name or service not known)."
    )
    log.traceback(
        ENGINE,
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
    )
    assert "spark-9 can't be resolved" in first(log).cause


def test_of_rays_words_about_a_dead_head_the_one_with_its_address_is_shown() -> None:
    words = (
        "[2026-11-30 20:26:26,000 W 3 3] gcs_client.cc:210: Failed to get cluster ID from GCS server: TimedOut: x",
        "[2026-11-30 20:26:31,000 W 3 3] h:153: Failed to connect to GCS at address 10.0.0.1:6379 within 5 seconds.",
    )
    found = explain([Source("worker.log", "spark-b", SERVE, "\n".join(words * 2).encode())]).findings[0]
    assert found.evidence[0].line == 2


@pytest.mark.parametrize(
    "line",
    [
        "host1:10:10 [0] misc/socket.cc:4 NCCL WARN socketFinalizeConnect: connect returned Connection refused, retrying",
        "host1:10:10 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : roce1:1 Got async event : port error",
    ],
)
def test_a_peer_that_nccl_does_not_name_is_the_other_node(line: str) -> None:
    log = Log().start().raw(line)
    log.traceback(
        ENGINE, "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
    )
    assert " to the other node" in first(log).cause
