"""Whatever the bytes, the engine answers; a cut or interleaved log never makes it fail."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.report import report
from cockpit.diagnosis.signatures import signatures
from cockpit.diagnosis.sources import FACTS, KERNEL, RAY_WORKER, SERVE, Source
from cockpit.diagnosis.unwrap import of_bytes
from cockpit.model.finding import Explanation

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
LOGS = [path.read_bytes() for path in sorted(CAPTURES.rglob("*.log")) if path.stat().st_size < 120_000]
LINES = [line for log in LOGS for line in log.split(b"\n")]
EXAMPLES = [one.example.encode() for one in signatures()]
STATUSES = {"failed", "stalled", "loading", "ok", "stopped", "unknown"}
ROLES = st.sampled_from([SERVE, RAY_WORKER, KERNEL, FACTS])
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def holds(told: Explanation, sources: list[Source]) -> None:
    """What every explanation keeps to."""
    assert told.status in STATUSES
    if told.status in ("failed", "stalled"):
        assert told.findings
    for finding in told.findings:
        for shown in finding.evidence:
            source = next(one for one in sources if one.name == shown.file)
            line = bytes(source.data).split(b"\n")[shown.line - 1].decode("utf-8", "replace")
            assert shown.text
            assert shown.text[:40] in line or "\x1b" in line
    assert report(told, sources, {})


@QUIET
@given(st.lists(st.tuples(ROLES, st.binary(max_size=2000)), max_size=3))
@example([])
@example([(SERVE, b"")])
@example([(SERVE, b"\n\n\r\x00")])
def test_any_bytes(parts: list[tuple[str, bytes]]) -> None:
    sources = [Source(f"{index}.log", "", role, data) for index, (role, data) in enumerate(parts)]
    holds(explain(sources), sources)


@QUIET
@given(st.sampled_from(LOGS), st.floats(0, 1), st.floats(0, 1))
def test_cut_at_any_byte(log: bytes, first: float, last: float) -> None:
    low, high = sorted((int(first * len(log)), int(last * len(log))))
    sources = [Source("cut.log", "", SERVE, log[low:high])]
    holds(explain(sources), sources)


@QUIET
@given(st.lists(st.sampled_from(LINES + EXAMPLES), max_size=200))
def test_lines_of_many_logs_in_any_order(lines: list[bytes]) -> None:
    sources = [Source("mixed.log", "", SERVE, b"\n".join(lines))]
    holds(explain(sources), sources)


@QUIET
@given(st.sampled_from(LOGS), st.sampled_from(LOGS), st.data())
def test_two_logs_interleaved(one: bytes, other: bytes, data: st.DataObject) -> None:
    left, right = one.split(b"\n"), other.split(b"\n")
    merged: list[bytes] = []
    while left and right:
        take = data.draw(st.integers(1, 60))
        side = left if data.draw(st.booleans()) else right
        merged += side[:take]
        del side[:take]
    sources = [Source("merged.log", "", SERVE, b"\n".join([*merged, *left, *right]))]
    holds(explain(sources), sources)


@pytest.mark.parametrize("template", ["{0.__class__}", "{", "}{", "{a[b]}", "%s{}"])
def test_braces_in_a_message_are_only_text(template: str) -> None:
    log = f"vllm serve: error: argument --dtype: invalid choice: '{template}' (choose from 'auto', '{template}')\n"
    told = explain([Source("serve.log", "", SERVE, log.encode())])
    assert told.findings[0].kind == "args"
    assert template in told.findings[0].evidence[0].text


STARTS = st.sampled_from(
    [
        b"",
        b"\x1f\x8b\x08",
        b"\xff\xfe",
        b'{"log":"',
        b'[{"message":"',
        b"__CURSOR=a\nMESSAGE\n",
        b'"a\\nINFO 11-30 ',
        b"[",
    ]
)


@QUIET
@given(STARTS, st.binary(max_size=3000), st.integers(0, 3000))
def test_any_bytes_in_any_wrapping(start: bytes, rest: bytes, cut: int) -> None:
    """Whatever is unwrapped: each of its lines stands in a line of the file."""
    for raw in (start + rest, gzip.compress(start + rest)[:cut]):
        log = of_bytes(raw)
        lines = bytes(log.data).split(b"\n")
        if log.numbers:
            assert len(log.numbers) == len(lines)
            assert list(log.numbers) == sorted(log.numbers)
            assert 1 <= log.numbers[0] <= log.numbers[-1] <= raw.count(b"\n") + 1
        elif not raw.startswith((b"\x1f\x8b", b"\xff\xfe")):
            assert len(lines) == raw.count(b"\n") + 1


@QUIET
@given(st.sampled_from(LOGS), st.integers(0, 400))
def test_a_log_wrapped_and_cut_keeps_its_lines(log: bytes, cut: int) -> None:
    """Docker's form of a log that was cut somewhere: every whole line is there, at its place."""
    lines = log.decode("utf-8", "replace").split("\n")[:60]
    raw = "\n".join(json.dumps({"log": line + "\n"}) for line in lines).encode()
    got = of_bytes(raw[: len(raw) - cut])
    whole = raw[: len(raw) - cut].count(b"\n")
    assert bytes(got.data).split(b"\n")[:whole] == [line.encode() for line in lines[:whole]]
    assert list(got.numbers) in ([], list(range(1, len(got.numbers) + 1)))
