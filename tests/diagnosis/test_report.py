"""The report: complete, self-contained, and with nothing private in it."""

import re
from pathlib import Path

import pytest

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.masking import Mask
from cockpit.diagnosis.report import report
from cockpit.diagnosis.sources import collect
from tests.diagnosis.logs import ENGINE, HOSTS, THERE, Log

SECRETS = ("hf_abcdefghijklmnop", "sk-abcdefghijkl", "Bearer abcdef123456")


def _log() -> Log:
    log = Log().start("'api_key': ['sk-abcdefghijkl'], 'tensor_parallel_size': 2")
    log.raw("HF_TOKEN=hf_abcdefghijklmnop in /home/alice/models", "user alice@10.0.0.2: ```")
    return log.traceback(
        ENGINE,
        "PermissionError: [Errno 13] Permission denied: '/home/alice/cache'",
        source="core.py:1",
    ).engine_failed()


def test_it_tells_cause_line_context_and_versions() -> None:
    log = _log()
    text = report(explain([log.source()], HOSTS), [log.source()], {"memory free on spark-a": "12 GiB"})
    number = log.line_of("PermissionError")
    assert "Status: **failed**" in text
    assert "permissions" in text
    assert f"serve.log, line {number}" in text
    assert f"> {number:6} (EngineCore pid=9) ERROR" in text
    assert f"  {number - 1:6} " in text
    assert "| vLLM | 0.32.0 |" in text
    assert "| memory free on [host-1] | 12 GiB |" in text


def test_nothing_private_is_in_it() -> None:
    log = _log()
    text = report(explain([log.source()], HOSTS), [log.source()], {"note": "token: hf_zyxwvutsrqponm"})
    for private in ("hf_", "sk-abc", "alice", "10.0.0."):
        assert private not in text


DATA = Path(__file__).parent.parent / "data"
REAL = [
    *sorted((DATA / "captures").rglob("*.log")),
    *sorted((DATA / "cases").iterdir()),
    *sorted((DATA / "broken").iterdir()),
]
_PRIVATE = re.compile(
    r"\b(?!127\.0\.[01]\.1\b|0\.0\.0\.0\b|\d+\.\d+\.\d+\.\d+\.)(?:\d{1,3}\.){3}\d{1,3}\b|/home/(?!\[user)\w+"
    r"|\b(?:spark|gx10|dgx|node)-?[a-z]?\d+\b|\bspark-[a-z]\d*\b|\bhf_[A-Za-z]{20,}"
)


@pytest.mark.parametrize("path", REAL, ids=[path.name for path in REAL])
def test_no_real_log_gives_anybody_away(path: Path) -> None:
    sources = collect([path])
    text = report(explain(sources, {"10.77.1.1": "spark-a", "10.77.1.2": "spark-b"}), sources, {})
    assert _PRIVATE.findall(text.replace(str(DATA), "")) == []


def test_hosts_are_masked_by_their_names() -> None:
    log = Log().start().traceback(THERE, "FooError: x", source="c.py:1")
    log.raw("spark-b:10:11 [0] misc/socket.cc:5 NCCL WARN Connect to gx10-77 failed", "spark-book spark-b.lan")
    sources = [log.source(host="spark-a")]
    text = report(explain(sources, {"10.0.0.2": "spark-b"}), sources, {})
    assert "spark-a" not in text
    assert not re.search(r"spark-b\b(?!ook)", text)
    assert "spark-book" in text


def test_control_sequences_and_fences_of_a_log_do_no_harm() -> None:
    log = (
        Log()
        .start()
        .raw("\x1b[31m``` \x1b]0;title\x07")
        .traceback(ENGINE, "FooError: \x1b[2J```", source="c.py:1")
    )
    text = report(explain([log.source()]), [log.source()], {})
    assert "\x1b" not in text
    assert text.count("```") == 2


def test_the_same_value_has_the_same_mark() -> None:
    mask = Mask()
    once = mask.text("10.1.2.3 and 10.1.2.4, fe80::1:2 at 10.1.2.3")
    assert once == "[address-1] and [address-2], [address-3] at [address-1]"
    assert mask.text("again 10.1.2.4") == "again [address-2]"


def test_what_only_looks_private_stays() -> None:
    text = "vLLM 0.32.0, torch 2.10.0.1.2, 127.0.0.1:8000, 12:30:45, max_tokens=2048, num_tokens: 4096"
    assert Mask().text(text) == text


def test_secrets_in_all_their_dresses() -> None:
    for text in (
        "Authorization: Bearer abcdef123456",
        "HF_TOKEN=hf_abcdefghijklmnop",
        "--api-key sk-abcdefghijkl",
        "--api-key=geheim99",
        "'api_key': ['geheim99']",
        "'hf_token': 'geheim99'",
        "https://bob:geheim99@example.org/x",
        "password=geheim99",
        "VLLM_API_KEY=geheim99",
        "AWS_SECRET_ACCESS_KEY: geheim99/+x",
        "export MY_PASSWORD='geheim99'",
        """{"client_secret": "geheim99"}""",
    ):
        masked = Mask().text(text)
        assert "[secret-1]" in masked
        assert "geheim" not in masked
        assert "abcdef" not in masked


def test_the_host_of_a_login_is_masked() -> None:
    mask = Mask()
    assert mask.text("ssh alice@spark-7f3a.lan: refused") == "ssh [user-1]@[host-1]: refused"
    assert mask.text("alice@10.0.0.7 and alice@head ") == "[user-1]@[address-1] and [user-1]@head "
