"""Messages as other programs print them, at the end of a failed start: each is of its kind.

``tests/data/messages.txt`` holds them: the kind, then the message's lines, then an empty line.
"""

from pathlib import Path

import pytest

from cockpit.diagnosis.engine import explain
from tests.diagnosis.logs import ENGINE, HOSTS, Log

FILE = Path(__file__).parent.parent / "data" / "messages.txt"
MESSAGES = [entry.split("\n") for entry in FILE.read_text().strip().split("\n\n")]


@pytest.mark.parametrize("entry", MESSAGES, ids=[f"{entry[0]}-{at}" for at, entry in enumerate(MESSAGES)])
def test_kind(entry: list[str]) -> None:
    kind, *lines = entry
    log = Log().start().traceback(ENGINE, *lines, source="core.py:1").engine_failed()
    told = explain([log.source()], HOSTS)
    assert (told.status, told.findings[0].kind) == ("failed", kind)
    assert told.findings[0].evidence[0].line == log.line_of(lines[0])
    assert told.findings[0].fix
