"""Messages in the shapes of vLLM 0.11 to 0.20, of shells and of service managers: each with its kind and its line."""

import pytest

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import SERVE, Source
from cockpit.model.finding import Confidence, Explanation
from tests.diagnosis.logs import Log

API, ENGINE = "(APIServer pid=1) ", "(EngineCore_DP0 pid=88) "
RAN = "    return self.method(*args)"


def frames(*files: str) -> list[str]:
    """The frames of a traceback."""
    lines = [[f'  File "/usr/lib/python3/dist-packages/{file}", line 11, in run', RAN] for file in files]
    return ["Traceback (most recent call last):", *(line for pair in lines for line in pair)]


def started() -> Log:
    """The beginning of a launch of vLLM 0.11."""
    log = Log().info(API, "non-default args: {'model': '/models/a', 'tensor_parallel_size': 2}", "utils.py:233")
    return log.info(
        ENGINE, "Initializing a V1 LLM engine (v0.11.2) with config: model='/models/a', x=1", "core.py:93"
    )


def engine_failed(*exception: str, file: str = "vllm/v1/engine/core.py") -> Log:
    """An engine that fails: the logger's copy of its traceback, the bare one, and the API server's wrapper."""
    log = started().record(ENGINE, "ERROR", "core.py:708", "EngineCore failed to start.")
    log.record(ENGINE, "ERROR", "core.py:708", *frames(file), *exception)
    log.raw(*(ENGINE + line for line in ("Process EngineCore_DP0:", *frames(file), *exception)))
    end = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    return log.raw(*(API + line for line in (*frames("vllm/v1/engine/utils.py"), end)))


def on_worker(*exception: str, file: str) -> Log:
    """The same, raised by a rank on another node: Ray's wrapper names its address."""
    head = "ray::RayWorkerWrapper.execute_method() (pid=40, ip=10.0.0.2, actor_id=7a, repr=<vllm.RayWorkerWrapper>)"
    name = exception[0].partition(":")[0].rpartition(".")[2]
    return engine_failed(f"ray.exceptions.RayTaskError({name}): {head}", *frames(file)[1:], *exception)


def group(*exception: str) -> Log:
    """An exception group of one exception, with its margin."""
    inner = [f"    | {line}" for line in (*frames("vllm/entrypoints/launcher.py"), *exception)]
    return started().raw(
        *(
            API + line
            for line in (
                "  + Exception Group Traceback (most recent call last):",
                '  |   File "/usr/lib/python3/asyncio/taskgroups.py", line 9, in __aexit__',
                "  |     raise group",
                "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
                "  +-+---------------- 1 ----------------",
                *inner,
                "    +------------------------------------",
            )
        )
    )


def nccl(last: str) -> list[str]:
    """An error of PyTorch's own NCCL, with the reason in its last line."""
    return [
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled system error, NCCL version 2.27.3",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        "Last error:",
        last,
    ]


def ask(log: Log) -> Explanation:
    """What the log of the head says."""
    return explain([log.source()], {"10.0.0.2": "spark-b"})


