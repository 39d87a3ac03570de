"""Breakages of the table run anew on the real Ray and vLLM, and are answered as their recorded logs are."""

import random
from pathlib import Path

import pytest
import yaml

from cockpit.lab.environment import Environment
from tests.diagnosis.broken.bench import bench, run
from tests.diagnosis.broken.table import BREAKAGES
from tests.diagnosis.test_broken import DATA, check

ANSWERED = [one for one in BREAKAGES.values() if (DATA / one.name).exists()]
# A mount namespace needs root; what never ends by itself takes minutes.
PLAIN = [one for one in ANSWERED if not (one.before or one.model_on or one.until)]
KINDS = {
    "before it starts": [one.name for one in PLAIN if one.early],
    "over Ray": [one.name for one in PLAIN if one.over == "ray"],
}


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_breakage_run_anew(kind: str, lab_environment: Environment, tmp_path: Path) -> None:
    # Chosen here: workers that collect the same tests must find the same names.
    name = random.choice(KINDS[kind])
    print(f"{kind}: {name}")
    with bench() as place:
        for file, data in run(place, BREAKAGES[name]).items():
            (tmp_path / file).write_bytes(data)
    check(tmp_path, yaml.safe_load((DATA / name / "answer.yaml").read_text()))
