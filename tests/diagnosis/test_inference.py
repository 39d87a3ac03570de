"""Which of several things in the logs is the cause: attempts, hosts, chains, stops, stalls."""

import re

import pytest

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import EXIT, FACTS, KERNEL, RAY_WORKER, SERVE, Source
from cockpit.model.finding import Confidence, Explanation, Severity
from tests.diagnosis.logs import API, ENGINE, HERE, HOSTS, THERE, Log

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.00 GiB"
FREE = (
    "ValueError: Free memory on device cuda:0 (78.17/139.8 GiB) on startup is less than desired GPU memory "
    "utilization (0.92, 128.62 GiB)."
)
KILLED = b"2026-11-30T20:00:10+0000 spark-b kernel: Out of memory: Killed process 30 (VLLM::Worker_TP) total-vm:1kB\n"
REMOTE = "ray.exceptions.RayTaskError(ValueError): ray::RayWorkerProc.initialize_worker() (pid=30, ip=10.0.0.2, repr=<x>)"
ACTOR = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "\tclass_name: RayWorkerProc",
    "\tpid: 30",
    "\tip: 10.0.0.2",
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
)


def ask(*sources: Source) -> Explanation:
    return explain(sources, HOSTS)


def test_the_host_is_named_by_the_line_of_the_remote_task() -> None:
    log = (
        Log()
        .start()
        .traceback(ENGINE, REMOTE, '  File "/a/u.py", line 1, in request_memory', FREE, source="core.py:1")
    )
    log.engine_failed()
    first = ask(log.source()).findings[0]
    assert (first.kind, first.host) == ("oom-gpu", "spark-b")
    assert first.evidence[0].line == log.line_of(FREE)
    assert "on spark-b" in first.cause


def test_a_rank_on_the_head_is_the_head() -> None:
    log = Log().start().load().traceback(HERE, OOM, source="worker.py:1").engine_failed()
    assert ask(log.source()).findings[0].host == "spark-a"


def test_an_address_without_a_name_is_the_host() -> None:
    log = Log().start().load().traceback(THERE, OOM, source="worker.py:1").engine_failed()
    assert explain([log.source()]).findings[0].host == "10.0.0.2"


def test_unknown_exception_of_the_deepest_process() -> None:
    log = Log().start().load()
    log.traceback(THERE, "FooError: the flux is gone", source="worker.py:7")
    log.traceback(
        ENGINE, REMOTE, '  File "/a/u.py", line 1, in go', "FooError: the flux is gone", source="core.py:1"
    )
    log.engine_failed()
    told = ask(log.source())
    assert told.status == "failed"
    first = told.findings[0]
    assert (first.host, first.confidence.value) == ("spark-b", "possible")
    assert "the flux is gone" in first.cause
    assert first.evidence[0].line == log.line_of("FooError")
    assert told.next


def test_the_direct_cause_is_the_one_above() -> None:
    log = Log().start()
    log.traceback(
        ENGINE,
        "FooError: inner",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "/a/c.py", line 9, in e',
        "BarError: outer",
        source="core.py:1",
    )
    log.engine_failed()
    assert "inner" in ask(log.source()).findings[0].cause


def test_what_came_while_handling_is_the_one_that_ended_it() -> None:
    log = Log().start()
    log.traceback(
        ENGINE,
        "KeyError: 'optional'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/a/c.py", line 9, in e',
        "BarError: outer",
        source="core.py:1",
    )
    log.engine_failed()
    assert "outer" in ask(log.source()).findings[0].cause


def test_two_tracebacks_through_each_other_stay_apart() -> None:
    log = Log().start().load()
    log.raw(HERE + "ERROR 11-30 20:01:00 [w.py:1] Traceback (most recent call last):")
    log.raw(THERE + "ERROR 11-30 20:01:00 [w.py:1] Traceback (most recent call last):")
    log.raw(HERE + 'ERROR 11-30 20:01:00 [w.py:1]   File "/a/b.py", line 1, in c')
    log.raw(THERE + 'ERROR 11-30 20:01:00 [w.py:1]   File "/a/b.py", line 1, in c')
    log.raw(THERE + "ERROR 11-30 20:01:00 [w.py:1] FooError: there")
    log.raw(HERE + "ERROR 11-30 20:01:00 [w.py:1] RuntimeError: NCCL error: remote process exited or there was")
    log.engine_failed()
    first = ask(log.source()).findings[0]
    assert (first.host, "there" in first.cause) == ("spark-b", True)


