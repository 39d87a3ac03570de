"""What hosts say, as the flag checks need it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cockpit.bringup.flag_hosts import HostFacts, environment_problems, memory_of
from cockpit.bringup.flag_judge import ordered
from cockpit.model.facts import Gpu, Memory, Sample
from cockpit.model.finding import Fix, Problem, Severity
from cockpit.probes.answers import EnvironmentFacts, ModelFacts
from cockpit.probes.sample import parse_sample
from tests.serving.profiles import profile

GPU = Path(__file__).parent.parent / "data" / "gpu"
GIB = 1 << 30

SPARK = Sample(
    0.0,
    Memory(total=119 * GIB, available=100 * GIB, page_cache=20 * GIB, swap_total=0, swap_free=0),
    (Gpu(0, "NVIDIA GB10"),),
    (),
    (),
)
"""As nvidia-smi tells of a DGX Spark: no memory of the GPU's own."""

WHOLE = EnvironmentFacts(
    python="3.12.3",
    executable="/usr/bin/python3",
    vllm="0.32.0",
    ray="2.60.0",
    torch="2.13.0",
    command="/usr/bin/vllm",
    model=ModelFacts("local", True, False, "/models/big", config=True, shards=4, bytes=8),
)


def test_unified_memory_is_the_hosts() -> None:
    (memory,) = memory_of({"spark-1": SPARK}, {"spark-1": 1, "spark-2": 1})
    assert (memory.total, memory.free, memory.cache, memory.unified) == (119 * GIB, 100 * GIB, 20 * GIB, True)
    assert HostFacts({"spark-1": SPARK}, {}, {}).gb10


def test_a_discrete_gpu_has_its_own() -> None:
    """A real H200."""
    line = (GPU / "probe_h200.jsonl").read_bytes().splitlines()[0]
    sample = parse_sample(line)
    gpu = sample.gpus[0]
    assert gpu.total is not None
    assert gpu.used is not None
    (memory,) = memory_of({"a": sample}, {"a": 1})
    assert (memory.total, memory.free, memory.unified) == (gpu.total, gpu.total - gpu.used, False)
    assert not HostFacts({"a": sample}, {}, {}).gb10


def test_a_driver_that_does_not_answer_tells_nothing() -> None:
    assert memory_of({"a": replace(SPARK, gpu_error="no nvidia-smi")}, {"a": 1}) == ()


def test_hosts_that_agree_have_no_problems() -> None:
    assert (
        environment_problems(profile({"tensor-parallel-size": 2}), {"spark-1": WHOLE, "spark-2": WHOLE}) == ()
    )


@pytest.mark.parametrize(
    ("other", "flag", "told"),
    [
        (replace(WHOLE, vllm="0.31.0"), "vllm", "0.32.0 on spark-1, 0.31.0 on spark-2"),
        (replace(WHOLE, ray=""), "distributed-executor-backend", "Ray is not installed"),
        (replace(WHOLE, ray="2.55.0"), "distributed-executor-backend", "2.60.0 on spark-1, 2.55.0 on spark-2"),
        (replace(WHOLE, python="3.11.9"), "python", "3.12 on spark-1, 3.11 on spark-2"),
        (replace(WHOLE, model=ModelFacts("local", False, False, "/models/big")), "model", "is not there"),
        (
            replace(WHOLE, model=replace(WHOLE.model, absent=1, names=("model-4.safetensors",))),
            "model",
            "1 of 4 weight files are missing (model-4.safetensors)",
        ),
    ],
)
def test_what_differs_between_the_hosts(other: EnvironmentFacts, flag: str, told: str) -> None:
    found = environment_problems(profile({"tensor-parallel-size": 2}), {"spark-1": WHOLE, "spark-2": other})
    errors = [one for one in found if one.severity is Severity.ERROR]
    assert [one.flag for one in errors] == [flag]
    assert told in errors[0].message
    assert errors[0].fix[0].text


def test_the_worst_comes_first_and_nothing_twice() -> None:
    ray = Fix("profile  + ray", {"set": {"serve.flags.distributed-executor-backend": "ray"}})
    rule = Problem("distributed-executor-backend", Severity.ERROR, "ours", fix=(ray,))
    vllm = Problem("distributed-executor-backend", Severity.ERROR, "World size", fix=(replace(ray, text="x"),))
    note, warning = Problem("a", Severity.NOTE, "n"), Problem("b", Severity.WARNING, "w")
    assert ordered((note, rule, warning, vllm, warning)) == (rule, warning, note)
