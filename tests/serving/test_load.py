"""Verdicts on loads, from the logs of loads that came up and of loads that hung."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.model.facts import Member, Membership, MemberState
from cockpit.model.progress import Phase
from cockpit.runtime.detached import Process, ProcessState
from cockpit.serving.load import Judgement, LoadKind, LoadWatch, judge

LOGS = Path(__file__).parent.parent / "data" / "logs"
RUNNING = Process(ProcessState.RUNNING, 1)
BOTH = Membership(
    True,
    (Member("spark-1", MemberState.JOINED, gpus=1), Member("spark-2", MemberState.JOINED, gpus=1)),
)
ONE = Membership(True, (Member("spark-1", MemberState.JOINED, gpus=1), Member("spark-2", MemberState.MISSING)))


def verdict(log: bytes, *, now: float = 1.0, process: Process = RUNNING, **more: object) -> Judgement:
    watch = LoadWatch(0.0)
    watch.feed(log, 0.0)
    return judge(watch.state, process, now, ready_within=3600, ranks=2, **more)  # type: ignore[arg-type]


def lines(name: str, count: int | None = None) -> bytes:
    return b"".join((LOGS / name).read_bytes().splitlines(keepends=True)[:count])


def test_second_by_second_a_good_load_is_never_judged_stalled() -> None:
    """Its longest silence was 25 seconds; judged at each second, with Ray's hosts known and unknown."""
    log = (LOGS / "gpu/ray_tp2_cold.log").read_bytes()
    growth = [
        (float(at), int(offset) + int(length))
        for at, offset, length in map(str.split, (LOGS / "gpu/ray_tp2_cold.time").read_text().splitlines())
    ]
    watch, read, kinds = LoadWatch(0.0), 0, list[LoadKind]()
    for second in range(175):
        end = max((size for at, size in growth if at <= second), default=0)
        watch.feed(log[read:end], float(second))
        read = end
        for membership in (None, BOTH):
            kinds.append(
                judge(watch.state, RUNNING, second, ready_within=600, ranks=2, membership=membership).kind
            )
    assert set(kinds[:-2]) == {LoadKind.LOADING}
    assert kinds[-1] is LoadKind.READY_LINE


def test_the_end_of_the_process_comes_before_all_else() -> None:
    ended = verdict(lines("serve_ok.log"), process=Process(ProcessState.ENDED, 1, 0))
    assert (ended.kind, ended.status) == (LoadKind.DEAD, 0)
    gone = verdict(lines("serve_ok.log"), process=Process(ProcessState.GONE, 1))
    assert (gone.kind, gone.status) == (LoadKind.DEAD, None)


@pytest.mark.parametrize("name", ["gpu/fail_ray_one_node.log", "fail_ray_one_node_only.log"])
def test_one_host_only_is_told_at_the_first_waiting_line(name: str) -> None:
    log = lines(name)
    first = log.split(b"\n")
    upto = next(at for at, line in enumerate(first, 1) if b"for 10 seconds" in line)
    stalled = verdict(lines(name, upto), membership=ONE)
    assert stalled.kind is LoadKind.STALLED
    assert "1 of 2 hosts are in Ray; not there: spark-2" in stalled.reason
    assert [sign.line for sign in stalled.evidence] == [upto]
    assert stalled.evidence[0].text.startswith("Waiting for creating a placement group of specs for 10 seconds")


def test_a_placement_group_with_all_hosts_gets_half_a_minute() -> None:
    name = "gpu/fail_ray_one_node.log"
    assert verdict(lines(name, 25), membership=BOTH).kind is LoadKind.LOADING
    stalled = verdict(lines(name, 26), membership=BOTH)
    assert stalled.kind is LoadKind.STALLED
    assert "30 s" in stalled.reason
    assert [sign.line for sign in stalled.evidence] == [25, 26]


def test_a_dead_address() -> None:
    stalled = verdict(lines("fail_ray_wrong_address.log"))
    assert stalled.kind is LoadKind.STALLED
    assert "does not answer" in stalled.reason
    assert stalled.evidence[0].line == 23
    assert verdict(lines("fail_ray_wrong_address.log", 23)).kind is LoadKind.LOADING


def test_a_ray_of_vllms_own() -> None:
    """The texts of vLLM 0.32.0 and Ray 2.60.0 without RAY_ADDRESS; it is told once vLLM waits in it."""
    own = (
        b"2026-11-30 20:35:47,137\tINFO worker.py:2029 -- Started a local Ray instance. "
        b"View the dashboard at http://127.0.0.1:8265\n"
    )
    waits = b"".join(
        line for line in lines("fail_ray_one_node_only.log").splitlines(True) if b"10 seconds" in line
    )
    assert verdict(own).kind is LoadKind.LOADING
    stalled = verdict(own + waits)
    assert stalled.kind is LoadKind.STALLED
    assert "a Ray of its own" in stalled.reason
    assert [sign.kind for sign in stalled.evidence] == ["own_ray", "waiting"]


def test_a_rank_that_never_comes() -> None:
    """mp over hosts: rank 0 says what it waits for, then nothing."""
    log = lines("gpu/mp_nnodes_rank0.log", 18)
    assert verdict(log, now=59.0).kind is LoadKind.LOADING
    stalled = verdict(log, now=61.0)
    assert stalled.kind is LoadKind.STALLED
    assert "Rank 0 waits for rank 1" in stalled.reason


def test_silence_alone_is_no_stall() -> None:
    assert verdict(lines("serve_ok.log", 17), now=900.0).kind is LoadKind.LOADING
    assert verdict(lines("gpu/mp_nnodes_rank0.log", 56), now=900.0).kind is LoadKind.LOADING


def test_the_time_limit() -> None:
    late = verdict(lines("serve_ok.log", 17), now=3600.0)
    assert late.kind is LoadKind.TIMEOUT
    assert "config" in late.reason


def test_the_pieces_do_not_matter() -> None:
    log = lines("fail_ray_wrong_address.log")
    watch, whole = LoadWatch(0.0), LoadWatch(0.0)
    whole.feed(log, 0.0)
    for at in range(0, len(log), 7):
        watch.feed(log[at : at + 7], 0.0)
    assert watch.state == whole.state
    assert whole.state.phase is Phase.RAY