def test_the_operators_stop_while_loading_is_no_fault() -> None:
    log = Log().start().load().traceback(ENGINE, "KeyboardInterrupt")
    log.traceback(ENGINE, "ray.exceptions.ActorHandleNotFoundError: not valid", source="ray_executor_v2.py:541")
    log.engine_failed()
    told = ask(log.source())
    assert (told.status, told.fault) == ("stopped", False)


def test_a_stop_after_the_failure_does_not_hide_it() -> None:
    log = Log().start().load().traceback(THERE, OOM, source="worker.py:1").engine_failed()
    log.info(ENGINE, "[shutdown] EngineCore: trigger received signal=SIGINT")
    assert ask(log.source()).findings[0].kind == "oom-gpu"


def test_a_signal_that_the_api_server_sends_is_no_operators_stop() -> None:
    log = Log().start().load()
    log.info(ENGINE, "[shutdown] EngineCore: trigger received signal=SIGTERM")
    log.traceback(API, "OSError: [Errno 98] Address already in use")
    first = ask(log.source()).findings[0]
    assert first.kind == "port-in-use"


def test_a_stop_that_an_engine_before_0_20_tells_by_its_exit() -> None:
    ended = (
        "Traceback (most recent call last):",
        '  File "/a/vllm/v1/engine/core.py", line 1, in signal_handler',
        "    raise SystemExit",
        "SystemExit",
    )
    log = (
        Log()
        .start()
        .load()
        .ready()
        .raw(*(ENGINE + line for line in ended))
        .raw(API + "INFO:     Shutting down")
    )
    assert ask(log.source()).status == "stopped"
    log = Log().start().raw(*(ENGINE + line for line in ended))
    log.traceback(API, "OSError: [Errno 98] Address already in use")
    assert ask(log.source()).findings[0].kind == "port-in-use"


def test_errors_of_requests_are_no_outage() -> None:
    log = Log().start().load().ready()
    log.traceback(API, "ValueError: The decoder prompt is too long", source="serving.py:224")
    log.traceback(
        API, "jinja2.exceptions.TemplateError: Conversation roles must alternate", source="serving.py:9"
    )
    log.raw('INFO:     10.0.0.9:1 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request')
    assert ask(log.source()) == Explanation("ok")


def test_memory_that_runs_out_while_serving() -> None:
    log = Log().start().load().ready()
    log.traceback(THERE, OOM, source="worker.py:1")
    log.record(ENGINE, "ERROR", "core.py:1512", "EngineCore encountered a fatal error.").engine_dead()
    first = ask(log.source()).findings[0]
    assert (first.kind, first.host) == ("oom-gpu", "spark-b")
    assert "while it was serving" in first.cause


def test_only_the_last_attempt_counts() -> None:
    log = Log().start().traceback(API, "OSError: [Errno 98] Address already in use")
    log.start().load().ready()
    assert ask(log.source()) == Explanation("ok")


def test_an_attempt_that_just_began_is_told_by_the_one_before() -> None:
    log = Log().start().load().traceback(THERE, OOM, source="worker.py:1").engine_failed().start()
    told = ask(log.source())
    assert (told.status, told.findings[0].kind) == ("failed", "oom-gpu")


def test_attempts_differ_in_their_causes() -> None:
    log = Log().start().traceback(API, "OSError: [Errno 98] Address already in use")
    log.start().load().traceback(THERE, OOM, source="worker.py:1").engine_failed()
    assert ask(log.source()).findings[0].kind == "oom-gpu"


def test_a_probe_that_went_wrong_and_was_survived_is_no_fault() -> None:
    log = Log().start()
    log.traceback(API, "FileNotFoundError: [Errno 2] No such file or directory: '/models/a/config.json'")
    log.info(API, "Resolved architecture: FooForCausalLM").load()
    assert ask(log.source()) == Explanation("loading")


