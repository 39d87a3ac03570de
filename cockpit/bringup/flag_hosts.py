"""What the hosts say that the flag checks need: memory and GPUs, the environments, the model."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from cockpit.bringup.session import Session
from cockpit.cluster.backend import Backend, backend_of
from cockpit.cluster.environment import environment_for
from cockpit.cluster.errors import ClusterError
from cockpit.model.facts import Sample
from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import HostSpec, Profile
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes import checks_environment, checks_model
from cockpit.probes.answers import EnvironmentFacts, parse_environment
from cockpit.probes.asked import Asked, merged
from cockpit.probes.preflight import environment_command
from cockpit.probes.sample import SampleError, parse_sample, sample_command
from cockpit.runtime.detached import ProcessState
from cockpit.serving.arguments import BACKEND_FLAG, value_of
from cockpit.serving.deep import model_command
from cockpit.serving.memory_fit import HostMemory, ModelFacts, parse_model_facts

GB10 = "GB10"

_SEVERITIES = {Grade.BLOCKED: Severity.ERROR, Grade.SLOW: Severity.WARNING}


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the hosts answered, by host; one that gave no answer is left out. ``gpus`` is how many each brings,
    ``model`` is what was weighed on the head, None where it could not be, ``weighed`` which model that was, and
    ``run`` the command line of the run of this cluster that is running, () where none is."""

    samples: Mapping[str, Sample]
    environments: Mapping[str, EnvironmentFacts]
    gpus: Mapping[str, int]
    model: ModelFacts | None = None
    weighed: tuple[str, str] = ("", "")
    run: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        """Whether a run of this cluster is running."""
        return bool(self.run)

    @property
    def gb10(self) -> bool:
        """Whether one of the GPUs is a DGX Spark's."""
        return any(GB10 in gpu.name for sample in self.samples.values() for gpu in sample.gpus)


async def ask_hosts(session: Session) -> HostFacts:
    """Ask every host, and the head about run and model, all at once."""
    hosts = session.profile.hosts
    samples, environments, model, run = await together(
        session.each(hosts, lambda spec: _sample(session, spec)),
        session.each(hosts, lambda spec: _environment(session, spec)),
        _model(session),
        _running(session),
    )
    answered = {name: sample for name, sample in samples.items() if sample is not None}
    return HostFacts(
        answered,
        {name: facts for name, facts in environments.items() if facts is not None},
        await gpus_of(session, answered),
        model,
        model_of(session.profile),
        run,
    )


def model_of(profile: Profile) -> tuple[str, str]:
    """The model that the profile serves, and its revision."""
    revision = value_of(profile.serve.flags, "revision")
    return profile.serve.model, revision if isinstance(revision, str) else ""


async def together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Several questions at once; the first error is raised when all have ended."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return list(results)


async def _model(session: Session) -> ModelFacts | None:
    profile = session.profile
    completed = await session.ask(
        model_command(profile, session.runtime, environment_for(profile, profile.head))
    )
    try:
        return parse_model_facts(completed.stdout) if completed.status == 0 else None
    except ValueError:
        return None


async def _running(session: Session) -> tuple[str, ...]:
    # Here, for the steps import this module.
    from cockpit.bringup.runs import last_run

    run = await last_run(session)
    if run is None or run.process.state is not ProcessState.RUNNING:
        return ()
    argv = run.record.get("argv")
    return tuple(str(word) for word in argv) if isinstance(argv, list) and argv else ("vllm", "serve")


async def _sample(session: Session, spec: HostSpec) -> Sample | None:
    completed = await session.ask(sample_command(spec))
    try:
        return parse_sample(completed.stdout) if completed.status == 0 else None
    except SampleError:
        return None


async def _environment(session: Session, spec: HostSpec) -> EnvironmentFacts | None:
    completed = await session.ask(environment_command(session.profile, session.runtime, spec))
    try:
        return parse_environment(completed.stdout) if completed.status == 0 else None
    except ValueError:
        return None


async def gpus_of(session: Session, samples: Mapping[str, Sample]) -> dict[str, int]:
    """The GPUs each host brings: as Ray counts them where it runs, else as the driver does."""
    # Here, for the steps import this module.
    from cockpit.bringup.steps.membership import ask_membership

    if _over_ray(session.profile):
        membership = await ask_membership(session)
        if membership.reachable:
            return {member.host: int(member.gpus) for member in membership.members if member.address}
    return {name: len(sample.gpus) for name, sample in samples.items() if not sample.gpu_error}


def _over_ray(profile: Profile) -> bool:
    try:
        return backend_of(profile) is Backend.RAY
    except ClusterError:
        # The rule of backends tells of it, among the other findings.
        return False


def memory_of(samples: Mapping[str, Sample], ranks: Mapping[str, int]) -> tuple[HostMemory, ...]:
    """The memory that the ranks of each host have; a host whose driver does not answer is left out. Of a
    host's discrete GPUs the fullest that a rank will have counts."""
    found = []
    for name, count in ranks.items():
        sample = samples.get(name)
        if sample is None or sample.gpu_error or not sample.gpus:
            continue
        discrete = [gpu for gpu in sample.gpus[:count] if gpu.total is not None and gpu.used is not None]
        if not discrete:
            memory = sample.memory
            kind = sample.gpus[0].name
            found.append(HostMemory(name, memory.total, memory.available, memory.page_cache, True, kind))
            continue
        worst = min(discrete, key=lambda gpu: (gpu.total or 0) - (gpu.used or 0))
        total, used = worst.total or 0, worst.used or 0
        found.append(HostMemory(name, total, total - used, 0, False, worst.name))
    return tuple(found)


def environment_problems(profile: Profile, environments: Mapping[str, EnvironmentFacts]) -> tuple[Problem, ...]:
    """Preflight's verdicts on the environments and the model that stand against these flags: versions that
    differ, Ray that is missing, a model that is not complete on a host."""
    asked = Asked(profile, {}, environments, {})
    checks = (checks_environment.vllm, checks_environment.ray, checks_environment.python, checks_model.model)
    verdicts = merged(verdict for check in checks for verdict in check(asked))
    return tuple(_problem(profile, verdict) for verdict in verdicts if verdict.grade in _SEVERITIES)


def _problem(profile: Profile, verdict: Verdict) -> Problem:
    flags = {"ray": BACKEND_FLAG, "model": "model"}
    places = {
        "ray": ("serve", "flags", BACKEND_FLAG),
        "model": ("serve", "model"),
    }
    return Problem(
        flags.get(verdict.id, verdict.id),
        _SEVERITIES[verdict.grade],
        f"{', '.join(verdict.hosts)}: {verdict.observed}",
        why=verdict.why,
        fix=(Fix(verdict.remedy),) if verdict.remedy else (),
        place=profile.place(*places.get(verdict.id, ("runtime",))),
    )
