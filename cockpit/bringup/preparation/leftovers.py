"""What earlier runs of this cluster have left: each a task of its own, so that each is asked about."""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import Any

from cockpit.bringup.preparation.task import Kind, Task
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.model.command import Command, script
from cockpit.model.profile import DockerRuntime, HostSpec
from cockpit.runtime.containers import LABEL
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.prelude import heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.runtime.script_text import script_text

GIB = 1024**3

_END = """\
same() { [ "$(sed 's/.*) //' /proc/@PID@/stat 2>/dev/null | cut -d' ' -f20)" = @BEGAN@ ]; }
same || { echo "it has ended already"; exit 0; }
kill -s TERM @PID@ || exit
for TENTH in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
  same || { echo "ended"; exit 0; }
  sleep 0.1
done
kill -s KILL @PID@
sleep 0.5
! same || { echo "process @PID@ does not end" >&2; exit 1; }
echo "killed"
"""

_REMOVE_CONTAINER = """\
OURS=$(docker inspect --format '{{index .Config.Labels "@LABEL@"}}' @ID@) || { echo "it is gone already"; exit 0; }
[ "$OURS" = @CLUSTER@ ] || { echo "the container @ID@ is not this cluster's" >&2; exit 1; }
docker rm -f -v @ID@ >/dev/null && echo removed
"""

_REMOVE_SHM = """\
for FD in /proc/[0-9]*/fd/*; do
  [ "$(readlink "$FD")" != @PATH@ ] || { echo @PATH@" is in use again" >&2; exit 1; }
done
! grep -qsF @PATH@ /proc/[0-9]*/maps || { echo @PATH@" is in use again" >&2; exit 1; }
rm -f @PATH@ && echo removed
"""


def leftovers_command(runtime: Runtime, host: HostSpec, profile: str, *, docker: bool) -> Command:
    """The question."""
    word, body = heredoc(script_text("cockpit.bringup.preparation.scripts", "leftovers"))
    asked = shlex.quote(json.dumps({"cluster": profile if docker else ""})[:-1])
    text = f'exec python3 -I -S - {asked}", \\"state\\": \\"$STATE\\"}}" {word}\n{body}'
    return runtime.host_script(host, text, "look for what earlier runs have left", limit=30)


async def leftover_tasks(session: Session) -> tuple[list[Task], list[str]]:
    """A task for each thing that is left. Nothing is left over while a run is running."""
    run = await last_run(session)
    if run is not None and run.process.state is ProcessState.RUNNING:
        return [], []
    docker = isinstance(session.profile.runtime, DockerRuntime)

    async def ask(spec: HostSpec) -> tuple[list[Task], list[str]]:
        command = leftovers_command(session.runtime, spec, session.profile.name, docker=docker)
        completed = await session.ask(command)
        if completed.status != 0:
            return [], [
                f"{spec.name}: what earlier runs have left can't be told: {completed.error_text[-200:]}"
            ]
        return _tasks(spec, session.profile.name, completed.stdout), []

    found = await asyncio.gather(*(ask(spec) for spec in session.profile.hosts))
    return [task for tasks, _ in found for task in tasks], [note for _, notes in found for note in notes]


def _tasks(spec: HostSpec, cluster: str, output: bytes) -> list[Task]:
    told = json.loads(output.decode("utf-8", "replace").strip().splitlines()[-1])
    rows = [
        *(_container(spec, cluster, row) for row in told["containers"]),
        *(_process(spec, row) for row in told["processes"]),
        *(_shm(spec, row) for row in told["shm"]),
    ]
    return [
        Task(Kind.LEFTOVERS, spec.name, title, (command,), None, "", by_hand, number)
        for number, (title, command, by_hand) in enumerate(rows, 1)
    ]


def _host(spec: HostSpec, text: str, why: str) -> Command:
    return script(spec.name, text, why)


def _process(spec: HostSpec, row: dict[str, Any]) -> tuple[str, Command, str]:
    pid, began = int(row["pid"]), int(row["began"])
    title = f"end process {pid} of an earlier run ({row['name'][:80]}, {row['bytes'] / GIB:.2f} GiB)"
    text = _END.replace("@PID@", str(pid)).replace("@BEGAN@", str(began))
    return title, _host(spec, text, f"end process {pid}"), ""


def _container(spec: HostSpec, cluster: str, row: dict[str, Any]) -> tuple[str, Command, str]:
    identity = shlex.quote(str(row["id"]))
    what = f"ranks of an earlier run in it: {', '.join(row['ranks'])}" if row["ranks"] else str(row["state"])
    text = _REMOVE_CONTAINER.replace("@LABEL@", LABEL).replace("@CLUSTER@", shlex.quote(cluster))
    command = _host(spec, text.replace("@ID@", identity), f"remove the container {row['name']}")
    return f"remove our container {row['name']} ({what})", command, ""


def _shm(spec: HostSpec, row: dict[str, Any]) -> tuple[str, Command, str]:
    path = str(row["path"])
    command = _host(spec, _REMOVE_SHM.replace("@PATH@", shlex.quote(path)), f"remove {path}")
    by_hand = "" if row["mine"] else f"It is another user's: sudo rm {shlex.quote(path)}"
    return f"remove {path} of an earlier run ({row['bytes'] / GIB:.2f} GiB, held by nobody)", command, by_hand
