"""How long preflight of the rig's two hosts takes: on connections that stand, and as `spark-cockpit check`, each beside
a plain `ssh HOST true` of the same minutes. Prints figures, asserts nothing.

    python tests/bench/bench_preflight.py [ROUNDS]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from cockpit.bringup.profiles import load
from cockpit.hosts.factory import open_host
from cockpit.probes.preflight import preflight
from cockpit.runtime.environment import environment
from tests.e2e.cockpit import Cockpit
from tests.rig.environment import environment_for_tests
from tests.rig.models import models
from tests.rig.profile import rig_profile
from tests.rig.rig import Rig
from tests.rig.shell import run


async def rounds(path: Path, count: int) -> list[float]:
    """Seconds of each preflight; the connections stand."""
    profile, took = load(path), []
    async with AsyncExitStack() as stack:
        hosts = {spec.name: open_host(spec, ssh_config=profile.ssh_config) for spec in profile.hosts}
        for host in hosts.values():
            stack.push_async_callback(host.close)
            await host.connect()
        for _ in range(count):
            began = time.monotonic()
            await preflight(hosts, profile, environment(profile))
            took.append(time.monotonic() - began)
    return took


def timed(call: Callable[[], object], count: int) -> list[float]:
    """Seconds of each call."""
    took = []
    for _ in range(count):
        began = time.monotonic()
        call()
        took.append(time.monotonic() - began)
    return took


def told(what: str, took: list[float], plain: list[float]) -> None:
    """One line."""
    median, times = statistics.median(took), statistics.median(took) / statistics.median(plain)
    print(f"{what:<34} median {median:5.2f} s, worst {max(took):5.2f} s, {times:4.1f} x ssh  (at most 5 s)")


def main(count: int) -> None:
    """Measure both runtimes."""
    made = environment_for_tests(lambda text: print(text, file=sys.stderr))
    rig = Rig.start(environment=made, models=models(made))
    try:
        with tempfile.TemporaryDirectory() as folder:
            cockpit = Cockpit(Path(folder) / "cockpit")
            for runtime in ("docker", "native"):
                path = rig_profile(rig, Path(folder), runtime=runtime, name=runtime)  # type: ignore[arg-type]
                ssh = ["ssh", "-F", str(rig.ssh_config), next(iter(rig.hosts)), "true"]
                plain = timed(partial(run, ssh), count)
                told("ssh HOST true", plain, plain)
                told(f"{runtime}, two hosts", asyncio.run(rounds(path, count)), plain)
                check = partial(cockpit, "check", path, "--json")
                told(f"{runtime}, spark-cockpit check", timed(check, count), plain)
    finally:
        rig.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
