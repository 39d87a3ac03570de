"""One log that several hosts wrote into (a tool's view of all containers, a merged journal), taken apart by host. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cockpit.diagnosis import outer
from cockpit.diagnosis.sources import NO_LOGS, Source
from cockpit.logs.records import strip_ansi

_MOST = 64 << 20
"""Bytes of a log that is taken apart: its parts are copies."""


def apart(sources: Sequence[Source]) -> list[Source]:
    """The sources, each that the tool's own prefix tells to be of several hosts as one a host."""
    return [part for source in sources for part in _parts(source)]


def _parts(source: Source) -> Iterator[Source]:
    pattern = None if source.role in NO_LOGS or len(source.data) > _MOST else outer.learn(source.data)
    group = outer.host_group(source.data, pattern) if pattern else 0
    if pattern is None or not group:
        yield source
        return
    lines: dict[str, list[bytes]] = {}
    numbers: dict[str, list[int]] = {}
    host = ""
    for number, line in enumerate(bytes(source.data).split(b"\n"), 1):
        text = strip_ansi(line.decode("utf-8", "replace"))
        match = pattern.match(text)
        if match:
            host, line = match[group] or host, text[match.end() :].encode("utf-8", "replace")
        lines.setdefault(host, []).append(line)
        numbers.setdefault(host, []).append(number)
    for name, own in lines.items():
        places = [source.line_of(number) for number in numbers[name]]
        yield Source(source.name, name or source.host, source.role, b"\n".join(own), places, source.note)
