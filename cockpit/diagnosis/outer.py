"""What a tool that kept a log wrote before every line (a time, a host, a unit, a pod), learned from the log itself.

Tools differ, and their prefixes can be set; what follows them doesn't. So the beginnings that vLLM, Ray and Python
write are looked for, and what stands before them in the same shape on nearly every line is the tool's. Pure.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence

from cockpit.diagnosis.unwrap import Data
from cockpit.logs.records import strip_ansi

SAMPLE = 1 << 15
_ANCHOR = re.compile(
    r"\((?:(?:APIServer|ApiServer|EngineCore|Worker|VllmWorker|RayWorker|MainProcess|Process)\w*[^()\n]{0,40} )?pid=\w+"
    r"|\((?:raylet|autoscaler)\b"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \["
    r"|(?:INFO|WARNING|ERROR):     "
    r"|\[rank\d+\]: ?|\[[DIWEF]\d{4} \d\d:\d\d:\d\d"
    r"|\r?Loading \w+ checkpoint shards"
    r'|Traceback \(most recent call last\):|  File "[^"\n]+", line \d+'
    r"|usage: (?:vllm|api_server)|vllm(?: serve)?: error: "
)
_TOKEN = re.compile(r"[^\W_][\w.-]*|_[\w.-]*|\s+|.", re.DOTALL)
_LONGEST = 160
_LINES = 4000
_COVERED = 0.85


def learn(data: Data) -> re.Pattern[str] | None:
    """The pattern of what stands before every line of ``data``, None where nothing does."""
    return _learned(tuple(_pieces(data)))


@functools.lru_cache(maxsize=16)
def _learned(pieces: tuple[bytes, ...]) -> re.Pattern[str] | None:
    lines = _lines(pieces)
    found: dict[tuple[str, ...], list[list[str]]] = {}
    anchored = 0
    for line in lines:
        match = _ANCHOR.search(line, 0, _LONGEST + 80)
        if match is None:
            continue
        anchored += 1
        if (
            0 < match.start() <= _LONGEST
            and line[: match.start()].strip("\r")
            and not _inner(line[: match.start()])
        ):
            tokens = _TOKEN.findall(line[: match.start()])
            found.setdefault(tuple(map(_shape, tokens)), []).append(tokens)
    prefixed = [tokens for tokens in found.values() if len(tokens) * 20 >= anchored]
    if not anchored or sum(map(len, prefixed)) < 0.7 * anchored:
        return None
    pattern = re.compile("|".join(map(_pattern, sorted(prefixed, key=lambda one: -len(one[0])))))
    covered = sum(pattern.match(line) is not None for line in lines)
    return pattern if covered >= _COVERED * len(lines) else None


def _pieces(data: Data) -> list[bytes]:
    """The beginning and the end of a log, in whole lines."""
    pieces = [bytes(data[:SAMPLE])]
    if len(data) > SAMPLE:
        end = bytes(data[max(SAMPLE, len(data) - SAMPLE) :])
        pieces = [pieces[0].rpartition(b"\n")[0], end.partition(b"\n")[2]]
    return pieces


def _lines(pieces: Sequence[bytes]) -> list[str]:
    """The lines that say anything, without colours."""
    lines = [line for piece in pieces for line in piece.split(b"\n")[: _LINES // 2] if line.strip()]
    return [strip_ansi(line[:1000].decode("utf-8", "replace")) for line in lines]


def _inner(text: str) -> bool:
    """Whether it is what vLLM, Ray, torch or NCCL themselves may have before such a beginning."""
    return " NCCL " in text or text.endswith((" -- ", "/core.py:1510] "))


def _shape(token: str) -> str:
    if token.isspace():
        return " "
    return "w" if re.match(r"\w", token) else token


def _pattern(examples: Sequence[Sequence[str]]) -> str:
    """A pattern of all examples of a shape; each word is a group."""
    parts = []
    for place, tokens in enumerate(zip(*examples, strict=True)):
        kinds = Counter(tokens)
        first = next(iter(kinds))
        if first.isspace():
            last = place == len(examples[0]) - 1
            parts.append(re.escape(first) if len(kinds) == 1 and (last or place == 0) else r"[^\S\n]+")
        else:
            parts.append(r"([\w.-]+)" if re.match(r"\w", first) else re.escape(first))
    return "(?:" + "".join(parts) + ")"


_NO_HOST = re.compile(
    r"(?i)std(?:out|err)|[FP]|jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun"
    r"|info|warn(?:ing)?|error|debug|[\d.-]+(?:T\d+)?|.*\.(?:log|txt|out|err)|utc|am|pm"
)
_PID = re.compile(r"\[\d+\]:? ")
_HOSTS = 8
_LEAST = 3


def host_group(data: Data, pattern: re.Pattern[str]) -> int:
    """The group of ``pattern`` that tells two or more writers of a log apart, 0 where there is but one."""
    matches = [match for match in map(pattern.match, _lines(_pieces(data))) if match]
    for group in range(1, pattern.groups + 1):
        values = Counter(match[group] for match in matches if match[group])
        named = not any(_NO_HOST.fullmatch(value) for value in values)
        if any(_PID.match(match.string, match.end(group)) for match in matches):
            continue  # the name of a program, as in "host systemd[1]: "
        if named and 2 <= len(values) <= _HOSTS and min(values.values()) >= _LEAST:
            return group
    return 0
