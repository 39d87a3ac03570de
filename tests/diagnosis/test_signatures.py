"""Each signature knows its own example, alone and among harmless lines, and its data holds together."""

import re

import pytest

from cockpit.diagnosis.adjust import RULES
from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.reading import read
from cockpit.diagnosis.signatures import Signature, signatures
from cockpit.diagnosis.sources import SERVE, Source

KINDS = {
    "args",
    "chat-template",
    "compile",
    "config-json",
    "crash-engine-core",
    "disk-full",
    "docker",
    "driver-cuda",
    "executor-backend",
    "flashinfer",
    "hang-timeout",
    "hf-auth",
    "hf-download",
    "kernel-arch-sm121",
    "kv-cache-too-small",
    "model-arch-unsupported",
    "model-missing",
    "nccl-roce",
    "network-iface",
    "oom-gpu",
    "oom-unified-memory",
    "permissions",
    "placement-group",
    "port-in-use",
    "quantization",
    "ray-membership",
    "ray-version-mismatch",
    "reasoning-parser",
    "shm",
    "tokenizer",
    "tool-parser",
    "tp-divisibility",
    "triton-ptxas",
    "other",
}
ROLES = {
    "begin",
    "cause",
    "effect",
    "fact",
    "harmless",
    "hint",
    "progress",
    "ready",
    "stall",
    "stop",
    "vague",
    "wrapper",
}
TELLING = {"cause", "effect", "stall", "hint"}
ALL = signatures()
BEFORE = (
    "(APIServer pid=1) INFO 11-30 20:26:20 [api_utils.py:286] non-default args: {'model': '/models/a'}\n"
    "(APIServer pid=1) INFO 11-30 20:26:21 [model.py:733] Resolved architecture: FooForCausalLM\n"
)


def _log(one: Signature) -> str:
    if one.traceback or one.within:
        place = one.within.split("|")[0]
        frame, name = (
            ("/a/b.py", place.removeprefix("in ")) if place.startswith("in ") else (f"/a/{place}.py", "c")
        )
        return f'{BEFORE}Traceback (most recent call last):\n  File "{frame}", line 1, in {name}\n    d()\n{one.example}\n'
    return f"{BEFORE}{one.example}\n"


def _source(text: str) -> Source:
    return Source("serve.log", "spark-a", SERVE, text.encode())


@pytest.mark.parametrize("one", ALL, ids=[one.id for one in ALL])
def test_it_knows_its_example(one: Signature) -> None:
    hits = [hit for hit in read(_source(_log(one)), 0).hits if hit.signature.id == one.id]
    assert hits
    line = _log(one).split("\n")[hits[-1].line - 1]
    assert hits[-1].text.strip() in line


@pytest.mark.parametrize("one", ALL, ids=[one.id for one in ALL])
def test_its_data_holds_together(one: Signature) -> None:
    assert one.role in ROLES
    assert one.source
    assert not one.kind or one.kind in KINDS
    assert not one.adjust or one.adjust in RULES
    if one.role in TELLING:
        assert one.kind
        assert one.cause
        assert one.fix
    for variant in one.variants.values():
        assert not variant.kind or variant.kind in KINDS


CAUSES = [one for one in ALL if one.role in ("cause", "effect")]


@pytest.mark.parametrize("one", CAUSES, ids=[one.id for one in CAUSES])
def test_its_example_alone_is_told(one: Signature) -> None:
    told = explain([_source(_log(one))])
    assert told.status == "failed"
    first = told.findings[0]
    assert first.kind in {one.kind, *(variant.kind for variant in one.variants.values())}
    assert not re.search(r"[{}]{2}|\{\w+\}", first.cause + "".join(fix.text for fix in first.fix))
    assert "  " not in first.cause
    assert first.cause.endswith((".", "]", ")", "}", "'")) or one.id.startswith(("pydantic", "chat-template"))


STALLS = [one for one in ALL if one.role == "stall"]


@pytest.mark.parametrize("one", STALLS, ids=[one.id for one in STALLS])
def test_a_stall_is_told_as_long_as_nothing_comes_after(one: Signature) -> None:
    waiting = BEFORE + f"{one.example}\n" * one.least
    told = explain([_source(waiting)])
    assert (told.status, told.findings[0].kind) == ("stalled", one.kind)
    went_on = waiting + "INFO 11-30 20:27:00 [default_loader.py:501] Loading weights took 0.01 seconds\n"
    told = explain([_source(went_on)])
    assert (told.status, told.findings) == ("loading", ())


def test_ids_are_unique() -> None:
    ids = [one.id for one in ALL]
    assert len(ids) == len(set(ids))


def test_every_kind_has_a_signature() -> None:
    known = {one.kind for one in ALL} | {variant.kind for one in ALL for variant in one.variants.values()}
    assert KINDS - known == set()