def test_the_kernel_tells_why_a_rank_died() -> None:
    log = Log().start().load().traceback(ENGINE, *ACTOR, source="core.py:1").engine_failed()
    first = ask(log.source(), Source("kernel.log", "spark-b", KERNEL, KILLED)).findings[0]
    assert (first.kind, first.host) == ("oom-unified-memory", "spark-b")
    assert first.evidence[0].file == "kernel.log"


def test_a_rank_that_died_without_a_word_is_named_with_its_host() -> None:
    log = Log().start().load().traceback(ENGINE, *ACTOR, source="core.py:1").engine_failed()
    told = ask(log.source())
    assert (told.findings[0].kind, told.findings[0].host) == ("ray-membership", "spark-b")
    assert any("worker-*.err" in step for step in told.next)


def test_an_old_kill_in_the_kernel_log_is_no_fault_of_a_healthy_server() -> None:
    log = Log().start().load().ready()
    old = KILLED.replace(b"T20:00:10", b"T18:30:10")
    assert ask(log.source(), Source("kernel.log", "spark-b", KERNEL, old)) == Explanation("ok")


@pytest.mark.parametrize(
    "stamp",
    [b"2026-11-30T20:00:10+0000", b"2026-11-30T21:00:10+01:00", b"Nov 30 20:00:10", b"[ 1234.567]"],
)
def test_a_kill_after_the_last_record_ended_it(stamp: bytes) -> None:
    log = Log().start().load().ready()
    line = KILLED.replace(b"2026-11-30T20:00:10+0000", stamp)
    told = ask(log.source(), Source("kernel.log", "", KERNEL, line))
    assert (told.status, told.findings[0].kind) == ("failed", "oom-unified-memory")
    assert told.findings[0].host == "spark-b"


def test_the_serves_own_cause_goes_before_the_kernels() -> None:
    log = Log().start().traceback(API, "OSError: [Errno 98] Address already in use")
    assert ask(log.source(), Source("kernel.log", "spark-b", KERNEL, KILLED)).findings[0].kind == "port-in-use"


def test_a_workers_own_file_tells_more_than_its_death() -> None:
    log = Log().start().load().traceback(ENGINE, *ACTOR, source="core.py:1").engine_failed()
    own = Log().raw(":actor_name:RayWorkerProc").traceback("", "FooError: no flux")
    first = ask(log.source(), own.source("worker-1.err", "spark-b", RAY_WORKER)).findings[0]
    assert (first.host, first.evidence[0].file) == ("spark-b", "worker-1.err")


def test_a_silent_end_is_no_more_than_possible_and_says_what_to_collect() -> None:
    log = Log().start().load()
    told = ask(log.source(), Source("exit-status", "spark-a", EXIT, b"137\n"))
    assert (told.status, [one.confidence for one in told.findings]) == ("failed", [Confidence.POSSIBLE])
    assert any("137" in step for step in told.next)
    assert any("journalctl -k" in step for step in told.next)


def test_a_silent_end_with_a_kill_in_the_kernels_log() -> None:
    log = Log().start().load()
    told = ask(
        log.source(),
        Source("exit-status", "spark-a", EXIT, b"137\n"),
        Source("kernel.log", "spark-a", KERNEL, KILLED),
    )
    assert (told.status, told.findings[0].kind) == ("failed", "oom-unified-memory")


def test_a_note_that_the_process_is_gone() -> None:
    log = Log().start().load().ready()
    told = ask(log.source(), Source("host-facts.txt", "", FACTS, b"$ pgrep vllm\n(no process)\n"))
    assert told.status == "unknown"


def test_a_ray_of_vllms_own_is_the_cause_of_the_wait() -> None:
    log = Log().start()
    log.raw("2026-11-30 20:00:05,000\tINFO worker.py:2029 -- Started a local Ray instance. View the dashboard")
    for seconds in (10, 30, 70):
        log.info(ENGINE, f"Waiting for creating a placement group of specs for {seconds} seconds. specs=[]")
    told = ask(log.source())
    assert told.status == "stalled"
    assert told.findings[0].kind == "ray-membership"
    assert told.findings[0].evidence[0].line == log.line_of("Started a local Ray")
    assert "RAY_ADDRESS" in told.findings[0].fix[0].text


def test_one_wait_for_the_placement_group_is_none() -> None:
    log = Log().start().info(ENGINE, "Waiting for creating a placement group of specs for 10 seconds. specs=[]")
    assert ask(log.source()) == Explanation("loading")


