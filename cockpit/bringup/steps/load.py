"""Load: from the launch to /health 200, read from the serve log as it grows."""

from __future__ import annotations

from cockpit.bringup.api import api_healthy, api_url
from cockpit.bringup.errors import StepFailed
from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.follow import serve_log
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase
from cockpit.bringup.watch import Watch
from cockpit.model.command import Command, script
from cockpit.runtime.detached import ProcessState

WAIT = """\
run="${XDG_STATE_HOME:-$HOME/.local/state}/spark-cockpit/@NAME@/runs/current"
end=$(($(date +%s) + @LIMIT@)) told=
last_line() { tail -c 4096 "$run/serve.log" | tr '\\r' '\\n' | tail -n 1 | tr -cd '[:print:]' | cut -c 1-160; }
until curl -fsS -m 5 -o /dev/null @URL@ 2>/dev/null; do
  if [ -e "$run/exit-status" ]; then
    echo "It ended with exit status $(cat "$run/exit-status"). Its log: $run/serve.log" >&2
    exit 1
  fi
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "Not ready after @LIMIT@ s; it still runs. Its log: $run/serve.log" >&2
    exit 1
  fi
  line=$(last_line)
  [ "$line" = "$told" ] || printf '%s\\n' "$line"
  told=$line
  sleep 2
done
echo ready
"""


class Load(StepBase):
    """The model is loaded, and the API answers."""

    name = StepName.LOAD
    title = "Load"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """Follow the serve log."""
        return (serve_log(planner.profile, "current", 0),)

    def by_hand(self, planner: Planner) -> tuple[Command, ...]:
        """Wait for /health, or for the end of the run."""
        profile = planner.profile
        text = WAIT.replace("@NAME@", profile.name).replace("@URL@", f"{api_url(profile)}/health")
        text = text.replace("@LIMIT@", str(round(profile.serve.ready_within)))
        return (
            script(
                profile.head.name,
                text,
                "wait until the model is ready",
                limit=profile.serve.ready_within + 30,
            ),
        )

    async def check(self, session: Session) -> Report:
        """Whether the last run runs and its API answers."""
        run = await last_run(session)
        if run is None:
            return Report(StepState.WAITING, "for a launch")
        session.notes["run"] = run.id
        if run.process.state is not ProcessState.RUNNING:
            return Report(StepState.WAITING, "for a launch: no run is running")
        if await api_healthy(session):
            return Report(StepState.DONE, "ready")
        return Report(StepState.READY_TO_RUN, f"run {run.id} is loading")

    async def run(self, session: Session) -> Report:
        """Watch the run until it is ready, has ended, will not come further, or the profile's time is up."""
        run = await last_run(session)
        if run is None:
            raise StepFailed(self.name, f"{session.profile.head.name}: there is no run to watch.")
        watch = Watch(session, run)
        return await watch.until_settled()
