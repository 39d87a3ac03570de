"""Complete logs of launches on the lab that were broken on purpose: each is answered as a person judged it.

``python -m tests.diagnosis.broken NAME`` makes a log anew; the answers were written by hand.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import collect
from tests.diagnosis.test_cases import _has, _recommends

DATA = Path(__file__).parent.parent / "data" / "broken"
_INIT = re.compile(r"127\.0\.\d+\.([23])\b")


def hosts_of(folder: Path) -> dict[str, str]:
    """The bench's addresses as its logs have them: .2 is the head's, .3 the worker's."""
    found = {}
    for path in folder.iterdir():
        for match in _INIT.finditer(path.read_text(errors="replace")):
            found[match[0]] = "head" if match[1] == "2" else "worker"
    return found


def check(folder: Path, answer: dict[str, Any]) -> None:
    """``explain`` of the logs in ``folder`` is as ``answer`` says."""
    told = explain(collect([folder]), hosts_of(folder))
    assert told.status in answer["status"]
    if answer["kind"] == "none":
        assert not told.fault
        return
    first = told.findings[0]
    assert first.kind in [answer["kind"], *answer.get("also", [])]
    assert first.host == answer["host"]
    shown = first.evidence[0]
    line = Path(shown.file).read_bytes().decode("utf-8", "replace").split("\n")[shown.line - 1]
    assert any(text in line for text in [answer["decisive"], *answer.get("decisive_any", [])])
    fixes = "\n".join(fix.text for fix in first.fix)
    assert [word for word in answer["fix"] if not _has(word, fixes)] == []
    assert [word for word in answer.get("must_not_say", []) if _recommends(word, fixes)] == []


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir()))
def test_broken_launch(name: str) -> None:
    check(DATA / name, yaml.safe_load((DATA / name / "answer.yaml").read_text()))