@pytest.mark.parametrize(
    "after", ["Dynamo bytecode transform time: 9.00 s", "Graph capturing finished in 9 secs"]
)
def test_compiling_is_no_stall(after: str) -> None:
    log = Log().start().load()
    for _ in range(3):
        log.info(
            ENGINE, "No available shared memory broadcast block found in 60 seconds. This typically happens"
        )
    assert ask(log.source()).status == "stalled"
    log.info(HERE, after)
    assert ask(log.source()) == Explanation("loading")


def test_a_warning_after_which_the_load_went_on_was_survived() -> None:
    log = Log().start()
    log.raw(
        HERE
        + "h1:10:11 [0] misc/socket.cc:5 NCCL WARN socketStartConnect: Connect to 10.0.0.2<4> failed : No route to host"
    )
    assert ask(log.source()).findings[0].kind == "network-iface"
    assert ask(log.load().source()) == Explanation("loading")


def test_prefixes_of_a_container_tool_hide_nothing() -> None:
    for outer in ("vllm-1  | ", "2026-11-30T20:00:00.123456Z ", "2026-11-30T20:00:00.123Z stderr F "):
        log = Log(outer).start().load().traceback(THERE, OOM, source="worker.py:1").engine_failed()
        first = ask(log.source()).findings[0]
        assert (first.kind, first.host) == ("oom-gpu", "spark-b")
        assert first.evidence[0].text.startswith("torch.OutOfMemoryError")


def test_the_earliest_of_two_hosts_failures() -> None:
    head = (
        Log()
        .start()
        .load()
        .info(HERE, "x")
        .info(HERE, "y")
        .traceback(HERE, FREE, source="w.py:1")
        .engine_failed()
    )
    worker = Log().traceback("(Worker_TP1 pid=5) ", OOM, source="w.py:1")
    first = ask(head.source("head.log"), worker.source("worker.log", "spark-b")).findings[0]
    assert (first.evidence[0].file, first.host) == ("worker.log", "spark-b")


@pytest.mark.parametrize(
    ("total", "kind", "share"), [("119.70", "oom-unified-memory", 0.8), ("139.80", "oom-gpu", 0.7)]
)
def test_unified_memory_is_told_from_a_cards(total: str, kind: str, share: float) -> None:
    text = f"ValueError: Free memory on device cuda:0 (102.00/{total} GiB) on startup is less than desired GPU memory "
    log = (
        Log()
        .start()
        .traceback(THERE, text + "utilization (0.95, 113.72 GiB).", source="w.py:1")
        .engine_failed()
    )
    first = ask(log.source()).findings[0]
    assert first.kind == kind
    assert {"set": {"serve.flags.gpu-memory-utilization": share}} in [fix.change for fix in first.fix]


def test_the_backend_in_use_decides_on_the_remedy() -> None:
    text = (
        "AssertionError: local_world_size (2) must be less than or equal to the number of visible devices (1)."
    )
    with_ray = ask(Log().start().traceback(ENGINE, text, source="c.py:1").source()).findings[0]
    without = ask(
        Log().start("'tensor_parallel_size': 2").traceback(ENGINE, text, source="c.py:1").source()
    ).findings[0]
    assert all(fix.change is None for fix in with_ray.fix)
    assert without.fix[0].change == {"set": {"serve.flags.distributed-executor-backend": "ray"}}


def test_no_log_at_all_is_unknown() -> None:
    told = ask()
    assert told.status == "unknown"
    assert told.next


def test_a_serve_that_was_killed_is_told_by_its_exit_status() -> None:
    log = b"(APIServer pid=7) INFO 11-30 20:26:18 [api_utils.py:286] non-default args: {'model': 'm'}\n"
    found = explain(
        [Source("serve.log", "spark-1", SERVE, log), Source("exit-status", "spark-1", EXIT, b"137\n")]
    )
    assert found.status == "failed"
    assert [(one.kind, one.host, one.confidence) for one in found.findings] == [
        ("crash-engine-core", "spark-1", Confidence.POSSIBLE)
    ]
    assert found.findings[0].evidence[0].text == "137"


