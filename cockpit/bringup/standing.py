"""How a run stands: running or not, ready or not, in which phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cockpit.bringup.api import api_healthy
from cockpit.bringup.follow import read_start, run_folder
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.model.progress import Phase
from cockpit.runtime.detached import ProcessState
from cockpit.serving.phases import LoadReader


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands. ``log`` is the serve log's path below the user's home on the head."""

    id: str
    running: bool
    ready: bool
    phase: Phase
    log: str
    exit_status: int | None

    @property
    def words(self) -> str:
        """In words."""
        if self.ready:
            return "ready"
        if self.running:
            return f"loading: {self.phase.value}"
        if self.exit_status is None:
            return f"gone without an exit status (last phase {self.phase.value})"
        return f"ended with exit status {self.exit_status} (last phase {self.phase.value})"

    def to_json(self) -> dict[str, Any]:
        """The run as the contract has it."""
        return {
            "id": self.id,
            "phase": self.phase.value,
            "ready": self.ready,
            "log": self.log,
            "exit_status": self.exit_status,
        }


async def standing(session: Session) -> Standing | None:
    """How the last run stands right now; None where there never was one."""
    run = await last_run(session)
    if run is None:
        return None
    running = run.process.state is ProcessState.RUNNING
    reader, phase = LoadReader(), Phase.STARTING
    for progress in reader.feed(await read_start(session, run.id)):
        phase = progress.phase
    ready = running and await api_healthy(session)
    log = f"{run_folder(session.profile, run.id)}/serve.log"
    return Standing(run.id, running, ready, Phase.READY if ready else phase, log, run.process.status)
