"""The memory guard, with real processes on hosts whose memory is really limited.

The ranks are stand-ins (they eat memory and load no model); their titles, units and descent are vLLM's and Ray's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cockpit.bringup.look import look
from cockpit.bringup.session import Session
from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import KERNEL, SERVE, Source
from cockpit.hosts.factory import open_host
from cockpit.model.command import Command, Completed
from cockpit.model.profile import Profile
from cockpit.model.profile_yaml import parse
from cockpit.runtime import detached
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.environment import environment
from cockpit.serving import guard, launch
from tests.rig.profile import plain_text
from tests.rig.rig import Rig
from tests.rig.shell import wait_for

MIB = 1 << 20
EAT = """\
import signal, sys, time
held = []
while True:
    time.sleep(0.05)
    if sum(map(len, held)) < int(sys.argv[1]) << 20:
        held.append(b"x" * (8 << 20))
"""
"""Takes 8 MiB twenty times a second, up to its argument in MiB."""


def pair(rig: Rig, *, reserve: str = "600MiB", during: str = "loading", eat: int = 4000) -> Profile:
    """The rig's two hosts with a runtime whose `vllm` is a stand-in that eats ``eat`` MiB."""
    serve = {
        "model": "/models/any",
        "flags": {"distributed-executor-backend": "ray"},
        "env": {"EAT": str(eat)},
        "guard": {"reserve": reserve, "while": during},
        "ready_within": 60,
    }
    runtime = {"kind": "native", "venv": "/home/aurora/venv"}
    return parse(plain_text(rig, "guarded", runtime=runtime, serve=serve).encode(), "guarded.yaml")


SET_UP = """\
mkdir -p ~/venv/bin && ln -sf /usr/bin/python3 ~/venv/bin/python
cat >~/eat.py <<'END'
@EAT@END
cat >~/venv/bin/vllm <<'END'
#!/bin/bash
bash -c 'exec -a VLLM::EngineCore python3 ~/eat.py '"$EAT" &
wait $!
echo "the engine has ended" && exit 1
END
chmod 755 ~/venv/bin/vllm
"""


@pytest.fixture
def small(plain_rig: Rig) -> Rig:
    """Two hosts with 2 GiB each; past that the kernel's OOM killer comes."""
    for host in plain_rig.hosts.values():
        host.exec(["sh", "-c", SET_UP.replace("@EAT@", EAT)], user="aurora")
        host.limit_memory(2048 * MIB)
        told = lambda host=host: host.exec(["grep", "MemTotal", "/proc/meminfo"]).out.split()[1]  # noqa: E731
        wait_for(lambda told=told: told() == str(2048 * 1024), "the limit is told", timeout=10)  # type: ignore[misc]
    return plain_rig


