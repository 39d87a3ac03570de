"""Made logs with the right answer: the first finding's kind, line and remedy, and what must not be said."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import collect
from cockpit.model.finding import Explanation

CASES = Path(__file__).parent.parent / "data" / "cases"
_NOT = re.compile(r"\b(not|never|don't|instead of|rather than|without)\b[^.;\n]{0,40}$", re.I)


def _words(told: Explanation, first_only: bool) -> str:
    findings = told.findings[:1] if first_only else told.findings
    texts = [fix.text for finding in findings for fix in finding.fix]
    if not first_only:
        texts += [*told.next, *(finding.cause for finding in told.findings)]
    return "\n".join(texts)


def _has(word: str, text: str) -> bool:
    if word.startswith("re:"):
        return re.search(word[3:], text, re.I | re.M) is not None
    return any(one.lower() in text.lower() for one in word.split("|"))


def _recommends(word: str, text: str) -> bool:
    if word.startswith("re:"):
        return re.search(word[3:], text, re.I | re.M) is not None
    places = [match.start() for match in re.finditer(re.escape(word), text, re.I)]
    return any(not _NOT.search(text[max(0, at - 60) : at]) for at in places)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_case(case: str) -> None:
    expected: dict[str, Any] = yaml.safe_load((CASES / case / "expected.yaml").read_text())
    told = explain(collect([CASES / case]))
    unknown = expected["kind"] == "unknown"
    status = "failed" if told.status == "stalled" else told.status
    assert status in expected["status"]
    fixes = "\n".join([*(fix.text for one in told.findings for fix in one.fix), *told.next])
    assert [word for word in expected.get("must_not_say", []) if _recommends(word, fixes)] == []
    if expected["kind"] == "none":
        assert told.findings == ()
        return
    assert [word for word in expected["fix"] if not _has(word, _words(told, not unknown))] == []
    kinds = [one.kind for one in told.findings[:1]]
    if unknown:
        assert kinds in ([], *([kind] for kind in expected.get("also", [])))
        return
    assert kinds[0] in [expected["kind"], *expected.get("also", [])]
    shown = told.findings[0].evidence[0]
    line = Path(shown.file).read_bytes().decode("utf-8", "replace").split("\n")[shown.line - 1]
    line = re.sub(r"\s+", " ", re.sub(r"\x1b\[[\d;]*m", "", line))
    wanted = [expected["decisive"], *expected.get("decisive_any", [])]
    assert any(re.sub(r"\s+", " ", text) in line for text in wanted)