def test_one_rank_has_no_other_node_to_ask() -> None:
    log = Log().start("'max_model_len': 512")
    log.info(
        "(Worker pid=5) ", "world_size=1 rank=0 local_rank=0 distributed_init_method=file:///x backend=gloo"
    )
    log.traceback("(Worker pid=5) ", "FooError: x", source="w.py:1").engine_failed()
    assert "other node" not in "".join(ask(log.source()).next)


def test_the_dead_rank_of_a_ray_launch_is_named_by_its_host() -> None:
    died = "RayWorkerProc rank=[1] died unexpectedly, shutting down executor."
    log = Log().start().load().ready().record(ENGINE, "ERROR", "ray_executor_v2.py:522", died).engine_dead()
    first = ask(log.source()).findings[0]
    assert first.host == "spark-b"
    assert "rank 1 ended on spark-b" in first.cause
    told = Log().start().ready().record(ENGINE, "ERROR", "ray_executor_v2.py:522", died).engine_dead()
    assert ask(told.source()).findings[0].host == "spark-b", (
        "by the profile's hosts, where the log has no line of it"
    )
    zero = (
        Log().start().load().ready().record(ENGINE, "ERROR", "r.py:1", died.replace("[1]", "[0]")).engine_dead()
    )
    assert ask(zero.source()).findings[0].host == "spark-a"


def test_launches_that_run_through_each_other_are_told_as_such() -> None:
    one = bytes(Log().start().load().ready().source().data).splitlines()
    other = bytes(Log().start().load().ready().raw("INFO:     Shutting down").source().data).splitlines()
    other = [line.replace(b" pid=", b" pid=7") for line in other]
    both = b"\n".join(line for pair in zip(one, other, strict=False) for line in pair)
    told = explain([Source("both.log", "", SERVE, both)])
    assert told.status == "unknown"
    assert "processes 20 and 720" in told.next[0]
    after = explain([Source("both.log", "", SERVE, b"\n".join([*one, *other]))])
    assert (after.status, after.next) == ("stopped", ())


def test_a_segfault_in_a_ranks_own_file_says_why_it_died() -> None:
    log = Log().start().load().traceback(ENGINE, *ACTOR, source="core.py:1").engine_failed()
    own = Log().raw(
        ":actor_name:RayWorkerProc", "Fatal Python error: Segmentation fault", "", "Stack (most recent call"
    )
    first = ask(log.source(), own.source("worker-1.err", "spark-b", RAY_WORKER)).findings[0]
    assert (first.kind, first.host) == ("crash-engine-core", "spark-b")
    assert [(one.file, one.line) for one in first.evidence] == [
        ("worker-1.err", 2),
        ("serve.log", log.line_of("ActorDiedError")),
    ]


@pytest.mark.parametrize(
    ("status", "kind", "name"),
    [
        ("137", "crash-engine-core", "SIGKILL"),
        ("-9", "crash-engine-core", "SIGKILL"),
        ("139", "crash-engine-core", "SIGSEGV"),
        ("-6", "crash-engine-core", "SIGABRT"),
        ("135", "shm", "SIGBUS"),
    ],
)
def test_a_serve_that_a_signal_ended_is_told_by_its_exit_status(status: str, kind: str, name: str) -> None:
    told = ask(Log().start().load().source(), Source("exit-status", "spark-a", EXIT, status.encode()))
    first = told.findings[0]
    assert (told.status, first.kind, first.confidence) == ("failed", kind, Confidence.POSSIBLE)
    assert name in first.cause
    assert first.evidence[0].text == status


def test_launches_without_prefixes_that_alternate_are_told_as_such() -> None:
    logs = [
        Log().start().traceback("", f"FooError: no {word}").info("", "Using max model len 512")
        for word in ("flux", "flow")
    ]
    lines = [re.sub(rb"\(\w+ pid=\d+\) ", b"", bytes(log.source().data)).splitlines() for log in logs]
    both = b"\n".join(line for pair in zip(*lines, strict=True) for line in pair)
    told = explain([Source("both.log", "", SERVE, both)])
    assert told.status in ("failed", "unknown")
    assert "side by side" in told.next[-1]


def test_a_line_of_another_program_is_no_exception() -> None:
    log = Log().start().raw("Traceback (most recent call last):", '  File "/a/b.py", line 1, in c', "    d()")
    log.raw("nanobind: leaked 4 instances!", "FooError: no flux").engine_failed()
    assert "FooError: no flux" in ask(log.source()).findings[0].cause


