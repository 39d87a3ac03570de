"""Search, filters, errors and folding against the simplest reference on arbitrary bytes."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.logs.blocks import BLOCK, LogFile
from cockpit.logs.filters import Errors, Filter, Folding
from cockpit.logs.pattern import Pattern, PatternError
from cockpit.logs.records import parse_line
from cockpit.logs.search import Finder, Query, required_literal
from cockpit.logs.sieve import Sieve

PIECES = st.sampled_from(
    [
        b"\n",
        b"\n\n",
        b"\r\n",
        b"abc",
        b"ABC",
        b"ab",
        b"c",
        b"\x00",
        b"\xff\xfe",
        "é中".encode(),
        b"\xc2\x9b",
        b" ",
    ]
)
CONTENT = st.lists(st.one_of(PIECES, st.binary(max_size=8)), max_size=80).map(b"".join)
PATTERNS = st.sampled_from(["a", "abc", "aBC", "b", "é", "É", "中", "\x00", " ", "bca", "\udcff"])
EXPRESSIONS = st.sampled_from(
    [
        r"a+b",
        r"^a",
        r"c$",
        r"[^a]b",
        r"\s",
        r"a|c",
        r".",
        r"(?:ab)+",
        r"b.?c",
        r"\w\W",
        r"bc\.?",
        r"b[^b]*c",
        r"a\s*b",
        r"^$",
        r"x*",
        r"\bc",
        r"(?<!a)b",
        r"(?<=\s)c|b(?!c)",
        r"(a|b)\1",
        r"\Aa|c\Z",
        r"[^c]++c",
        r"\na|b",
    ]
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("search") / "log"


def lines_of(content: bytes) -> list[tuple[int, bytes]]:
    lines: list[tuple[int, bytes]] = []
    at = 0
    for line in content.split(b"\n"):
        lines.append((at, line))
        at += len(line) + 1
    return lines if lines[-1][1] else lines[:-1]


def reference(content: bytes, query: Query) -> list[int]:
    """The first hit of each line, with a plain search in the line's text."""
    if query.regex:
        pattern = regex.compile(query.pattern, 0 if query.case else regex.I)
    else:
        pattern = re.compile(re.escape(query.pattern), 0 if query.case else re.I)
    found: list[int] = []
    for start, line in lines_of(content):
        text = line.decode("utf-8", "surrogateescape")
        if match := pattern.search(text):
            found.append(start + len(text[: match.start()].encode("utf-8", "surrogateescape")))
    return found


def sift(path: Path, content: bytes, finder: Finder, **sizes: int) -> list[int]:
    path.write_bytes(content)
    with LogFile(path) as file:
        sieve = Sieve(file, finder, **sizes)
        while sieve.extend(1):
            pass
        assert sieve.complete
        return [offset for number in range(len(sieve)) if (offset := sieve.nth(number)) is not None]


@settings(max_examples=300, deadline=None)
@given(content=CONTENT, pattern=PATTERNS, case=st.booleans(), window=st.sampled_from([700, 5000]))
def test_literals(path: Path, content: bytes, pattern: str, case: bool, window: int) -> None:
    query = Query(pattern, case=case)
    assert sift(path, content, query.finder(), window=window, overlap=10) == reference(content, query)


@settings(max_examples=300, deadline=None)
@given(content=CONTENT, pattern=EXPRESSIONS, case=st.booleans(), window=st.sampled_from([700, 5000]))
def test_expressions(path: Path, content: bytes, pattern: str, case: bool, window: int) -> None:
    query = Query(pattern, regex=True, case=case)
    assert sift(path, content, query.finder(), window=window, overlap=10) == reference(content, query)


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(CONTENT, max_size=6), query=st.builds(Query, PATTERNS, case=st.booleans()))
def test_a_growing_file(path: Path, parts: list[bytes], query: Query) -> None:
    path.write_bytes(b"")
    content = b""
    with LogFile(path) as file, path.open("ab") as writer:
        sieve = Sieve(file, query.finder(), window=700, overlap=10)
        for part in parts:
            content += part
            writer.write(part)
            writer.flush()
            file.refresh()
            while sieve.extend(1):
                pass
            assert [sieve.nth(number) for number in range(len(sieve))] == reference(content, query)