C10D = "torch/distributed/distributed_c10d.py"
SHAPES = {
    "link-local": (
        on_worker(
            *nccl("socketStartConnect: Connect to 169.254.9.1<3> failed : Software caused connection abort"),
            file=C10D,
        ),
        "network-iface",
        "169.254.9.1",
        "spark-b",
    ),
    "last-error": (on_worker(*nccl("no flux in the fabric"), file=C10D), "nccl-roce", "no flux", "spark-b"),
    "ray-memory": (
        engine_failed(
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "Memory on the node (IP: 10.0.0.2, ID: 5) where the task was running was 118.9GB / 119.6GB (0.994), which "
            "exceeds the memory usage threshold of 0.95. Ray killed this worker.",
        ),
        "oom-unified-memory",
        "running low on memory",
        "spark-b",
    ),
    "hopper-only": (
        engine_failed("RuntimeError: FlashAttention only supports Ampere GPUs or newer."),
        "kernel-arch-sm121",
        "only supports Ampere",
        "spark-a",
    ),
    "op-missing": (
        engine_failed(
            "AttributeError: '_OpNamespace' '_moe_C' object has no attribute 'moe_wna16_marlin_gemm'"
        ),
        "kernel-arch-sm121",
        "moe_wna16_marlin_gemm",
        "spark-a",
    ),
    "cubin": (
        engine_failed(
            "RuntimeError: Failed to download cubin a.cubin after 5 tries", file="flashinfer/artifacts.py"
        ),
        "flashinfer",
        "a.cubin",
        "spark-a",
    ),
    "compiler": (
        engine_failed(
            "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/t/main.c', '-lcuda']' returned non-zero "
            "exit status 1."
        ),
        "compile",
        "/usr/bin/gcc",
        "spark-a",
    ),
    "ordinal": (
        engine_failed("torch.AcceleratorError: CUDA error: invalid device ordinal"),
        "executor-backend",
        "invalid device ordinal",
        "spark-a",
    ),
    "placement": (
        engine_failed(
            "ValueError: Cannot provide a placement group requested resources [{'GPU': 1.0}] in 1800 s."
        ),
        "placement-group",
        "Cannot provide",
        "spark-a",
    ),
    "tool-helper": (
        started().raw(
            *(
                API + line
                for line in (*frames("a.py"), "KeyError: \"tool helper: 'acme' not found in tool_parsers\"")
            )
        ),
        "tool-parser",
        "'acme'",
        "spark-a",
    ),
    "reasoning-helper": (
        started().raw(
            *(
                API + line
                for line in (*frames("a.py"), "KeyError: \"helper: 'acme' not found in reasoning_parsers\"")
            )
        ),
        "reasoning-parser",
        "'acme'",
        "spark-a",
    ),
    "forked": (
        engine_failed("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA, use 'spawn'"),
        "other",
        "forked subprocess",
        "spark-a",
    ),
    "symbol": (
        started().raw(
            *(
                API + line
                for line in (*frames("a.py"), "ImportError: /a/_C.abi3.so: undefined symbol: _ZN3c104Foo")
            )
        ),
        "other",
        "_ZN3c104Foo",
        "spark-a",
    ),
    "group": (group("OSError: [Errno 98] Address already in use"), "port-in-use", "Errno 98", "spark-a"),
    "group-unknown": (group("FooError: the tokenizer has no flux"), "tokenizer", "no flux", "spark-a"),
    "shell-killed": (
        started().raw("/srv/start.sh: line 3:    41 Killed                  vllm serve /models/a"),
        "crash-engine-core",
        "41 Killed",
        "spark-a",
    ),
    "shell-segfault": (
        started().raw(
            "/srv/start.sh: line 3:    41 Segmentation fault      (core dumped) vllm serve /models/a"
        ),
        "crash-engine-core",
        "Segmentation fault",
        "spark-a",
    ),
    "unit-killed": (
        started().raw("Oct 02 09:14:41 spark-a systemd[1]: vllm.service: Failed with result 'oom-kill'."),
        "oom-unified-memory",
        "oom-kill",
        "spark-a",
    ),
    "address-not-ours": (
        engine_failed(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
            "port: 29501, useIpv6: false, code: -99, name: EADDRNOTAVAIL, message: cannot assign requested address"
        ),
        "network-iface",
        "EADDRNOTAVAIL",
        "spark-a",
    ),
    "port-privileged": (
        engine_failed(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
            "port: 99, useIpv6: false, code: -13, name: EACCES, message: permission denied"
        ),
        "permissions",
        "EACCES",
        "spark-a",
    ),
    "rank-segfault": (
        started()
        .raw(
            "(Worker_TP1 pid=45) !!!!!!! Segfault encountered !!!!!!!",
            '(Worker_TP1 pid=45)   File "<unknown>", line 0',
        )
        .record(ENGINE, "ERROR", "multiproc_executor.py:230", "Worker proc VllmWorker-1 died unexpectedly."),
        "crash-engine-core",
        "Segfault encountered",
        "spark-a",
    ),
    "too-few-experts": (
        engine_failed("ValueError: Tensor parallel size 8 is greater than the number of experts 4."),
        "tp-divisibility",
        "experts 4",
        "spark-a",
    ),
    "no-vllm": (Log().raw("/bin/sh: 1: vllm: not found"), "other", "vllm: not found", "spark-a"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str) -> None:
    log, kind, decisive, host = SHAPES[name]
    told = ask(log)
    assert told.status == "failed"
    first = told.findings[0]
    assert (first.kind, first.host) == (kind, host)
    assert decisive in first.evidence[0].text


def test_a_message_far_into_a_line_is_found() -> None:
    far = "x " * 30000
    told = ask(
        engine_failed(
            f"ValueError: {far} World size (2) is larger than the number of available GPUs (1) in this node"
        )
    )
    assert (told.status, told.findings[0].kind) == ("failed", "executor-backend")


def test_the_old_words_of_the_broadcast_wait() -> None:
    log = started()
    for _ in range(3):
        log.record(ENGINE, "WARNING", "shm_broadcast.py:402", "No available block found in 60 second(s).")
    told = ask(log)
    assert (told.status, told.findings[0].kind) == ("stalled", "hang-timeout")


def test_an_error_of_a_request_is_no_outage_though_its_traceback_says_nothing() -> None:
    log = started().raw(API + "INFO:     Application startup complete.")
    log.raw(API + "ERROR:    Exception in ASGI application").info(ENGINE, "something else meanwhile")
    log.raw(
        *(
            API + line
            for line in (*frames("starlette/middleware.py"), "asyncio.exceptions.CancelledError: scope")
        )
    )
    assert ask(log) == Explanation("ok")


def test_a_known_message_in_other_words_keeps_its_kind_and_remedy() -> None:
    """The remedy of what the message resembles, told as likely."""
    first = ask(
        engine_failed("FooError: while probing: Every node should have a unique IP address, said foo")
    ).findings[0]
    assert (first.kind, first.confidence) == ("network-iface", Confidence.LIKELY)
    assert "VLLM_HOST_IP" in first.fix[0].text


def test_the_kind_of_what_resembles_nothing_is_only_possible() -> None:
    first = ask(engine_failed("FooError: no flux")).findings[0]
    assert (first.kind, first.confidence) == ("other", Confidence.POSSIBLE)


def test_a_line_that_speaks_of_killing_is_no_end() -> None:
    log = started().info(ENGINE, "Killed stale helper of an earlier start").info(API, "Using max model len 512")
    assert explain([Source("serve.log", "", SERVE, log.source().data)]).status == "loading"