def test_a_journal_of_the_server_and_the_kernel_names_the_host_of_both() -> None:
    log = Log().start().load()
    log.raw(
        "Nov 30 20:01:00 spark-c kernel: Out of memory: Killed process 20 (VLLM::Worker_TP) total-vm:1kB, anon-rss:1kB"
    )
    first = ask(log.source("journal.log", "")).findings[0]
    assert (first.kind, first.host) == ("oom-unified-memory", "spark-c")


@pytest.mark.parametrize(
    ("why", "kind", "words"),
    [
        ("libnuma.so.1: cannot open shared object file: No such file or directory", "other", "libnuma.so.1"),
        ("libcuda.so.1: cannot open shared object file: No such file or directory", "driver-cuda", "driver"),
        ("/v/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEa", "other", "undefined symbol"),
    ],
)
def test_an_operator_is_missing_since_its_library_was_not_loaded(why: str, kind: str, words: str) -> None:
    log = Log().start()
    log.record(THERE, "WARNING", "cpu.py:644", f"Failed to import from vllm._C: ImportError({why!r})")
    warned = log.line_of("Failed to import")
    ended = "AttributeError: '_OpNamespace' '_C' object has no attribute 'silu_mul'"
    log.traceback(ENGINE, ended, source="core.py:1510").engine_failed()
    told = explain([log.source()], HOSTS).findings[0]
    assert (told.kind, told.host, told.evidence[0].line) == (kind, "spark-b", warned)
    assert words in told.cause


def test_a_library_that_was_not_loaded_and_not_missed_is_no_fault() -> None:
    log = Log().start()
    log.record(ENGINE, "WARNING", "a.py:1", "Failed to import from vllm._C: ImportError('libx.so.1: no')")
    told = explain([log.load().ready().source()], HOSTS)
    assert (told.status, told.findings) == ("ok", ())


def test_a_record_of_an_error_after_which_the_load_went_on_was_survived() -> None:
    log = Log().start().record(API, "ERROR", "fa.py:5", "The kernel only supports Hopper")
    assert explain([log.source()], HOSTS).status == "failed"
    assert explain([log.load().source()], HOSTS).status == "loading"


def test_a_failed_start_of_the_api_is_told_by_the_exception_before_it() -> None:
    log = (
        Log()
        .start()
        .raw(
            "INFO:     Waiting for application startup.",
            "ERROR:    Traceback (most recent call last):",
            '  File "/a/routing.py", line 694, in lifespan',
            "    async with self.lifespan_context(app) as state:",
            "OSError: [Errno 28] No space left on device: '/a/b'",
            "",
            "ERROR:    Application startup failed. Exiting.",
        )
    )
    told = explain([log.source()], HOSTS)
    assert (told.status, told.findings[0].kind) == ("failed", "disk-full")
    assert told.findings[0].evidence[0].line == log.line_of("OSError")


JOURNAL = "Nov 03 09:20:0{} spark-a {}: {}"


def journal(*after: str) -> Source:
    """A service's journal: what it printed, then what systemd says of it."""
    own = [
        JOURNAL.format(1, "vllm[4120]", line)
        for line in bytes(Log().start().load().source().data).decode().split("\n")
    ]
    told = [JOURNAL.format(9, "systemd[1]", line) for line in after]
    return Source("journal.log", "spark-a", SERVE, "\n".join([*own[:-1], *told, ""]).encode())


def test_systemd_is_no_host() -> None:
    told = explain(
        [
            journal(
                "vllm.service: A process of this unit has been killed by the OOM killer.",
                "vllm.service: Main process exited, code=killed, status=9/KILL",
                "vllm.service: Failed with result 'oom-kill'.",
            )
        ]
    )
    assert (told.status, told.findings[0].kind) == ("failed", "oom-unified-memory")
    assert told.findings[0].host == "spark-a"


def test_a_service_that_was_stopped_is_no_fault() -> None:
    told = explain([journal("Stopping vllm.service - vLLM...", "vllm.service: Deactivated successfully.")])
    assert told.status == "stopped"
    assert all(found.severity is not Severity.ERROR for found in told.findings)