class Pair:
    """Runs commands on both hosts as the cockpit does."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.profile = session.profile

    async def run(self, command: Command) -> Completed:
        return await self.session.hosts[command.host].run(command)

    async def seen(self, index: int) -> guard.GuardSeen | None:
        spec = self.profile.hosts[index]
        return guard.parse_guard((await self.run(guard.guard_state_command(self.session.runtime, spec))).stdout)

    async def until(self, index: int, *states: str) -> guard.GuardSeen:
        """Wait until the guard of a host is in one of ``states``."""
        async with asyncio.timeout(60):
            while True:
                seen = await self.seen(index)
                if seen is not None and seen.state in states:
                    return seen
                await asyncio.sleep(0.2)

    async def start(self) -> str:
        command = launch.launch_command(self.profile, self.session.runtime, self.profile.serve.env)
        return launch.parse_launched((await self.run(command)).stdout).run

    async def last_run(self) -> launch.Run:
        command = launch.run_state_command(self.profile, self.session.runtime)
        run = launch.parse_run_state((await self.run(command)).stdout)
        assert run is not None
        return run

    async def ended(self) -> launch.Run:
        async with asyncio.timeout(60):
            while True:
                run = await self.last_run()
                if run.process.state is not ProcessState.RUNNING:
                    return run
                await asyncio.sleep(0.2)


async def opened(stack: AsyncExitStack, profile: Profile) -> Pair:
    hosts = {spec.name: open_host(spec, ssh_config=profile.ssh_config) for spec in profile.hosts}
    for host in hosts.values():
        stack.push_async_callback(host.close)
        await host.connect()
    return Pair(Session(profile, hosts, environment(profile)))


def oom_kills(rig: Rig, host: str) -> str:
    """How often the kernel's OOM killer came to the host's group."""
    files = "/sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events"
    told = rig.hosts[host].exec(["sh", "-c", f"cat {files} 2>/dev/null | grep oom_kill | grep -v disable"]).out
    return told.strip()


@pytest.mark.rig
async def test_a_run_that_eats_memory_is_ended_on_the_head(small: Rig) -> None:
    before = oom_kills(small, "spark-1")
    async with AsyncExitStack() as stack:
        both = await opened(stack, pair(small))
        run = await both.start()
        seen = await both.until(0, "stopped")
        last = await both.ended()
    assert (last.id, last.process.status) == (run, 1), "the server ended by itself when its rank was gone"
    assert 0 < seen.available < seen.reserve == 600 * MIB
    assert seen.run == run and seen.low
    assert "VLLM::EngineCore" in seen.reason
    assert oom_kills(small, "spark-1") == before != "", "the guard was there before the kernel"
    log = (
        small.hosts["spark-1"]
        .exec(["cat", f"/home/aurora/.local/state/spark-cockpit/guarded/runs/{run}/serve.log"])
        .out
    )
    assert "below 0.59 GiB the ranks of this host are ended" in log, "it told so before"
    found = explain([Source("serve.log", "spark-1", SERVE, log.encode())], {})
    assert (found.status, found.findings[0].kind) == ("failed", "oom-unified-memory")
    assert "The memory guard on spark-1 ended the ranks" in found.findings[0].cause


@pytest.mark.rig
async def test_a_worker_ends_its_own_ranks_and_nobody_elses(small: Rig) -> None:
    profile = pair(small)
    worker = profile.workers[0]
    async with AsyncExitStack() as stack:
        both = await opened(stack, profile)
        runtime = both.session.runtime
        await both.run(guard.guard_command(profile, runtime, worker))
        # Another's process of the same title, which holds memory too.
        other = "exec -a ray::RayWorkerProc.run python3 ~/eat.py 300 >/dev/null 2>&1 &"
        small.hosts["spark-2"].exec(["bash", "-c", other], user="aurora")
        ray = (
            "bash",
            "-c",
            "bash -c 'exec -a ray::RayWorkerProc.initialize_worker python3 ~/eat.py 4000'; exec sleep 300",
        )
        await both.run(runtime.script(worker, detached.start("ray", ray), "a stand-in for Ray with a rank"))
        seen = await both.until(1, "stopped", "ended")
        assert seen.state == "stopped"
        assert "ended 1 processes" in seen.reason and "RayWorkerProc.initialize_worker" in seen.reason
        state = await both.run(runtime.script(worker, detached.state("ray"), "look"))
        assert detached.parse_state(state.text).state is ProcessState.RUNNING, "Ray itself goes on"
        line = (await both.run(guard.guard_log_command(runtime, worker))).stdout
        looked = await look(both.session)
    assert "RayWorkerProc.run" in small.hosts["spark-2"].exec(["ps", "-eo", "args"]).out
    told = next(host for host in looked.to_json()["hosts"] if host["name"] == "spark-2")
    assert told["guard"]["state"] == "stopped" and told["guard"]["reserve"] == 600 * MIB
    found = explain(
        [Source("serve.log", "spark-1", SERVE, SERVE_LOG), Source("guard", "spark-2", KERNEL, line)], {}
    )
    assert (found.findings[0].kind, found.findings[0].host) == ("oom-unified-memory", "spark-2")


SERVE_LOG = b"""\
(APIServer pid=1) INFO 11-30 20:00:00 [api_server.py:1] vLLM API server version 0.32.0
(EngineCore pid=2) ERROR 11-30 20:01:00 [core.py:1] EngineCore failed to start.
(EngineCore pid=2) Traceback (most recent call last):
(EngineCore pid=2)   File "/v/ray_executor.py", line 1, in run
(EngineCore pid=2)     ray.get(refs)
(EngineCore pid=2) ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
"""


@pytest.mark.rig
async def test_with_memory_to_spare_it_watches_and_ends_with_the_run(small: Rig) -> None:
    async with AsyncExitStack() as stack:
        both = await opened(stack, pair(small, eat=100))
        await both.start()
        seen = await both.until(0, "watching")
        assert not seen.low and seen.available > 1200 * MIB
        small.hosts["spark-1"].exec(["pkill", "-f", "[e]at.py"])
        assert (await both.until(0, "ended", "stopped")).reason == "the run has ended"
        units = both.session.runtime.script(both.profile.head, detached.state(guard.FOLDER), "look")
        assert detached.parse_state((await both.run(units)).text).state is ProcessState.ENDED


@pytest.mark.rig
async def test_a_guard_that_is_off_or_stopped_does_nothing(small: Rig) -> None:
    async with AsyncExitStack() as stack:
        both = await opened(stack, pair(small, during="off", eat=100))
        await both.start()
        assert await both.seen(0) is None
        on = await opened(stack, pair(small, eat=100))
        worker, runtime = on.profile.workers[0], on.session.runtime
        await on.run(guard.guard_command(on.profile, runtime, worker))
        await on.until(1, "watching")
        await on.run(guard.guard_stop_command(on.profile, runtime, worker))
        assert (await on.until(1, "ended")).reason == "the run was stopped"


def test_the_plan_shows_the_guard(tmp_path: Path) -> None:
    from .profiles import profile

    one = profile()
    command = launch.launch_command(one, environment(one), {})
    assert "memory guard while loading, reserve 8 GiB" in command.why
    assert "guard.py" in command.stdin and "MemAvailable" in command.stdin


@pytest.mark.parametrize("told", [b"", b"9\n{}", b"9\n[1]", b"x\nnull"])
def test_what_is_no_guards_note_is_none(told: bytes) -> None:
    assert guard.parse_guard(told) is None


def test_a_guard_that_has_fallen_silent_is_unknown() -> None:
    note: Mapping[str, object] = {
        **{"state": "watching", "reason": "", "at": 1000.0, "run": "r", "reserve": 8, "available": 20},
        **{"lowest": 17, "stalled": 0.0},
    }
    text = json.dumps(note).encode()
    fresh, late = guard.parse_guard(b"1004\n" + text), guard.parse_guard(b"1040\n" + text)
    assert fresh is not None and (fresh.state, fresh.low) == ("watching", False)
    assert late is not None and late.state == "unknown"
