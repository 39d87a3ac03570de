"""Makes the README's pictures from the real program: ``python -m tests.tui.pictures.make [FOLDER]``.

Brings up a lab of its own and drives the app on it by the keys its footer shows, from the empty screen over a launch
that fails for want of one flag to an answered prompt, and takes the screens on the way; the load is the recorded one
of ``tests/data/gpu``, where the lab's is over in a moment. Takes minutes. Pictures are Textual's own SVG export,
without its links to fonts; the name of the home folder is replaced by another of the same length.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path

from cockpit.bringup.events import StepState
from cockpit.tui.memory_watch import warning
from cockpit.tui.state import State
from tests.tui.journey import Journey, journey

HERE = Path(__file__).parent
SIZE = (120, 36)
MOST = 200_000
"""Bytes of a picture."""
LOAD_AT = 90.0
"""The second of the recorded load that is shown: rank 0 counts its shards, rank 1 can't."""


def save(folder: Path, name: str, svg: str) -> None:
    """Write a picture."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)
    home = str(Path.home())
    for real in (home, os.environ.get("XDG_DATA_HOME", home).removesuffix("/data")):
        svg = svg.replace(real + "/", ("/home/operator" + "/sparks" * 9)[: len(real)] + "/")
    if len(svg.encode()) > MOST:
        raise SystemExit(f"{name}: {len(svg.encode()):,} bytes are more than {MOST:,}")
    (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    print(f"{name}.svg  {len(svg.encode()):,} bytes", flush=True)


async def load(folder: Path) -> None:
    """The recorded load at one second, after all seconds before it were shown."""
    from tests.tui.scenes import replay_at
    from tests.tui.test_snapshots import settle

    app, _replay = replay_at(LOAD_AT)
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        save(folder, "loading", app.export_screenshot())


def over(app: Journey) -> bool:
    """Whether the runner came to its end."""
    return not app.state.activity.busy


def calm(state: State) -> bool:
    """Whether no host warns of its memory: the lab's hosts have the memory of this machine, and whatever else runs
    on it."""
    waits = [host.sample.memory.pressure or 0.0 for host in state.hosts if host.sample]
    return not any(warning(host, state) for host in state.hosts) and max(waits, default=0.0) < 1


async def lab_pictures(folder: Path, profile: Path) -> None:
    """The way of a newcomer whose profile lacks the flag."""
    stopped = {StepState.REFUSED, StepState.FAILED}
    async with journey(profile, SIZE) as app:
        await app.until(lambda state: all(host.sample for host in state.hosts), "samples", 60)
        await asyncio.sleep(20)
        await app.until(calm, "memory that does not run away", 300)
        save(folder, "first", app.app.export_screenshot())
        await app.press("a")
        await app.until(
            lambda state: over(app) and any(s.state in stopped for s in state.steps), "refused", 400
        )
        save(folder, "refused", app.app.export_screenshot())
        await app.press("O")
        await app.pilot.press("enter")
        await app.until(lambda state: state.activity.busy, "launched anyway", 30)
        await app.until(lambda state: over(app) and state.explanation is not None, "the cause", 400)
        await asyncio.sleep(5)
        await app.painted()
        save(folder, "failed", app.app.export_screenshot())
        await app.press("⏎")
        await app.until(lambda state: state.activity.busy, "relaunched", 60)
        await app.until(lambda state: over(app), "the prompt is answered", 600)
        await app.press("t")
        await app.pilot.press(*"What_are_you?".replace("_", " "), "enter")
        await app.until(lambda state: not state.exchanges[-1].open, "an answer", 120)
        await app.until(calm, "memory that does not run away", 300)
        save(folder, "answered", app.app.export_screenshot())
        app.app.feed.down()
        await app.until(lambda state: state.activity.busy, "undoing", 30)
        await app.until(lambda state: over(app), "undone", 200)


def main(folder: Path) -> None:
    """Make them all."""
    from cockpit.lab import lab

    asyncio.run(load(folder))
    with tempfile.TemporaryDirectory(prefix="spark-cockpit-pictures-") as place:
        for name in ("CONFIG", "DATA", "STATE"):
            os.environ[f"XDG_{name}_HOME"] = f"{place}/{name.lower()}"
        os.environ["SPARK_COCKPIT_LAB"] = "lab"
        try:
            info = lab.up(lambda *_: None)
            assert info.profile is not None
            lines = info.profile.read_text(encoding="utf-8").splitlines(keepends=True)
            profile = Path(place) / "lab.yaml"
            profile.write_text("".join(line for line in lines if "distributed-executor-backend" not in line))
            asyncio.run(lab_pictures(folder, profile))
        finally:
            lab.down()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
