"""Findings made of candidates: the words of the signature filled in, the fixes as changes, the host named."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cockpit.diagnosis.adjust import adjusted
from cockpit.diagnosis.candidates import Attempt, Candidate
from cockpit.diagnosis.guess import advice, kind_of, near
from cockpit.diagnosis.reading import Hit, Reading
from cockpit.diagnosis.signatures import FixTemplate
from cockpit.diagnosis.situation import Situation
from cockpit.diagnosis.sources import KERNEL
from cockpit.diagnosis.tracebacks import Raised
from cockpit.model.finding import Confidence, Evidence, Finding, Fix, Severity

_LONG = 600
_KERNEL_HOST = re.compile(r"(?:^|[\d+Z\]] )([A-Za-z][\w.-]*) (?:kernel|systemd-oomd|earlyoom)(?:\[\d+\])?: ")


class _Words(dict[str, str]):
    """Words of a template; a name that the message did not give stays empty."""

    def __missing__(self, key: str) -> str:
        return ""


def fill(template: str, words: Mapping[str, str]) -> str:
    """``template`` with ``{name}`` filled in; what an empty word leaves behind is tidied up."""
    text = template.format_map(_Words(words))
    for empty, tidy in ((" ()", ""), ("(: ", "("), (": .", "."), ("  ", " "), (" .", "."), ("..", ".")):
        text = text.replace(empty, tidy)
    return text.removesuffix(": ").removesuffix(":").strip()


def _value(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        filled = value.format_map(_Words(words)) if "{" in value else value
        return _number(filled) if value.startswith("{") and value.endswith("}") else filled
    if isinstance(value, Mapping):
        return {_value(key, words): _value(item, words) for key, item in value.items()}
    return [_value(item, words) for item in value] if isinstance(value, list) else value


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _fix(template: FixTemplate, words: Mapping[str, str]) -> Fix:
    used = set(re.findall(r"\{(\w+)\}", str(template.change)))
    known = all(words.get(name) for name in used)
    change = _value(template.change, words) if template.change and known else None
    return Fix(fill(template.text, words), change)


def evidence(reading: Reading, line: int, text: str) -> Evidence:
    """A line as evidence, by its number in the file."""
    return Evidence(reading.source.name, reading.source.line_of(line), text.strip("\r\n ")[:4000])


def host_of(hit_ip: str, head_host: str, reading: Reading, hosts: Mapping[str, str]) -> str:
    """The host's name: by its address, else as NCCL names it, else the source's."""
    if hit_ip:
        return hosts.get(hit_ip, hit_ip)
    return (
        reading.source.host
        if reading.source.role == KERNEL and reading.source.host
        else head_host or reading.source.host
    )


def _address(hit: Hit, tried: Sequence[Attempt], facts: Situation, others: Sequence[str]) -> str:
    """The address that the hit names, or that another copy of the same text names. ``others`` are the
    addresses of the other hosts, where the profile tells them."""
    if hit.parts.get("node_ip") or hit.ip:
        return hit.parts.get("node_ip") or hit.ip
    if hit.parts.get("ray_rank"):
        return _of_rank(int(hit.parts["ray_rank"].split(",")[0]), facts, others)
    if hit.signature.remote:
        return _other_node(hit, tried) or (others[0] if len(others) == 1 else "")
    named = [
        other.ip
        for one in tried
        if one.reading.index == hit.source
        for other in one.hits
        if other.signature.id == hit.signature.id and other.parts == hit.parts
    ]
    if (
        hit.head.process.startswith(("RayWorker", "Worker"))
        and "" in named
        and hit.head.chain[:1] != ("EngineCore",)
    ):
        return ""
    return next((ip for ip in named if ip), "")


def _of_process(hit: Hit, tried: Sequence[Attempt], hosts: Mapping[str, str]) -> str:
    """The host of the process that a kernel's line speaks of: that of the serve's line with its number."""
    for one in tried:
        for other in one.hits:
            if one.serves and str(other.head.pid) == hit.parts.get("pid"):
                return host_of(other.head.ip, "", one.reading, hosts)
    return ""


def _of_rank(rank: int, facts: Situation, others: Sequence[str]) -> str:
    """Where a rank over Ray runs: as the log tells, else as vLLM places them, rank 0 beside the driver."""
    if rank in facts.ranks or not rank:
        return facts.ranks.get(rank, "")
    return others[rank - 1] if facts.world in (0, len(others) + 1) and rank <= len(others) else ""


def _other_node(hit: Hit, tried: Sequence[Attempt]) -> str:
    """The one node other than the driver's: a driver does not outlive the raylet of its own node."""
    nodes = {
        other.head.ip
        for one in tried
        if one.reading.index == hit.source
        for other in one.hits
        if other.head.ip and other.line < hit.line
    }
    return nodes.pop() if len(nodes) == 1 else ""


