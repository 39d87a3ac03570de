"""Load progress from real logs: vLLM 0.24.0 on two GPUs, 0.32.0 on the CPU, over Ray and without."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.progress import ORDER, Phase, Progress
from cockpit.serving.phases import LoadReader

LOGS = Path(__file__).parent.parent / "data" / "logs"
READY = [
    "ray_tp2_nodedup.log",
    "serve_ok.log",
    "gpu/ray_tp2_cold.log",
    "gpu/ray_tp2_warm_engine_killed.log",
    "gpu/mp_nnodes_rank0.log",
]
ALL = [*READY, "gpu/mp_nnodes_rank1.log", "gpu/fail_ray_one_node.log", "fail_ray_wrong_address.log"]


def read(name: str) -> list[Progress]:
    return LoadReader().feed((LOGS / name).read_bytes())


def phases(steps: list[Progress], rank: int | None) -> list[Phase]:
    """The phases a rank went through, each once."""
    return list(dict.fromkeys(step.phase for step in steps if step.rank == rank))


@pytest.mark.parametrize("name", READY)
def test_a_load_that_succeeds_ends_in_ready_on_its_line(name: str) -> None:
    last = read(name)[-1]
    lines = (LOGS / name).read_bytes().split(b"\n")
    assert (last.phase, last.rank) == (Phase.READY, None)
    assert b"Application startup complete." in lines[last.line - 1]


@pytest.mark.parametrize("name", ALL)
def test_no_rank_ever_goes_backwards(name: str) -> None:
    last: dict[int | None, Progress] = {}
    for step in read(name):
        before = last.get(step.rank, step)
        assert ORDER[step.phase] >= ORDER[before.phase]
        assert step.line >= before.line
        if step.phase is before.phase and step.detail == before.detail and before.done is not None:
            assert step.done is not None and step.done >= before.done
        last[step.rank] = step


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_pieces_of_the_log_do_not_matter(name: str, data: st.DataObject) -> None:
    log = (LOGS / name).read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=40)))
    reader, steps = LoadReader(), list[Progress]()
    for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
        steps += reader.feed(log[start:end])
    assert steps == read(name)


def test_byte_by_byte() -> None:
    log = (LOGS / "gpu/mp_nnodes_rank0.log").read_bytes()
    reader = LoadReader()
    assert [step for at in range(len(log)) for step in reader.feed(log[at : at + 1])] == read(
        "gpu/mp_nnodes_rank0.log"
    )


def test_two_hosts_over_ray_with_rays_defaults() -> None:
    """Colours, folded and late lines, three prefixes: rank 0's own lines come after its bar."""
    steps = read("gpu/ray_tp2_cold.log")
    assert phases(steps, None) == [
        *(Phase.STARTING, Phase.CONFIG, Phase.RAY, Phase.PLACEMENT, Phase.KV_CACHE, Phase.API, Phase.READY)
    ]
    after_load = [Phase.PROFILING, Phase.COMPILE, Phase.KV_CACHE, Phase.GRAPHS]
    assert phases(steps, 1) == [Phase.WORKERS, Phase.NCCL, Phase.WEIGHTS, *after_load]
    assert phases(steps, 0) == [*(Phase.NCCL, Phase.WEIGHTS, Phase.PROFILING, Phase.COMPILE, Phase.GRAPHS)]
    assert {step.ip for step in steps if step.rank == 1} == {"10.77.1.2"}
    assert {step.ip for step in steps if step.rank == 0} == {""}
    shards = [step.done for step in steps if step.unit == "shards"]
    assert list(dict.fromkeys(shards)) == list(range(21))


def test_second_by_second() -> None:
    """The log as it grew, with the time each line came (the .time file's seconds, offset and length)."""
    log = (LOGS / "gpu/ray_tp2_cold.log").read_bytes()
    reader, began = LoadReader(), dict[tuple[int | None, Phase], float]()
    shards: list[tuple[float, int]] = []
    for line in (LOGS / "gpu/ray_tp2_cold.time").read_text().splitlines():
        at, offset, length = line.split()
        for step in reader.feed(log[int(offset) : int(offset) + int(length)]):
            began.setdefault((step.rank, step.phase), float(at))
            if step.unit == "shards" and step.done is not None:
                shards.append((float(at), step.done))
    assert round(began[None, Phase.STARTING], 1) == 28.7
    assert round(began[None, Phase.RAY], 1) == 47.8
    assert 73 < began[1, Phase.WORKERS] < 74
    assert 75 < began[0, Phase.WEIGHTS] < 77
    assert 155 < began[0, Phase.GRAPHS] + 17 < 157
    assert 171 < began[None, Phase.API] < 172
    assert 173 < began[None, Phase.READY] < 174
    assert next(at for at, done in shards if done == 10) == pytest.approx(84.65, abs=0.01)