@settings(max_examples=100, deadline=None)
@given(
    gaps=st.lists(st.integers(1, 3 * BLOCK), max_size=12),
    looks=st.lists(st.integers(0, 12 * BLOCK), min_size=1, max_size=20),
)
def test_next_and_previous(path: Path, gaps: list[int], looks: list[int]) -> None:
    content = b"".join(b"." * (gap - 1) + b"\nX" for gap in gaps)
    path.write_bytes(content)
    hits = [at for at, byte in enumerate(content) if byte == ord("X")]
    with LogFile(path) as file:
        sieve = Sieve(file, Query("X", case=True).finder(), window=100_000, overlap=10)
        while sieve.extend():
            pass
        assert len(sieve) == len(hits)
        for look in looks:
            assert sieve.next(look) == min((hit for hit in hits if hit >= look), default=None)
            assert sieve.previous(look) == max((hit for hit in hits if hit < look), default=None)
            assert sieve.before(look) == sum(hit < look for hit in hits)


def test_a_long_line_is_searched_in_windows(path: Path) -> None:
    content = bytearray(b"x" * 5_000_000)
    for at in (10, 1_048_570, 3_000_000, 4_999_995):
        content[at : at + 5] = b"needl"
    assert sift(path, bytes(content), Query("needl", case=True).finder()) == [
        10,
        1_048_570,
        3_000_000,
        4_999_995,
    ]


@pytest.mark.parametrize(
    ("pattern", "required"),
    [
        (r"\d+\.\d+ GiB", b" GiB"),
        (r"abc+d", b"abc"),
        (r"abc\.?de", b"abc"),
        (r"a\.b", b"a.b"),
        (r"\bworld", b"world"),
        (r"a|bcd", b""),
        (r"(abc)?", b""),
        (r"x{2}yz", b""),
        (r"\x41b", b""),
    ],
)
def test_what_every_match_must_hold(pattern: str, required: bytes) -> None:
    found = required_literal(pattern)
    assert found == required


@settings(max_examples=200, deadline=None)
@given(
    pattern=st.lists(
        st.sampled_from(["a", "b", "ab", r"\.", r"\d", ".", "+", "*", "?", r"\b", "^", "$", "{2}", " "]),
        max_size=6,
    ).map("".join),
    line=st.text("ab.1 ", max_size=20),
)
def test_no_match_lacks_the_required_literal(pattern: str, line: str) -> None:
    try:
        match = re.search(pattern, line)
    except re.error:
        return
    if match:
        assert required_literal(pattern).decode() in line


@pytest.mark.parametrize("query", [Query(""), Query("(", regex=True), Query("a\nb"), Query("[", regex=True)])
def test_bad_patterns_are_refused(query: Query) -> None:
    with pytest.raises(PatternError):
        query.finder()


SERVE = b"""(APIServer pid=1) INFO 11-30 20:00:00 [a.py:1] starting
(EngineCore pid=2) (RayWorkerProc pid=3) (Worker_TP0 pid=3) INFO 11-30 20:00:01 [w.py:5] zero
(EngineCore pid=2) (RayWorkerProc pid=4, ip=10.0.0.2) (Worker_TP1 pid=4) WARNING 11-30 20:00:02 [w.py:6] one
bare continuation
(EngineCore pid=2) ERROR 11-30 20:00:03 [core.py:9] failed
(EngineCore pid=2) ERROR 11-30 20:00:03 [core.py:9] Traceback (most recent call last):
(APIServer pid=1) INFO 11-30 20:00:04 [a.py:1] bye
(APIServer pid=1) INFO 11-30 20:00:05 [a.py:1] bye
RuntimeError: last words"""


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (Filter(level="WARNING"), [3, 4, 5, 6]),
        (Filter(ranks=frozenset({1})), [3, 4]),
        (Filter(processes=frozenset({"Worker_TP0"})), [2]),
        (Filter(address="10.0.0.2"), [3, 4]),
        (Filter(query=Query("bye")), [7, 8]),
        (Filter(query=Query("pid"), invert=True), [4, 9]),
        (Filter(query=Query("one"), level="WARNING"), [3]),
        (Filter(), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_filters(path: Path, wanted: Filter, kept: list[int]) -> None:
    starts = [start for start, _ in lines_of(SERVE)]
    assert sift(path, SERVE, wanted.finder(), window=700, overlap=10) == [starts[number - 1] for number in kept]


BARS = b"""(EngineCore pid=2) WARNING 11-30 20:00:02 [w.py:6] mind
(EngineCore pid=2) \rLoading shards: 50% | 1/2 [00:01<00:01,  1.00s/it]\rLoading shards: 100%
Capturing graphs: 100% | 2/2 [00:01<00:00,  2.00it/s]
bare continuation
(APIServer pid=1) INFO 11-30 20:00:03 [a.py:1] hello
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "a.py", line 1
(APIServer pid=1) INFO 11-30 20:00:04 [a.py:1] bye
Traceback (most recent call last):
ValueError: out
(APIServer pid=1) \r 10%|(EngineCore pid=2) ERROR 11-30 20:00:05 [c.py:1] into the bar
\r10%\r20%
(APIServer pid=1) INFO 11-30 20:00:06 [a.py:1] end
"""


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (Filter(level="WARNING"), [1, 4, 6, 7, 9, 10, 11]),
        (Filter(level="INFO"), list(range(1, 14))),
        (Filter(processes=frozenset({"EngineCore"})), [1, 2, 4, 11]),
        (Filter(processes=frozenset({"APIServer"})), [5, 6, 7, 8, 13]),
        (Filter(query=Query("100%"), level="WARNING"), []),
        (Filter(query=Query("100%"), invert=True, level="WARNING"), [1, 4, 6, 7, 9, 10, 11]),
    ],
)
def test_a_bar_is_no_continuation_and_a_traceback_is_an_error(
    path: Path, wanted: Filter, kept: list[int]
) -> None:
    starts = [start for start, _ in lines_of(BARS)]
    assert sift(path, BARS, wanted.finder(), window=700, overlap=10) == [starts[number - 1] for number in kept]


