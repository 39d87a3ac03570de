"""A report for others: one self-contained Markdown text; secrets, names of users and hosts, addresses masked."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from cockpit.diagnosis.masking import Mask
from cockpit.diagnosis.reading import read
from cockpit.diagnosis.scan import line_at, lines_after, lines_before, text_at
from cockpit.diagnosis.situation import Situation, situation
from cockpit.diagnosis.sources import NO_LOGS, Source
from cockpit.logs.records import strip_ansi
from cockpit.logs.sanitise import clean
from cockpit.model.finding import Evidence, Explanation, Finding

_BEFORE, _AFTER, _LONG = 12, 8, 500


def report(explanation: Explanation, sources: Sequence[Source], facts: Mapping[str, str]) -> str:
    """The report. ``facts`` are more lines of its first table: what was measured, in words."""
    told = _situation(sources)
    parts = [
        "# Why the launch is as it is",
        "",
        f"Status: **{explanation.status}**",
        "",
        *_table({**_launch(told), **facts}),
        *_logs(sources),
    ]
    for number, finding in enumerate(explanation.findings, 1):
        parts += _finding(number, finding, sources)
    if explanation.next:
        parts += ["## What else to collect", "", *(f"* {_prose(step)}" for step in explanation.next), ""]
    parts += [
        "Secrets, names of users and hosts, and addresses are masked, the same value by the same mark.",
        "",
    ]
    text = "\n".join(parts)
    return Mask(_hosts(explanation, sources, text)).text(text)


_HOST_IN_LINE = re.compile(
    r"(?m)^[> ] +\d+ .*?(?:\b(?P<nccl>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\]"
    r"|(?:\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?) (?P<syslog>[A-Za-z][\w.-]*) [\w./-]+(?:\[\d+\])?: )"
)

_HOST_IN_MESSAGE = re.compile(
    r"(?:addr|remote|local)=\[?(?P<socket>[A-Za-z][\w.-]*)\]?:\d+|address(?:es)? of \(?(?P<peer>[A-Za-z][\w.-]*), \d+\)"
    r"|connect to \(?(?P<other>[A-Za-z][\w.-]*), \d+\)|\[(?P<bracket>[A-Za-z][\w.-]*)\]:\d{2,5}\b"
)


def _hosts(explanation: Explanation, sources: Sequence[Source], text: str) -> set[str]:
    """The names of hosts: as the cockpit knows them, and as NCCL's and the system's lines give them."""
    names = {source.host for source in sources} | {finding.host for finding in explanation.findings}
    for pattern in (_HOST_IN_LINE, _HOST_IN_MESSAGE):
        for match in pattern.finditer(text):
            names |= {name for name in match.groups() if name}
    return names - {""}


def _situation(sources: Sequence[Source]) -> Situation:
    readings = [read(source, index) for index, source in enumerate(sources) if source.role not in NO_LOGS]
    return situation(hit for one in readings for hit in one.hits)


def _launch(told: Situation) -> dict[str, str]:
    arguments = " ".join(f"{name}={value!r}" for name, value in told.args.items())
    topology = [f"world size {told.world}" if told.world else "", "Ray" if told.ray else told.backend]
    return {
        "vLLM": told.version or "unknown",
        "model": told.model or "unknown",
        "topology": ", ".join(word for word in topology if word) or "unknown",
        "arguments other than vLLM's defaults": arguments or "unknown",
    }


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _one_line(text: str) -> str:
    """A text of a log as one line that ends no fence."""
    return clean(strip_ansi(text)).replace("\n", " ").replace("```", "'''")


def _prose(text: str) -> str:
    """The same outside a fence, where tags would be read."""
    return _one_line(text).replace("<", "&lt;")


def _table(rows: Mapping[str, str]) -> Iterable[str]:
    yield from ("| what | value |", "|---|---|")
    for name, value in rows.items():
        yield f"| {_cell(name)} | {_cell(value)} |"
    yield ""


def _logs(sources: Sequence[Source]) -> Iterable[str]:
    yield "Logs read:"
    yield ""
    for source in sources:
        host = f" of {source.host}" if source.host else ""
        yield f"* {_prose(source.name)} ({source.role}{host}, {len(source.data)} bytes)"
    yield ""


def _finding(number: int, finding: Finding, sources: Sequence[Source]) -> Iterable[str]:
    where = f" on {_prose(finding.host)}" if finding.host else ""
    yield f"## {number}. {finding.kind}{where} ({finding.severity.value}, {finding.confidence.value})"
    yield from ("", _prose(finding.cause), "")
    for fix in finding.fix:
        yield f"* {_prose(fix.text)}" + (f" `{fix.change}`" if fix.change else "")
    yield ""
    for evidence in finding.evidence:
        yield from _evidence(evidence, sources)


def _evidence(evidence: Evidence, sources: Sequence[Source]) -> Iterable[str]:
    yield f"{_prose(evidence.file)}, line {evidence.line}:"
    yield from ("", "```text")
    source = next((one for one in sources if one.name == evidence.file), None)
    if source is None:
        yield f"> {_one_line(evidence.text)[:_LONG]}"
    else:
        yield from _context(source, evidence)
    yield from ("```", "")


def _context(source: Source, evidence: Evidence) -> Iterable[str]:
    line, offset = _place(source, evidence)
    before = [
        (line - count, text) for count, (_, text) in enumerate(lines_before(source.data, offset, _BEFORE), 1)
    ]
    after = [
        (line + count, text) for count, (_, text) in enumerate(lines_after(source.data, offset, _AFTER), 1)
    ]
    for number, text in [*reversed(before), (line, text_at(source.data, offset)), *after]:
        mark = ">" if number == line else " "
        yield f"{mark} {source.line_of(number):6} {_one_line(text)[:_LONG]}"


def _place(source: Source, evidence: Evidence) -> tuple[int, int]:
    """The log's line that is shown, and where it begins. Of several that stand in one line of the file it is the one
    with the text."""
    if not source.numbers:
        return evidence.line, _offset(source, evidence.line)
    first = bisect_left(source.numbers, evidence.line) + 1
    offset = _offset(source, first)
    if evidence.text[:_LONG] not in text_at(source.data, offset):
        last = bisect_right(source.numbers, evidence.line)
        after = enumerate(lines_after(source.data, offset, last - first), first + 1)
        for line, (at, text) in after:
            if evidence.text[:_LONG] in text:
                return line, at
    return first, offset


def _offset(source: Source, line: int) -> int:
    """Where ``line`` (from 1) begins."""
    offset = 0
    for _ in range(line - 1):
        _, end = line_at(source.data, offset)
        if end >= len(source.data):
            break
        offset = end + 1
    return offset
