"""The report: complete, self-contained, and with nothing private in it."""

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.masking import Mask
from cockpit.diagnosis.report import report
from tests.diagnosis.logs import ENGINE, HOSTS, Log

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
    assert "| memory free on spark-a | 12 GiB |" in text


def test_nothing_private_is_in_it() -> None:
    log = _log()
    text = report(explain([log.source()], HOSTS), [log.source()], {"note": "token: hf_zyxwvutsrqponm"})
    for private in ("hf_", "sk-abc", "alice", "10.0.0."):
        assert private not in text


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
    ):
        masked = Mask().text(text)
        assert "[secret-1]" in masked
        assert "geheim" not in masked
        assert "abcdef" not in masked
