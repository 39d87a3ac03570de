"""What the hosts say that the flag checks need: memory and GPUs, the environments, the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cockpit.bringup.session import Session
from cockpit.cluster.backend import Backend, backend_of
from cockpit.model.facts import Sample
from cockpit.model.finding import Fix, Problem, Severity
from cockpit.model.profile import HostSpec, Profile
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes import checks_environment, checks_model
from cockpit.probes.answers import EnvironmentFacts, parse_environment
from cockpit.probes.asked import Asked, merged
from cockpit.probes.preflight import environment_command
from cockpit.probes.sample import parse_sample, sample_command
from cockpit.serving.arguments import BACKEND_FLAG
from cockpit.serving.memory_fit import HostMemory

GB10 = "GB10"

_SEVERITIES = {Grade.BLOCKED: Severity.ERROR, Grade.SLOW: Severity.WARNING}


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What was answered, by host; a host that gave no answer is left out."""

    samples: Mapping[str, Sample]
    environments: Mapping[str, EnvironmentFacts]

    @property
    def gb10(self) -> bool:
        """Whether one of the GPUs is a DGX Spark's."""
        return any(GB10 in gpu.name for sample in self.samples.values() for gpu in sample.gpus)


async def ask_hosts(session: Session) -> HostFacts:
    """Ask every host at once."""
    profile = session.profile
    samples = await session.each(profile.hosts, lambda spec: _sample(session, spec))
    environments = await session.each(profile.hosts, lambda spec: _environment(session, spec))
    return HostFacts(
        {name: sample for name, sample in samples.items() if sample is not None},
        {name: facts for name, facts in environments.items() if facts is not None},
    )


async def _sample(session: Session, spec: HostSpec) -> Sample | None:
    completed = await session.ask(sample_command(spec))
    try:
        return parse_sample(completed.stdout) if completed.status == 0 else None
    except ValueError:
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

    if backend_of(session.profile) is Backend.RAY:
        membership = await ask_membership(session)
        if membership.reachable:
            return {member.host: int(member.gpus) for member in membership.members if member.address}
    return {name: len(sample.gpus) for name, sample in samples.items() if not sample.gpu_error}


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
