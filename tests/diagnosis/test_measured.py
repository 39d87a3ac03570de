"""What was measured on the hosts while a run went decides where the log is silent."""

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.measured import read, source, spinning, tight, unread
from cockpit.diagnosis.sources import EXIT, Source
from cockpit.model.facts import Gpu, Memory, Sample
from cockpit.model.finding import Explanation
from tests.diagnosis.logs import HERE, HOSTS, THERE, Log

GIB = 1024**3
START = 1_796_000_000.0


def sample(
    second: float, *, busy: float = 0, power: float = 12, available: int = 60 * GIB, read: int = 0
) -> Sample:
    memory = Memory(120 * GIB, available, 0, 0, 0)
    gpu = Gpu(0, "NVIDIA GB10", utilisation=busy, power=power)
    return Sample(START + second, memory, (gpu,), (), (), disk_read=read)


def series(host: str, **values: object) -> Source:
    return source(host, [sample(10.0 * step, **values) for step in range(20)])  # type: ignore[arg-type]


def test_a_sample_is_read_back_as_it_was_written() -> None:
    (one,) = read(source("spark-a", [sample(0, busy=97, power=21.5, read=7 * GIB)]))
    assert (one.at, one.available, one.total, one.read) == (START, 60 * GIB, 120 * GIB, 7 * GIB)
    assert one.gpus == (("NVIDIA GB10", 97.0, 21.5),)


def test_busy_without_effort_is_a_stall() -> None:
    log = Log().start().load().ready()
    told = explain([log.source(), series("spark-a", busy=98, power=22), series("spark-b", busy=2)], HOSTS)
    assert (told.status, told.findings[0].kind, told.findings[0].host) == ("stalled", "hang-timeout", "spark-a")
    assert "98 % busy at 22 W for 190 s" in told.findings[0].cause
    assert told.findings[0].evidence[0].line == 20


def test_work_is_no_stall() -> None:
    log = Log().start().load().ready()
    assert explain([log.source(), series("spark-a", busy=98, power=70)], HOSTS) == Explanation("ok")
    short = source("spark-a", [sample(10.0 * step, busy=98, power=22) for step in range(5)])
    assert spinning([short]) == []


def test_weights_that_do_not_come() -> None:
    log = Log().start().info(HERE, "Starting to load model /models/a...", "gpu_model_runner.py:1")
    still = [log.source(), series("spark-a", read=GIB), series("spark-b", read=GIB)]
    told = explain(still, HOSTS)
    assert (told.status, told.findings[0].kind) == ("stalled", "hang-timeout")
    assert "spark-a: 0 bytes read from disk in 190 s" in told.findings[0].cause
    moving = source("spark-b", [sample(10.0 * step, read=step * GIB) for step in range(20)])
    assert unread([still[1], moving]) == []
    assert explain([still[0], still[1], moving], HOSTS) == Explanation("loading")
    loaded = log.info(HERE, "Loading weights took 9.00 seconds", "default_loader.py:501")
    assert explain([loaded.source(), *still[1:]], HOSTS) == Explanation("loading")


def test_a_silent_death_on_a_host_without_memory() -> None:
    log = Log().start().load()
    log.raw(f"{THERE}".replace("RayWorkerProc pid=30, ", "raylet, ").split(" (")[0] + " A worker died or was killed "
            "while executing a task by an unexpected system error. Worker IP address: 10.0.0.2")  # fmt: skip
    log.engine_failed()
    plain = explain([log.source()], HOSTS).findings[0]
    assert plain.kind == "ray-membership"
    full = source("spark-b", [sample(0), sample(10, available=GIB // 2)])
    first = explain([log.source(), source("spark-a", [sample(0)]), full], HOSTS).findings[0]
    assert (first.kind, first.host) == ("oom-unified-memory", "spark-b")
    assert "0.5 of 120.0 GiB of memory available" in first.cause
    assert [one.file for one in first.evidence] == ["serve.log", "what was measured on spark-b"]
    assert [one.source.host for one in tight([full])] == ["spark-b"]


def test_a_killed_serve_on_a_host_without_memory() -> None:
    log = Log().start().load()
    full = source("spark-a", [sample(0), sample(10, available=GIB // 4)])
    told = explain([log.source(), Source("exit-status", "spark-a", EXIT, b"137\n"), full], HOSTS)
    assert (told.status, told.findings[0].kind) == ("failed", "oom-unified-memory")
