"""Logs of several launches in one folder: each is explained by itself, and it is said which ones were read."""

from pathlib import Path

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import KERNEL, SERVE, Source, collect
from tests.diagnosis.logs import API, THERE, Log

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 36.00 MiB."


def write(path: Path, log: Log, hour: int, pid: int = 1) -> None:
    """The log as a file; written in that hour by an API server of that number."""
    data = bytes(log.source().data).replace(b" 20:", b" %02d:" % hour).replace(b"pid=1)", b"pid=%d)" % pid)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def taken() -> Log:
    """A launch whose port is taken."""
    return Log().start().traceback(API, "OSError: [Errno 98] Address already in use")


def test_each_launch_of_a_folder_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.log", taken(), 10, 11)
    write(
        tmp_path / "b.log", Log().start().load().traceback(THERE, OOM, source="w.py:1").engine_failed(), 11, 12
    )
    write(tmp_path / "c.log", Log().start().load().ready(), 12, 13)
    (tmp_path / "notes.txt").write_text("bought milk\n")
    told = explain(collect([tmp_path]))
    assert told.status == "failed"
    assert [(one.kind, Path(one.evidence[0].file).name) for one in told.findings] == [
        ("oom-gpu", "b.log"),
        ("port-in-use", "a.log"),
    ]
    assert "b.log: failed (oom-gpu); a.log: failed (port-in-use); c.log: ok" in told.next[0]
    assert [(Path(one.file).name, one.launch, one.status) for one in told.read] == [
        ("a.log", 3, "failed"),
        ("b.log", 2, "failed"),
        ("c.log", 1, "ok"),
        ("notes.txt", None, "unknown"),
    ]


def test_a_rank_that_follows_belongs_to_the_launch_of_its_time(tmp_path: Path) -> None:
    follows = (
        Log()
        .start("'nnodes': 2, 'node_rank': 1, 'headless': True")
        .traceback("", "FooError: no flux", source="w.py:1")
    )
    write(tmp_path / "one.log", Log().start("'nnodes': 2").load(), 10, 11)
    write(tmp_path / "two.log", Log().start("'nnodes': 2").load().ready(), 15, 12)
    write(tmp_path / "follows.log", follows, 10, 13)
    told = explain(collect([tmp_path]))
    assert {Path(one.file).name: (one.launch, one.status) for one in told.read} == {
        "one.log": (2, "failed"),
        "follows.log": (2, "failed"),
        "two.log": (1, "ok"),
    }


def test_both_hosts_of_a_launch_are_one(tmp_path: Path) -> None:
    write(tmp_path / "head.log", Log().start().load(), 10, 11)
    write(tmp_path / "worker.log", taken(), 10, 12)
    told = explain(collect([tmp_path]))
    assert {one.launch for one in told.read} == {1}
    assert (told.findings[0].kind, told.findings[0].host) == ("port-in-use", "worker")


def test_hosts_of_several_folders_are_not_mixed(tmp_path: Path) -> None:
    for folder, hour in (("a", 9), ("b", 10)):
        write(tmp_path / folder / "head.log", Log().start().load().ready(), hour, hour)
    write(tmp_path / "b" / "worker.log", taken(), 10, 12)
    told = explain(collect([tmp_path]))
    assert [(one.launch, one.status) for one in told.read] == [(2, "ok"), (1, "failed"), (1, "failed")]


def test_two_copies_of_a_log_are_one_launch(tmp_path: Path) -> None:
    write(tmp_path / "serve.log", taken(), 10)
    write(tmp_path / "container.log", taken(), 10)
    told = explain(collect([tmp_path]))
    assert len(told.findings) == 1
    assert {one.launch for one in told.read} == {1}


def test_a_kernel_log_tells_of_the_launch_of_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "x" / "serve.log", Log().start().load(), 20, 11)
    write(tmp_path / "y" / "serve.log", Log().start().load(), 21, 12)
    killed = b"2026-11-30T21:00:10+0000 spark-b kernel: Out of memory: Killed process 30 (VLLM::Worker_TP) total-vm:1kB"
    logs = [one for one in collect([tmp_path]) if one.role == SERVE]
    told = explain([*logs, Source(str(tmp_path / "y" / "kernel.log"), "", KERNEL, killed)])
    assert [(one.launch, one.status) for one in told.read] == [(2, "loading"), (1, "failed"), (1, "failed")]
