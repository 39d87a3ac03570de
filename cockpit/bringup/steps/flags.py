"""Flags: what would fail at the launch is refused before it."""

from __future__ import annotations

from cockpit.bringup.errors import StepRefused
from cockpit.bringup.events import FlagsJudged, StepName, StepState
from cockpit.bringup.flag_judge import FlagCheck, check_flags, planned_command
from cockpit.bringup.runs import last_run
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase, planner_of
from cockpit.bringup.steps.launch import FORCED
from cockpit.hosts.quoting import join
from cockpit.model.command import Command
from cockpit.model.finding import Problem
from cockpit.model.profile import Profile
from cockpit.runtime.detached import ProcessState
from cockpit.runtime.prelude import NO_ENVIRONMENT
from cockpit.serving.arguments import serve_argv
from cockpit.serving.deep import helper_stop_command

__all__ = ["FlagCheck", "Flags", "check_flags", "refused"]


class Flags(StepBase):
    """No flag stands against the launch."""

    name = StepName.FLAGS
    title = "Flags"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """Ask the runtime's own vLLM, on the head."""
        return (planned_command(planner.profile, planner.runtime),)

    def by_hand(self, planner: Planner) -> tuple[Command, ...]:
        """Nothing: the launch says the same, later."""
        return ()

    def undo_plan(self, planner: Planner) -> tuple[Command, ...]:
        """End the helper that judges flags."""
        return (helper_stop_command(planner.profile, planner.runtime),)

    async def undo(self, session: Session) -> Report:
        """End the helper; where there is no environment, none runs."""
        planner = planner_of(session)
        (command,) = self.undo_plan(planner)
        completed = await session.run(command, check=False)
        if completed.status not in (0, NO_ENVIRONMENT):
            raise session.failed(completed)
        return Report(StepState.DONE, completed.text.strip() or "no helper runs")

    async def check(self, session: Session) -> Report:
        """Whether a run has these flags already."""
        run = await last_run(session)
        if run is None or run.process.state is not ProcessState.RUNNING:
            return Report(StepState.READY_TO_RUN)
        if run.record.get("argv") == list(serve_argv(session.profile)):
            return Report(StepState.DONE, f"run {run.id} runs with them")
        return Report(StepState.DONE, f"run {run.id} runs with other flags than the profile has now")

    async def run(self, session: Session) -> Report:
        """Judge the flags; errors refuse the launch unless it is forced, and then stand in the run's record."""
        result = await check_flags(session, deep=True)
        session.emit(FlagsJudged(result.vllm, result.problems))
        if result.errors and not session.forced:
            raise refused(session.profile, result)
        warned = "".join(f"\n{_told(problem)}" for problem in result.warnings)
        if result.errors:
            session.notes[FORCED] = "\n".join(_told(problem) for problem in result.errors)
            words = f"forced past {_count(len(result.errors), 'error')}: {_first(result)}"
            return Report(StepState.DONE, words + warned)
        count = f", {_count(len(result.warnings), 'warning')}:" if result.warnings else ""
        return Report(StepState.DONE, f"no errors, by vLLM {result.vllm}{count}{warned}")


def refused(profile: Profile, result: FlagCheck) -> StepRefused:
    """The refusal: each flag, the reason and the change."""
    lines = []
    for problem in result.errors:
        lines.append(_told(problem))
        lines += [f"  {problem.why}"] if problem.why else []
    lines += [f"warning: {_told(problem)}" for problem in result.warnings]
    fixes = [fix.text for problem in result.errors for fix in problem.fix]
    remedy = "\n".join(["Change:", *(f"  {text}" for text in fixes)]) if fixes else ""
    return StepRefused(
        StepName.FLAGS,
        "\n".join(lines),
        host=profile.head.name,
        command=join(result.command),
        remedy=f"{remedy}\nOr launch all the same: spark-cockpit up {profile.word} --force".strip(),
    )


def _told(problem: Problem) -> str:
    where = f"{problem.place}: " if problem.place else ""
    return f"{where}{problem.flag}: {problem.message}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _first(result: FlagCheck) -> str:
    return result.errors[0].message.splitlines()[0]
