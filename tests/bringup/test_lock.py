"""One operator at a time, told by name; a lock never outlives its holder."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit.bringup.errors import StepRefused
from cockpit.bringup.lock import hold, myself, parse_owner
from tests.bringup.local import connected

HOLDER = """\
import asyncio
from cockpit.bringup.lock import hold
from tests.bringup.local import connected

async def main():
    async with hold(await connected(), "up"):
        print("held", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def test_the_second_is_told_who_and_since_when() -> None:
    async with hold(await connected(), "up"):
        with pytest.raises(StepRefused, match=f"{myself()} \\(up since ") as caught:
            async with hold(await connected(), "down"):
                raise AssertionError("held twice")
    assert caught.value.host == "spark-1"
    async with hold(await connected(), "down"):
        pass


async def test_the_lock_of_a_killed_holder_is_free(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", HOLDER]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StepRefused):
        async with hold(await connected(), "up"):
            raise AssertionError("held twice")
    holder.kill()
    holder.wait()
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(StepRefused):
                async with hold(await connected(), "up"):
                    return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    "text", ["", "nonsense", "{}", '{"who": 1}', '{"who": "a", "doing": "b", "since": "c"}']
)
def test_a_damaged_record_names_nobody(text: str) -> None:
    assert str(parse_owner(text)) == "someone who left no name"
