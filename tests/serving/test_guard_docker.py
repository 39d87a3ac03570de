"""The memory guard where vLLM lives in a container: real containers on two hosts whose memory is really limited.

A container's /proc/meminfo is the kernel's own, that is on a Spark the host's. On the rig the kernel is the machine's
below: the containers are given the host's figures, which follow its control group (tests/rig/files/memory.py). The
ranks are stand-ins that eat memory; their titles, units and descent are vLLM's and Ray's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from cockpit.bringup.evidence import explain_run
from cockpit.bringup.look import look
from cockpit.model.profile import Profile
from cockpit.model.profile_yaml import parse
from cockpit.runtime import detached
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.docker import DockerEnvironment
from cockpit.serving import guard
from tests.rig.profile import plain_text, runtime_of
from tests.rig.rig import Rig
from tests.rig.shell import wait_for
from tests.serving.test_guard import EAT, MIB, Pair, oom_kills, opened

pytestmark = [pytest.mark.rig, pytest.mark.timeout(300)]

SET_UP = """\
mkdir -p ~/standin
cat >~/standin/eat.py <<'END'
@EAT@END
cat >~/standin/vllm <<'END'
#!/bin/bash
bash -c 'exec -a VLLM::EngineCore /usr/bin/python3 /standin/eat.py '"$EAT" &
wait $!
echo "the engine has ended" && exit 1
END
chmod 755 ~/standin/vllm
"""


def pair(rig: Rig) -> Profile:
    """The rig's hosts with containers that see the hosts' memory; ``vllm`` is a stand-in that eats it."""
    runtime = runtime_of(rig, "docker")
    runtime["mounts"] = [*rig.mounts, "~/standin:/standin:ro"]
    runtime["run_flags"] = [*runtime["run_flags"], "-v", "/proc/meminfo:/proc/meminfo:ro"]  # type: ignore[misc]
    runtime["env"] = {"PATH": "/standin:/usr/bin:/bin"}
    serve = {
        "model": "/models/any",
        "flags": {"distributed-executor-backend": "ray"},
        "env": {"EAT": "4000"},
        "guard": {"reserve": "600MiB"},
        "ready_within": 60,
    }
    return parse(plain_text(rig, "boxed", runtime=runtime, serve=serve).encode(), "boxed.yaml")


@pytest.fixture
async def both(rig: Rig) -> AsyncIterator[Pair]:
    """Our containers on two hosts with 2 GiB each."""
    for host in rig.hosts.values():
        host.exec(["sh", "-c", SET_UP.replace("@EAT@", EAT)], user="aurora")
        host.limit_memory(2048 * MIB)
        told = lambda host=host: host.exec(["grep", "MemTotal", "/proc/meminfo"]).out.split()[1]  # noqa: E731
        wait_for(lambda told=told: told() == str(2048 * 1024), "the limit is told", timeout=10)  # type: ignore[misc]
    profile = pair(rig)
    async with AsyncExitStack() as stack:
        opened_ = await opened(stack, profile)
        assert isinstance(opened_.session.runtime, DockerEnvironment)
        for spec in profile.hosts:
            await opened_.run(opened_.session.runtime.container_start(spec))
        yield opened_


async def test_ranks_that_eat_memory_are_ended_before_the_limit_on_both_hosts(rig: Rig, both: Pair) -> None:
    before = {name: oom_kills(rig, name) for name in rig.hosts}
    worker, runtime = both.profile.workers[0], both.session.runtime
    await both.run(guard.guard_command(both.profile, runtime, worker))
    rank = (
        "bash",
        "-c",
        "bash -c 'exec -a ray::RayWorkerProc.run python3 /standin/eat.py 4000' & exec sleep 300",
    )
    await both.run(runtime.script(worker, detached.start("ray", rank), "a stand-in for Ray with a rank"))
    run = await both.start()
    for index, title in ((0, "VLLM::EngineCore"), (1, "ray::RayWorkerProc.run")):
        seen = await both.until(index, "stopped", "ended")
        assert seen.state == "stopped" and title in seen.reason
        assert 0 < seen.available < seen.reserve == 600 * MIB
        assert seen.low
    last = await both.ended()
    assert (last.process.state, last.process.status) == (ProcessState.ENDED, 1)
    assert {name: oom_kills(rig, name) for name in rig.hosts} == before, "the guard was there before the kernel"
    for host in rig.hosts.values():
        processes = host.exec(["ps", "-eo", "args"]).out
        assert "eat.py" not in processes
    looked = (await look(both.session)).to_json()["hosts"]
    assert [host["guard"]["state"] for host in looked] == ["stopped", "stopped"]
    found = await explain_run(both.session, run)
    assert (found.status, found.findings[0].kind) == ("failed", "oom-unified-memory")
    assert "The memory guard on spark-" in found.findings[0].cause