def of_hit(
    hit: Hit,
    tried: Sequence[Attempt],
    hosts: Mapping[str, str],
    facts: Situation,
    *,
    also: Hit | Candidate | None = None,
    severity: Severity = Severity.ERROR,
) -> Finding:
    """The finding of a hit. ``also`` is a second line worth showing: what the hint explains."""
    reading = next(one.reading for one in tried if one.reading.index == hit.source)
    kernel = _KERNEL_HOST.search(hit.text)
    others = [address for address, name in hosts.items() if reading.source.host not in ("", name)]
    where = _address(hit, tried, facts, others)
    host = host_of(where, kernel[1] if kernel else hit.head.host, reading, hosts)
    if not host and reading.source.role == KERNEL:
        host = _of_process(hit, tried, hosts)
    signature = hit.signature
    told = adjusted(hit, facts)
    variant = signature.variants.get(told.variant)
    words = {
        **facts.parts(),
        **hit.parts,
        "host": host or "that host",
        "at": f" on {host}" if host else "",
        **told.words,
    }
    fixes = variant.fix if variant and variant.fix else signature.fix
    lines = [evidence(reading, hit.line, hit.text)]
    if also is not None:
        lines.append(_also(also, tried))
    return Finding(
        kind=(variant.kind if variant and variant.kind else signature.kind) or "other",
        severity=severity,
        cause=fill((variant.cause if variant and variant.cause else signature.cause), words),
        confidence=signature.confidence,
        host=host,
        fix=tuple(_fix(fix, words) for fix in fixes),
        evidence=tuple(lines),
    )


def _also(also: Hit | Candidate, tried: Sequence[Attempt]) -> Evidence:
    if isinstance(also, Candidate):
        text = also.hit.text if also.hit else (also.raised.text if also.raised else "")
        return evidence(also.reading, also.line, text)
    reading = next(one.reading for one in tried if one.reading.index == also.source)
    return evidence(reading, also.line, also.text)


def of_exception(item: Candidate, hosts: Mapping[str, str], facts: Situation) -> Finding:
    """The finding of an exception that no signature knows: told as it stands, with what to look at."""
    raised, block = item.raised, item.block
    assert raised is not None and block is not None
    host = host_of(raised.ip or block.head.ip, "", item.reading, hosts)
    process = block.head.process or "vllm serve"
    where = f" on {host}" if host else ""
    message = raised.message or _first(raised)
    known = near(raised)
    kind = known.kind if known else kind_of(raised, serving=facts.ready)
    words = {**facts.parts(), "host": host or "that host", "at": where}
    told = [fix for fix in known.fix if _needs(fix) <= set(words)] if known else []
    return Finding(
        kind=kind,
        severity=Severity.ERROR,
        cause=f"{process}{where} ended with {raised.type}: {message}"[:_LONG],
        confidence=Confidence.LIKELY if known else Confidence.POSSIBLE,
        host=host,
        fix=tuple(_fix(fix, words) for fix in told)
        or (
            *((Fix(advice(kind)),) if advice(kind) else ()),
            Fix(
                "No remedy is known for this message. It was raised at "
                f"{raised.frames[-1] if raised.frames else 'an unknown place'}; "
                "search vLLM's issues for its text and this vLLM version."
            ),
        ),
        evidence=(evidence(item.reading, raised.line, raised.text.split("\n", 1)[0]),),
    )


def _needs(fix: FixTemplate) -> set[str]:
    """The words that a fix has places for."""
    return set(re.findall(r"\{(\w+)\}", f"{fix.text} {fix.change}"))


def _first(raised: Raised) -> str:
    return next((line.strip() for line in raised.more if line.strip()), "no message")
