"""The words and numbers of findings: fitting units, short lists, values that the message itself allows."""

import pytest

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import SERVE, Source
from cockpit.model.finding import Finding
from tests.diagnosis.logs import API, ENGINE, Log


def first(log: Log) -> Finding:
    """The first finding of a log that ends so."""
    return explain([log.engine_failed().source()]).findings[0]


def refused(config: str, field: str, why: str, value: str) -> Log:
    """A launch whose configuration is refused, as pydantic prints it."""
    return (
        Log()
        .start(f"'{field}': {value}")
        .traceback(
            API,
            f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {config}",
            field,
            f"  {why} [type=x, input_value={value}, input_type=y]",
            "    For further information visit https://errors.pydantic.dev/2.12/v/x",
        )
    )


@pytest.mark.parametrize(
    ("field", "why", "value", "change"),
    [
        ("gpu_memory_utilization", "Input should be less than or equal to 1", "1.5", 0.9),
        ("gpu_memory_utilization", "Input should be less than or equal to 1", "85", 0.85),
        ("gpu_memory_utilization", "Input should be greater than 0", "0", 0.9),
        ("max_num_seqs", "Input should be greater than or equal to 1", "0", 1),
        ("swap_space", "Input should be greater than 3", "1", 4),
        ("dtype", "Input should be 'auto', 'half' or 'float16'", "'float17'", "float16"),
    ],
)
def test_a_value_out_of_bounds_is_changed_to_one_that_is_allowed(
    field: str, why: str, value: str, change: object
) -> None:
    (fix,) = first(refused("CacheConfig", field, why, value)).fix
    assert fix.change == {"set": {f"serve.flags.{field.replace('_', '-')}": change}}


def test_a_value_that_no_rule_knows_is_only_told() -> None:
    (fix,) = first(refused("CacheConfig", "seed", "Input should be a valid integer", "'a'")).fix
    assert fix.change is None
    assert "--seed" in fix.text


def test_numbers_that_were_rounded_away_are_not_shown() -> None:
    text = (
        "ValueError: To serve at least one request with the model's max seq len (2048), (0.0 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (0.0 GiB). Based on the available memory, the estimated "
        "maximum model length is 896. Try increasing `gpu_memory_utilization`"
    )
    found = first(Log().start().traceback(ENGINE, text, source="core.py:1"))
    assert "0.0" not in found.cause
    assert "896 tokens" in found.cause


def test_a_share_above_what_the_driver_leaves_blames_no_other_process() -> None:
    text = (
        "ValueError: Free memory on device cuda:0 (79.10/79.60 GiB) on startup is less than desired GPU memory "
        "utilization (1.0, 79.60 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    found = first(Log().start().traceback(ENGINE, text, source="core.py:1"))
    assert "process" not in found.cause
    assert [fix.change for fix in found.fix] == [{"set": {"serve.flags.gpu-memory-utilization": 0.95}}]


def test_of_a_long_list_the_nearest_choices_are_told() -> None:
    names = [f"parser{number}" for number in range(40)]
    log = f"vllm serve: error: argument --tool-call-parser: invalid choice: 'parser07' (choose from {str(names)[1:-1]})"
    found = explain([Source("serve.log", "", SERVE, log.encode())]).findings[0]
    assert "34 more" in found.fix[0].text
    assert len(found.fix[0].text) < 250
    assert found.fix[0].change == {"set": {"serve.flags.tool-call-parser": "parser7"}}
