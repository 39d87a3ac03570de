"""Each verdict's other side: the test that breaks the thing for real, or has it from a recorded fixture.

A verdict that is in the code and not in this table, or a test in the table that is not there, fails.
"""

from __future__ import annotations

import ast
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = ("Verdict", "ready", "blocked", "differing", "_unasked", "_equal")

TABLE = {
    # on real hosts that are broken for real
    "connect": "test_rig_breakage.test_a_host_that_is_off_is_unknown_and_the_other_is_asked",
    "docker": "test_rig_breakage.test_an_engine_that_is_stopped",
    "environment": "test_rig_breakage.test_an_engine_that_is_stopped",
    "image": "test_preflight.test_what_stands_in_the_way_on_one_host",
    "mounts": "test_preflight.test_what_stands_in_the_way_on_one_host",
    "model": "test_rig_breakage.test_a_shard_that_is_cut_short",
    "ports": "test_rig_breakage.test_a_port_that_is_taken",
    "memory": "test_rig_breakage.test_memory_that_others_hold_and_a_page_cache_in_the_way",
    "leftovers": "test_fabric.test_real_breakage_of_the_hosts",
    "disk": "test_fabric.test_real_breakage_of_the_hosts",
    "limits": "test_rig_breakage.test_shared_memory_that_is_too_small",
    "container-gpu": "test_preflight.test_what_breaks_on_hosts_with_docker",
    "baked": "test_preflight.test_what_breaks_on_hosts_with_docker",
    "fabric": "test_fabric.test_real_breakage_of_the_link",
    "mtu": "test_fabric.test_real_breakage_of_the_link",
    "reach": "test_fabric.test_real_breakage_of_the_link",
    "firewall": "test_fabric.test_real_breakage_of_the_hosts",
    "cables": "test_rig_breakage.test_swapped_cables_are_told_and_drawn",
    "throughput": "test_measure.test_an_address_that_is_not_there_is_unknown",
    "vllm": "test_preflight.test_vllm_is_found_under_either_name",
    "sudo": "test_machine.test_the_script_tells_whether_sudo_asks",
    "inside": "test_inside.test_a_real_process_tells_what_it_was_started_with",
    # what one kernel and no GPU can't give, from answers in a cited format
    "system": "test_checks.test_kernels_differ_slowly_and_architectures_not_at_all",
    "kernel": "test_machine.test_a_kernel_that_is_known_to_fail",
    "driver": "test_machine.test_a_driver_that_is_known_to_fail",
    "gpu": "test_checks.test_gpu",
    "cuda": "test_checks.test_cuda",
    "power": "test_machine.test_what_stands_in_the_way",
    "cdi": "test_machine.test_the_script_reads_memory_and_cdi_of_a_spark",
    "swap": "test_machine.test_what_stands_in_the_way",
    "clocks": "test_machine.test_clocks",
    "machine": "test_machine.test_hostile_answers_are_refused",
    "ray": "test_checks.test_vllm_ray_and_python",
    "python": "test_checks.test_vllm_ray_and_python",
    "twins": "test_fabric.test_what_stands_in_the_way",
    "route": "test_fabric.test_what_stands_in_the_way",
    "name": "test_fabric.test_without_an_interface_in_the_profile_the_hosts_name_matters",
    "rdma": "test_fabric.test_the_environment_that_rdma_asks_for_is_proposed_and_can_be_applied",
    "rdma-bandwidth": "test_measure_rdma.test_a_port_that_is_short_of_power",
}


def constants(call: ast.Call) -> list[str]:
    """The call's first arguments that are texts."""
    return [
        argument.value
        for argument in call.args[:2]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def verdicts() -> set[str]:
    """Every verdict's id in the code."""
    sources = [*(ROOT / "cockpit/probes").glob("*.py"), ROOT / "cockpit/bringup/steps/preflight.py"]
    calls = [
        node
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORDS
    ]
    return {found[0] for call in calls if (found := constants(call))}


def test_the_table_is_complete() -> None:
    assert verdicts() == set(TABLE)


@pytest.mark.parametrize("place", sorted(set(TABLE.values())))
def test_the_tests_of_the_table_are_there(place: str) -> None:
    module, name = place.split(".")
    tree = ast.parse((ROOT / f"tests/probes/{module}.py").read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_what_is_known_to_fail_names_its_source() -> None:
    text = (files("cockpit.probes") / "data/known_bad.toml").read_text(encoding="utf-8")
    rows = [row for kind in tomllib.loads(text).values() for row in kind]
    assert rows and all(row["why"] and row["remedy"] and row["source"] for row in rows)
