"""Flags: what would fail at the launch is refused before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cockpit.bringup.errors import StepRefused
from cockpit.bringup.events import StepName, StepState
from cockpit.bringup.session import Session
from cockpit.bringup.step import Planner, Report
from cockpit.bringup.steps.base import StepBase
from cockpit.bringup.steps.launch import last_run, serve_environment
from cockpit.bringup.steps.membership import ask_membership
from cockpit.bringup.steps.ray import needs_ray
from cockpit.hosts.quoting import join
from cockpit.model.command import Command
from cockpit.model.finding import Problem, Severity
from cockpit.model.profile import Profile
from cockpit.probes.sample import parse_sample, sample_command
from cockpit.runtime.detached import ProcessState
from cockpit.serving.arguments import serve_argv
from cockpit.serving.backend_rule import backend_problems
from cockpit.serving.parser_check import parse_verdict, read_verdicts, verdict_command


@dataclass(frozen=True, slots=True)
class FlagCheck:
    """The checks' answer. ``vllm`` is the version of the vLLM that was asked."""

    vllm: str
    problems: tuple[Problem, ...]
    command: tuple[str, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stand against a launch."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    def to_json(self) -> dict[str, Any]:
        """The answer as the contract has it."""
        return {
            "vllm": self.vllm,
            "source": "runtime",
            "findings": [problem.to_json() for problem in self.problems],
            "command": list(self.command),
        }


async def gpus_of(session: Session) -> dict[str, int]:
    """The GPUs each host brings: as Ray counts them where it runs, else as the driver does."""
    profile = session.profile
    if needs_ray(profile):
        membership = await ask_membership(session)
        if membership.reachable:
            return {member.host: int(member.gpus) for member in membership.members if member.address}
    found: dict[str, int] = {}
    for spec in profile.hosts:
        completed = await session.ask(sample_command(spec))
        if completed.status == 0:
            sample = parse_sample(completed.stdout)
            if not sample.gpu_error:
                found[spec.name] = len(sample.gpus)
    return found


async def check_flags(session: Session) -> FlagCheck:
    """The backend rule and the verdict of the runtime's own vLLM, all problems together."""
    profile = session.profile
    rule = backend_problems(profile, await gpus_of(session))
    command = verdict_command(profile, session.runtime, serve_environment(profile))
    completed = await session.run(command, check=False)
    verdict = parse_verdict(completed.stdout, profile, completed.stderr)
    version = read_verdicts(completed.stdout, completed.stderr).version
    return FlagCheck(version, (*rule, *verdict), serve_argv(profile))


class Flags(StepBase):
    """No flag stands against the launch."""

    name = StepName.FLAGS
    title = "Flags"

    def plan(self, planner: Planner) -> tuple[Command, ...]:
        """Ask vLLM's own parser, in the runtime on the head."""
        return (verdict_command(planner.profile, planner.runtime, serve_environment(planner.profile)),)

    def by_hand(self, planner: Planner) -> tuple[Command, ...]:
        """Nothing: the launch says the same, later."""
        return ()

    async def check(self, session: Session) -> Report:
        """Whether a run has these flags already."""
        run = await last_run(session)
        if run is None or run.process.state is not ProcessState.RUNNING:
            return Report(StepState.READY_TO_RUN)
        if run.record.get("argv") == list(serve_argv(session.profile)):
            return Report(StepState.DONE, f"run {run.id} runs with them")
        return Report(StepState.DONE, f"run {run.id} runs with other flags than the profile has now")

    async def run(self, session: Session) -> Report:
        """Judge the flags; errors refuse the launch unless it is forced."""
        result = await check_flags(session)
        if result.errors and not session.forced:
            raise refused(session.profile, result)
        if result.errors:
            count = len(result.errors)
            return Report(
                StepState.DONE, f"forced past {count} error{'s' if count > 1 else ''}: {_first(result)}"
            )
        return Report(StepState.DONE, f"no errors, by vLLM {result.vllm}")


def refused(profile: Profile, result: FlagCheck) -> StepRefused:
    """The refusal: each flag, the reason and the change."""
    lines = []
    for problem in result.errors:
        where = f"{problem.place}: " if problem.place else ""
        lines.append(f"{where}{problem.flag}: {problem.message}")
        lines += [f"  {problem.why}"] if problem.why else []
    fixes = [fix.text for problem in result.errors for fix in problem.fix]
    remedy = "\n".join(["Change:", *(f"  {text}" for text in fixes)]) if fixes else ""
    return StepRefused(
        StepName.FLAGS,
        "\n".join(lines),
        host=profile.head.name,
        command=join(result.command),
        remedy=f"{remedy}\nOr launch all the same: spark-cockpit up {profile.name} --force".strip(),
    )


def _first(result: FlagCheck) -> str:
    return result.errors[0].message.splitlines()[0]