def test_errors_are_the_heads_of_their_runs(path: Path) -> None:
    starts = [start for start, _ in lines_of(SERVE)]
    assert sift(path, SERVE, Errors(), window=700, overlap=10) == [starts[4], starts[8]]


def test_folding_keeps_the_first_of_equal_lines(path: Path) -> None:
    starts = [start for start, _ in lines_of(SERVE)]
    assert sift(path, SERVE, Folding(), window=700, overlap=10) == [
        start for start in starts if start != starts[7]
    ]


PREFIXES = st.lists(
    st.sampled_from(
        [
            "(APIServer pid=1) ",
            "(EngineCore pid=2) ",
            "\x1b[36m(RayWorkerProc pid=4, ip=10.0.0.2)\x1b[0m ",
            "(Worker_TP1 pid=4) ",
            "(EngineCore_DP0 pid=9)",
            "[rank1]: ",
            "(see above) ",
            "(",
        ]
    ),
    max_size=3,
).map("".join)
HEADS = st.sampled_from(
    ["INFO 11-30 20:00:00 [w.py:5] ", "ERROR 11-30 20:00:00 core.py:5] ", "WARNING: ", "INFO ", ""]
)


@settings(max_examples=300, deadline=None)
@given(
    lines=st.lists(
        st.tuples(
            PREFIXES,
            HEADS,
            st.sampled_from(
                ["text", "", "ERROR 11-30 20:00:00 [w.py:5] x", "(x pid=5) y", "h:1:2 [0] NCCL INFO x"]
            ),
        ),
        max_size=8,
    )
)
def test_the_quick_look_at_a_line_sees_what_the_long_one_does(lines: list[tuple[str, str, str]]) -> None:
    taking = Filter(level="INFO").finder()
    for parts in lines:
        text = "".join(parts)
        quick, level = taking._taken(text)
        whole = parse_line(text)
        assert level == whole.level
        assert (quick.process, quick.chain, quick.pid, quick.ip, quick.rank) == (
            whole.process,
            whole.chain,
            whole.pid,
            whole.ip,
            whole.rank,
        )


SLOW = r"^(a|aa)+$"


def test_an_expression_that_backtracks_without_end_is_given_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other threads run on meanwhile, and what was found before it stays found."""
    content = b"aaa\n" * 300_000 + b"a" * 200 + b"b\n"
    path.write_bytes(content)
    monkeypatch.setattr(Pattern.span, "__defaults__", (0, 1.0))
    done = threading.Event()
    with LogFile(path) as file:
        sieve = Sieve(file, Query(SLOW, regex=True, case=True).finder())

        def work() -> None:
            while sieve.extend(1):
                pass
            done.set()

        threading.Thread(target=work).start()
        turns = 0
        while not done.wait(0.01):
            turns += 1
        assert turns > 20, "this thread was let run while the expression was tried"
        assert "takes too long" in sieve.failed
        assert sieve.over and not sieve.complete
        assert len(sieve) > 200_000
        assert not sieve.extend()
