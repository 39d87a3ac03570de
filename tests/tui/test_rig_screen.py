"""The real app on two real hosts made of kernel namespaces: one of them dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from textual.widgets import Static

from cockpit.tui.state import HostView, Link, State
from cockpit.tui.widgets.host_panel import HostPanel
from tests.rig.layout import FABRIC
from tests.rig.rig import Rig
from tests.tui.journey import Journey, journey

pytestmark = [pytest.mark.rig, pytest.mark.full]


@pytest.fixture
def profile(plain_rig: Rig, tmp_path: Path) -> Iterator[Path]:
    """Both hosts; vLLM is on none of them, and none is asked for."""
    hosts = [
        {
            "name": host.name,
            "address": host.name,
            "role": "worker" if number else "head",
            "fabric": {"address": host.fabric, "interface": FABRIC},
        }
        for number, host in enumerate(plain_rig.hosts.values())
    ]
    path = tmp_path / "two.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "name": "two",
                "ssh": {"config": str(plain_rig.ssh_config)},
                "hosts": hosts,
                "runtime": {"kind": "native", "venv": "/opt/vllm"},
                "serve": {"model": "/models/none", "flags": {"tensor-parallel-size": 2}},
            }
        )
    )
    yield path


def view(state: State, number: int) -> HostView:
    """One host."""
    return state.hosts[number]


def panel(app: Journey, number: int) -> str:
    """All that a host's panel says."""
    found = list(app.app.screen.query(HostPanel))[number]
    texts = [str(part.render()) for part in found.query(Static) if part.display]
    return "\n".join([str(found.border_title), str(found.border_subtitle), *texts])


async def test_a_host_that_dies_leaves_the_other_live(profile: Path, plain_rig: Rig) -> None:
    """Its panel says since when, why and what is tried next, its values carry their age; it comes back by itself."""
    dying = list(plain_rig.hosts.values())[1]
    async with journey(profile) as app:
        await app.until(lambda state: all(host.sample is not None for host in state.hosts), "samples", 60)
        assert "ms" in panel(app, 1)
        dying.crash()
        await app.until(lambda state: view(state, 1).link.state is Link.LOST, "the loss is noticed", 30)
        await app.until(lambda state: view(state, 1).link.next_try is not None, "it is tried again", 30)
        gone = view(app.state, 1)
        at = view(app.state, 0).sampled_at
        await app.until(lambda state: view(state, 0).sampled_at > at + 3, "the head lives on", 30)
        text = panel(app, 1)
        assert "✗ lost since" in text
        assert "Next try in" in text or "connecting again" in text
        assert " old" in text
        assert view(app.state, 0).link.state is Link.UP
        assert "lost" not in panel(app, 0)
        assert view(app.state, 1).sampled_at == gone.sampled_at
        dying.boot()
        await app.pilot.press("r")
        await app.until(lambda state: view(state, 1).link.state is Link.UP, "it is back", 90)
        await app.until(lambda state: view(state, 1).sampled_at > gone.sampled_at, "with new values", 30)
        assert "lost since" not in panel(app, 1)
