"""The flag checks with the Docker runtime on a real engine: the helper lives in our container, and is gone before
a launch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cockpit import Cockpit
from tests.rig.profile import rig_profile
from tests.rig.rig import Rig

pytestmark = [pytest.mark.rig, pytest.mark.full, pytest.mark.timeout(900)]

OURS = "label=org.spark-cockpit.cluster=rig"
HEAD = "spark-1"


@pytest.fixture(scope="module")
def cockpit(standing_rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cockpit]:
    """The command line, on a rig that has nothing of earlier tests."""
    standing_rig.reset()
    yield Cockpit(tmp_path_factory.mktemp("cockpit"))
    standing_rig.reset()


@pytest.fixture(scope="module")
def profile(standing_rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of one host."""
    return rig_profile(standing_rig, tmp_path_factory.mktemp("profile"), hosts=[HEAD])


def processes(rig: Rig, word: str) -> list[tuple[int, str]]:
    """The processes of our container on the head whose command line holds ``word``: resident KiB and command line."""
    docker = rig.hosts[HEAD].exec
    (container,) = docker(["docker", "ps", "-q", "--filter", OURS], timeout=30).out.split()
    rows = docker(["docker", "top", container, "-eo", "pid,rss,args"], timeout=30).out.splitlines()[1:]
    found = [row.split(None, 2) for row in rows]
    return [(int(rss), args) for _pid, rss, args in found if word in args]


def test_the_helper_answers_in_the_container_and_is_gone_before_a_launch(
    standing_rig: Rig, cockpit: Cockpit, profile: Path
) -> None:
    up = cockpit("up", profile, "--through", "containers", "--json", timeout=300)
    assert up.step("containers")["state"] == "done", up.out + up.err

    judged = cockpit("flags", profile, "--deep", "--json", timeout=300)
    assert judged.status == 0, judged.out + judged.err
    assert judged.json["source"] == "runtime"
    helpers = processes(standing_rig, "helper.py")
    assert len(helpers) == 1
    assert helpers[0][0] > 200 * 1024, "vLLM is loaded in it"

    text = profile.read_text()
    profile.write_text(text.replace("max-model-len: 512", "max-model-len: 99999"))
    refused = cockpit("flags", profile, "--deep", "--json", timeout=120)
    assert refused.status == 4
    assert "greater than the derived max_model_len" in refused.out
    assert len(processes(standing_rig, "helper.py")) == 1
    assert refused.json["seconds"]["import"] == judged.json["seconds"]["import"]
    profile.write_text(text)

    launched = cockpit("up", profile, "--through", "launch", "--json", timeout=300)
    assert launched.step("launch")["state"] == "done", launched.out + launched.err
    assert processes(standing_rig, "helper.py") == []
    assert processes(standing_rig, "vllm serve") != []

    down = cockpit("down", profile, "--json", timeout=120)
    assert down.outcome == "down", down.out + down.err