def test_without_dedup_both_ranks_tell() -> None:
    steps = read("ray_tp2_nodedup.log")
    for rank in (0, 1):
        assert phases(steps, rank) == [Phase.WORKERS, Phase.NCCL, Phase.WEIGHTS, Phase.KV_CACHE]
    assert [step.detail for step in steps if step.detail.startswith("weights took")] == [
        "weights took 0.01 s"
    ] * 2
    assert [(s.done, s.total) for s in steps if s.rank == 0 and s.unit][:2] == [(0, 4), (4, 4)]


def test_one_line_of_carriage_returns_is_a_bar() -> None:
    """Without Ray the graph bar is one line, all of it rank 0's."""
    bars = [
        step for step in read("gpu/mp_nnodes_rank0.log") if step.unit == "graphs" and "took" not in step.detail
    ]
    assert {step.line for step in bars} == {67, 68}
    assert [step.detail for step in bars if step.done == 51] == ["PIECEWISE", "FULL"]
    assert {step.rank for step in bars} == {0}


def test_a_bar_is_seen_before_its_line_ends() -> None:
    reader = LoadReader()
    reader.feed(b"(Worker_TP0 pid=7) \rCapturing CUDA graphs (FULL):  10%|#         | 5/51 [00:00<00:01]")
    (step,) = reader.feed(b"\r")
    assert (step.phase, step.rank, step.done, step.total, step.line) == (Phase.GRAPHS, 0, 5, 51, 1)


def test_the_headless_rank_of_mp() -> None:
    steps = read("gpu/mp_nnodes_rank1.log")
    assert phases(steps, 1)[-1] is Phase.GRAPHS
    assert Phase.READY not in {step.phase for step in steps}


def test_a_placement_group_that_waits() -> None:
    steps = read("gpu/fail_ray_one_node.log")
    assert [step.detail for step in steps if step.phase is Phase.PLACEMENT] == [
        "",
        "waiting for 10 s",
        "waiting for 30 s",
    ]
    assert steps[-1].line == 26


PREFIX = b"(EngineCore_DP0 pid=5) INFO 11-30 20:00:00 [file.py:1] "


@pytest.mark.parametrize(
    ("line", "phase", "detail"),
    [
        # 0.11.2's texts, where they differ.
        (PREFIX + b"GPU KV cache size: 1,024 tokens", Phase.KV_CACHE, "1,024 tokens"),
        (PREFIX + b"torch.compile takes 9.1 s in total", Phase.COMPILE, "compile took 9.1 s"),
        (PREFIX + b"Starting vLLM API server 0 on http://0.0.0.0:80", Phase.API, "http://0.0.0.0:80"),
        (b"(APIServer pid=5) INFO:     Application startup complete.", Phase.READY, ""),
        (b"INFO:     Application startup complete.\r", Phase.READY, ""),
    ],
)
def test_texts(line: bytes, phase: Phase, detail: str) -> None:
    step = LoadReader().feed(line + b"\n")[-1]
    assert (step.phase, step.detail) == (phase, detail)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        (b"Loading safetensors checkpoint shards", "shards"),
        (b"Loading safetensors checkpoint shards (eager)", "shards"),
        (b"Loading safetensors using Fastsafetensor loader", "shards"),
        (b"Loading safetensors using InstantTensor loader", "shards"),
        (b"Loading safetensors using Runai Model Streamer", "shards"),
        (b"Loading pt checkpoint shards", "shards"),
        (b"Multi-thread loading shards", "shards"),
        (b"Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)", "graphs"),
        (b"Capturing CUDA graph shapes", "graphs"),
    ],
)
def test_bars(name: bytes, unit: str) -> None:
    state = b" Completed | 3/4 [00:01<00:01]" if unit == "shards" else b"|####  | 3/4 [00:01<00:02]"
    step = LoadReader().feed(b"\r" + name + b":  75%" + state + b"\n")[-1]
    assert (step.rank, step.unit, step.done, step.total) == (0, unit, 3, 4)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_taken(data: bytes) -> None:
    reader = LoadReader()
    reader.feed(data)
    assert reader.lines == data.count(b"\n")


def test_a_line_without_end_takes_no_memory() -> None:
    reader = LoadReader()
    for _ in range(64):
        reader.feed(b"x" * 65536)
    assert reader.feed(b"\nINFO:     Application startup complete.\n")[-1].line == 2
