"""Ranks on two hosts need a backend that reaches them; what is right is never refused."""

from __future__ import annotations

import pytest

from cockpit.model.finding import Severity
from cockpit.model.profile import FlagValue, Place
from cockpit.serving.backend_rule import backend_problems

from .profiles import HEAD, profile

ONE_EACH = {"spark-1": 1, "spark-2": 1}


@pytest.mark.parametrize(
    ("flags", "gpus"),
    [
        ({"tp": 2, "distributed-executor-backend": "ray"}, ONE_EACH),
        ({"tensor-parallel-size": "2", "distributed_executor_backend": "ray"}, ONE_EACH),
        ({"pp": 2, "distributed-executor-backend": "ray"}, ONE_EACH),
        ({"tp": 2, "distributed-executor-backend": "ray"}, {"spark-1": 1}),
        ({"tp": 2, "distributed-executor-backend": "ray"}, {}),
        ({"tp": 4, "distributed-executor-backend": "ray"}, {"spark-1": 2, "spark-2": 2}),
        ({"tp": 2}, {"spark-1": 2, "spark-2": 1}),
        ({"tp": 2, "distributed-executor-backend": "mp"}, {"spark-1": 2, "spark-2": 1}),
        ({}, ONE_EACH),
        ({"distributed-executor-backend": "ray"}, ONE_EACH),
    ],
)
def test_what_is_right_passes(flags: dict[str, FlagValue], gpus: dict[str, int]) -> None:
    assert backend_problems(profile(flags), gpus) == ()


@pytest.mark.parametrize(
    ("flags", "gpus"),
    [({}, {"spark-1": 1}), ({"distributed-executor-backend": "ray"}, {"spark-1": 1}), ({"tp": 2}, {})],
)
def test_one_host_passes(flags: dict[str, FlagValue], gpus: dict[str, int]) -> None:
    assert backend_problems(profile(flags, hosts=(HEAD,)), gpus) == ()


@pytest.mark.parametrize("gpus", [ONE_EACH, {}])
def test_the_missing_flag(gpus: dict[str, int]) -> None:
    (problem,) = backend_problems(profile({"port": 8000, "tensor-parallel-size": 2}), gpus)
    assert problem.flag == "distributed-executor-backend"
    assert problem.severity is Severity.ERROR
    assert problem.message.startswith("Tensor parallelism over two hosts was not told to use Ray")
    assert "World size is 2, spark-1 has 1 GPU, and no --distributed-executor-backend is set" in problem.why
    assert problem.place == Place("two.yaml", 22, 5)
    (fix,) = problem.fix
    assert fix.change == {"set": {"serve.flags.distributed-executor-backend": "ray"}}


def test_a_backend_of_one_host() -> None:
    flags: dict[str, FlagValue] = {"tp": 2, "distributed_executor_backend": "mp"}
    (problem,) = backend_problems(profile(flags), ONE_EACH)
    assert problem.flag == "distributed-executor-backend"
    assert problem.place == Place("two.yaml", 22, 5)
    assert problem.fix[0].change == {"set": {"serve.flags.distributed_executor_backend": "ray"}}


def test_ray_and_nnodes_exclude_each_other() -> None:
    flags: dict[str, FlagValue] = {
        "tp": 2,
        "distributed-executor-backend": "ray",
        "nnodes": 2,
        "master-addr": "192.168.100.10",
    }
    (problem,) = backend_problems(profile(flags), ONE_EACH)
    assert problem.flag == "nnodes"
    assert problem.fix[0].change == {"unset": ["serve.flags.nnodes", "serve.flags.master-addr"]}


@pytest.mark.parametrize("executor", [None, "mp"])
def test_mp_over_hosts_is_refused_with_that_sentence(executor: str | None) -> None:
    flags: dict[str, FlagValue] = {"tp": 2, "nnodes": 2}
    if executor:
        flags["distributed-executor-backend"] = executor
    (problem,) = backend_problems(profile(flags), ONE_EACH)
    assert problem.message == "Running over hosts without Ray (mp with nnodes) is not supported yet."


def test_more_ranks_than_gpus_names_what_each_host_brought() -> None:
    flags: dict[str, FlagValue] = {"tp": 4, "distributed-executor-backend": "ray"}
    (problem,) = backend_problems(profile(flags), ONE_EACH)
    assert problem.flag == "tensor-parallel-size"
    assert "spark-1 1, spark-2 1" in problem.why
    assert problem.fix[0].change == {"set": {"serve.flags.tp": 2}}


def test_one_host_with_too_few() -> None:
    (problem,) = backend_problems(profile({"tp": 2}, hosts=(HEAD,)), {"spark-1": 1})
    assert problem.flag == "tensor-parallel-size"
    assert problem.fix[0].change == {"set": {"serve.flags.tp": 1}}
