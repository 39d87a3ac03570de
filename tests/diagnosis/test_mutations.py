"""A log in another dress (another tool's, host's, version's) has the same answer, wherever its decisive line is left."""

import random
from pathlib import Path

import pytest

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import RAY_WORKER, RAYLET, SERVE, Source, collect
from cockpit.diagnosis.unwrap import of_bytes
from cockpit.model.finding import Explanation
from tests.diagnosis.mutations import MUTATIONS

DATA = Path(__file__).parent.parent / "data"
HOSTS = {"10.77.0.2": "two", "10.77.1.1": "spark-a", "10.77.1.2": "spark-b", "10.77.2.2": "spark-c"}
LOGS = [
    *(
        DATA / "captures" / name
        for name in ("fail_port_in_use.log", "fail_shard_truncated.log", "fail_wrong_flag.log")
    ),
    *(DATA / "captures" / "gpu" / name for name in ("fail_free_memory_remote.log", "seed_fail_no_backend.log")),
    DATA / "captures" / "gpu" / "fail_ray_one_node.log",
    DATA / "captures" / "gpu" / "stop_sigint_during_load.log",
    *(DATA / "cases" / name for name in ("missing-module", "nccl-ifname-missing", "roce-remote-error-peer")),
]
DRESSED = (SERVE, RAY_WORKER, RAYLET)


def _answer(told: Explanation) -> tuple[object, ...]:
    first = told.findings[0] if told.findings else None
    return (
        told.status,
        *((first.kind, first.host, first.evidence[0].file, first.evidence[0].line) if first else ()),
    )


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("path", LOGS, ids=[path.name for path in LOGS])
def test_the_answer_stays(path: Path, name: str) -> None:
    plain = collect([path])
    hosts = dict(HOSTS)
    dressed, expected = list[Source](), _answer(explain(plain, hosts))
    for one in plain:
        if one.role not in DRESSED:
            dressed.append(one)
            continue
        changed = MUTATIONS[name](bytes(one.data).split(b"\n"), random.Random(7))
        log = of_bytes(changed.data())
        dressed.append(Source(one.name, one.host, one.role, log.data, log.numbers))
        hosts |= {new: HOSTS.get(old, new) for old, new in changed.renamed}
        if len(expected) > 1 and expected[3] == one.name:
            place = changed.places[int(str(expected[4])) - 1]
            if place is None:
                return
            renamed = dict(changed.renamed).get(str(expected[2]), expected[2])
            expected = (*expected[:2], renamed, one.name, place + 1)
    told = _answer(explain(dressed, hosts))
    if name == "restarted":
        # A log without the sign of a beginning is one attempt: any copy of the line will do.
        told, expected = told[:4], expected[:4]
    assert told == expected


PAIRS = [
    "diststore-worker-bad-arg",
    "hang-shm-then-fatal",
    "ray-worker-gcs-timeout",
    "reasoning-parser-headless",
]


@pytest.mark.parametrize(
    "prefix", ["{host:8}| ", "Dec  1 02:33:{second:02} {host} vllm[12]: ", "[pod/{host}/vllm] "]
)
@pytest.mark.parametrize("case", [*PAIRS, "roce-remote-error-peer"])
def test_both_hosts_in_one_log(case: str, prefix: str) -> None:
    sources = [one for one in collect([DATA / "cases" / case]) if one.role == SERVE]
    plain = explain(sources).findings[0]
    chance = random.Random(5)
    left = [(one, list(enumerate(bytes(one.data).split(b"\n"), 1))) for one in sources]
    merged, place = list[bytes](), 0
    while left:
        one, lines = left[chance.randrange(len(left))]
        take = chance.randint(1, 6)
        for number, line in lines[:take]:
            merged.append(prefix.format(host=one.host, second=len(merged) // 40 % 60).encode() + line)
            if (one.name, number) == (plain.evidence[0].file, plain.evidence[0].line):
                place = len(merged)
        del lines[:take]
        left = [pair for pair in left if pair[1]]
    found = explain([Source("both.log", "", SERVE, b"\n".join(merged))]).findings[0]
    assert (found.kind, found.host) == (plain.kind, plain.host)
    assert found.evidence[0].text == plain.evidence[0].text
    assert found.evidence[0].line == place
