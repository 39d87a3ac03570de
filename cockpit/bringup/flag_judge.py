"""All flag checks together: the rules, vLLM's own verdict, memory, the hosts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cockpit.bringup import flag_cache
from cockpit.bringup.events import now
from cockpit.bringup.flag_hosts import (
    HostFacts,
    ask_hosts,
    environment_problems,
    memory_of,
    model_of,
    together,
)
from cockpit.bringup.session import Session
from cockpit.cluster.environment import environment_for
from cockpit.model.command import Command
from cockpit.model.finding import Problem, Severity
from cockpit.model.profile import Profile
from cockpit.runtime.docker import DockerEnvironment
from cockpit.runtime.prelude import NO_ENVIRONMENT
from cockpit.runtime.runtime import Runtime
from cockpit.serving import flag_environment, flag_rules
from cockpit.serving.arguments import serve_argv
from cockpit.serving.backend_rule import backend_problems
from cockpit.serving.deep import (
    identity_command,
    judge_command,
    once_command,
    parse_identity,
    question,
)
from cockpit.serving.memory_fit_problems import memory_problems, ranks_per_host
from cockpit.serving.parser_check import Verdicts, read_verdicts, serve_pieces, verdict_problems
from cockpit.serving.schema import Schema, schema_of_answer
from cockpit.serving.schema_check import notes, schema_problems

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


@dataclass(frozen=True, slots=True)
class FlagCheck:
    """The checks' answer. ``vllm`` is the version that judged: the runtime's own, or, where ``source`` is
    shipped, one whose flags the cockpit brings along. ``seconds`` is what vLLM's import and its answer took,
    ``facts`` what the hosts said, ``digest`` tells this vLLM from another. ``unasked`` says why the runtime was
    not asked and what to do, "" where it was."""

    vllm: str
    problems: tuple[Problem, ...]
    command: tuple[str, ...]
    source: str = "runtime"
    schema: Schema | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: HostFacts | None = None
    digest: str = ""
    unasked: str = ""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that stand against a launch."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems to be shown before a launch."""
        return self._of(Severity.WARNING)

    def _of(self, severity: Severity) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is severity)

    def to_json(self) -> dict[str, Any]:
        """The answer as the contract has it."""
        return {
            "vllm": self.vllm,
            "source": self.source,
            "findings": [problem.to_json() for problem in self.problems],
            "command": list(self.command),
            "seconds": dict(self.seconds),
            "asked": not self.unasked,
            "reason": self.unasked or None,
        }

    @property
    def by_whom(self) -> str:
        """Whose flags judged, in words."""
        return by_whom(self.vllm, self.source, asked=not self.unasked)


def by_whom(version: str, source: str, *, asked: bool) -> str:
    """Whose flags an answer is from, in words."""
    if source != "runtime":
        return f"vLLM {version} (flags that the cockpit brings along)"
    return f"vLLM {version} (the runtime's own{'' if asked else ', as it gave them earlier'})"


UNCHECKED = (
    "Not checked: vLLM's own verdict on the whole command line, the model, the memory, and what the hosts have "
    "installed."
)
"""What an answer without the runtime leaves open."""


def serve_environment(profile: Profile) -> Mapping[str, str]:
    """Everything the serve's environment needs beside what the runtime gives."""
    return {**environment_for(profile, profile.head), **profile.serve.env}


def hub_secrets(profile: Profile) -> tuple[str, ...]:
    """The profile's secrets that a gated model's configuration may need."""
    return tuple(name for name in profile.serve.secrets if name.startswith(("HF_", "HUGGING")))


def planned_command(profile: Profile, runtime: Runtime) -> Command:
    """The question to vLLM as a launch asks it."""
    asked = question(serve_pieces(profile), deep=True, schema=True)
    return judge_command(profile, runtime, asked, serve_environment(profile), secrets=hub_secrets(profile))


async def check_flags(
    session: Session, *, deep: bool = False, keep: bool = False, previous: FlagCheck | None = None
) -> FlagCheck:
    """Every check, all problems together, the worst first. With ``deep`` vLLM builds its engine configuration
    too; with ``keep`` it stays loaded on the head, so that the next check takes a fraction of a second. What
    the hosts said in a ``previous`` check of the same hosts is not asked again.

    Raises ``NoVerdictError`` where vLLM can't be asked, and what the session raises.
    """
    profile = session.profile
    facts = previous.facts if previous else None
    if facts is not None and facts.weighed == model_of(profile):
        verdicts, schema = await _ask_vllm(session, deep=deep, keep=keep, previous=previous)
    else:
        asked = _ask_vllm(session, deep=deep, keep=keep, previous=previous)
        (verdicts, schema), facts = await together(asked, ask_hosts(session))
    bound = flag_environment.bind_problem(profile, _bind(verdicts))
    problems = (
        *backend_problems(profile, facts.gpus),
        *flag_environment.port_problems(profile),
        *verdict_problems(verdicts, profile),
        *flag_environment.environment_problems(profile),
        *environment_problems(profile, facts.environments),
        *(notes(profile, schema) if schema else ()),
        *((bound,) if bound and not facts.running else ()),
        *_model_problems(profile, facts, schema, platform=str(verdicts.answer.get("platform"))),
    )
    seconds = verdicts.answer.get("seconds", {})
    return FlagCheck(
        verdicts.version,
        ordered(problems),
        serve_argv(profile),
        "runtime",
        schema,
        seconds,
        facts,
        digest_of(verdicts),
    )


def check_offline(profile: Profile, unasked: str) -> FlagCheck:
    """What can be said without any host: by the flags this runtime gave earlier, else by shipped ones.
    ``unasked`` is why there is no more."""
    schema = flag_cache.offline(profile)
    problems = (
        *backend_problems(profile, {}),
        *flag_environment.port_problems(profile),
        *flag_environment.environment_problems(profile),
        *schema_problems(profile, schema, sure=schema.source == "runtime"),
        *flag_rules.parser_problems(profile, {}, schema),
    )
    return FlagCheck(
        schema.version, ordered(problems), serve_argv(profile), schema.source, schema, unasked=unasked
    )


def ordered(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The worst first; of two that blame the same flag with the same change the first stays."""
    kept: dict[object, Problem] = {}
    for problem in problems:
        changes = json.dumps([fix.change for fix in problem.fix if fix.change], sort_keys=True)
        same = (problem.flag, problem.severity, changes) if changes != "[]" else (problem.flag, problem.message)
        kept.setdefault(same, problem)
    return tuple(sorted(kept.values(), key=lambda problem: _ORDER.index(problem.severity)))


async def schema_for(session: Session) -> Schema:
    """The flags of the runtime's vLLM: kept ones of the very vLLM that is installed, else asked for now."""
    schema = flag_cache.load(await _identity(session))
    if schema is not None:
        return schema
    _, asked = await _ask_vllm(session, deep=False, keep=False)
    return asked or flag_cache.offline(session.profile)


async def _ask_vllm(
    session: Session, *, deep: bool, keep: bool, previous: FlagCheck | None = None
) -> tuple[Verdicts, Schema | None]:
    """vLLM's verdict, and its flags: those of the ``previous`` check while it is the same vLLM."""
    profile = session.profile
    if previous is not None and previous.schema is not None and previous.digest:
        verdicts = await _verdicts(session, deep=deep, keep=keep, schema=False)
        if digest_of(verdicts) == previous.digest:
            return verdicts, previous.schema
    known = flag_cache.load(await _identity(session))
    verdicts = await _verdicts(session, deep=deep, keep=keep, schema=known is None)
    if known is None and verdicts.answer.get("schema"):
        known = schema_of_answer(verdicts.answer, at=now().isoformat(timespec="seconds"))
        flag_cache.save(profile, digest_of(verdicts), known)
    return verdicts, known


async def _verdicts(session: Session, *, deep: bool, keep: bool, schema: bool) -> Verdicts:
    profile = session.profile
    asked = question(serve_pieces(profile), deep=deep, schema=schema)
    secrets = tuple(name for name in hub_secrets(profile) if os.environ.get(name))
    environment = serve_environment(profile)
    command = judge_command(profile, session.runtime, asked, environment, keep=keep, secrets=secrets)
    completed = await session.run(command, check=False)
    if completed.status == NO_ENVIRONMENT and isinstance(session.runtime, DockerEnvironment):
        once = once_command(profile, session.runtime, asked, environment, secrets=secrets)
        completed = await session.run(once, check=False)
    return read_verdicts(completed.stdout, completed.stderr)


def digest_of(verdicts: Verdicts) -> str:
    """What tells the vLLM that answered from another; "" where it did not say."""
    identity = verdicts.answer.get("identity")
    return str(identity.get("digest", "")) if isinstance(identity, dict) else ""


async def _identity(session: Session) -> str:
    completed = await session.ask(identity_command(session.profile, session.runtime))
    return parse_identity(completed.stdout) if completed.status == 0 else ""


def _bind(verdicts: Verdicts) -> str:
    return (verdicts.rest or verdicts.verdicts[0]).bind


def _model_problems(
    profile: Profile, facts: HostFacts, schema: Schema | None, *, platform: str
) -> tuple[Problem, ...]:
    """Parsers that fit the model, what harms on GB10, and memory; a CPU build takes no share of a GPU's."""
    model = facts.model
    problems = flag_rules.parser_problems(profile, model.config if model else {}, schema)
    if facts.gb10:
        weights = model.total() if model else 0
        problems += flag_rules.gb10_problems(profile, weights=weights, schema=schema)
    if platform != "cpu":
        gpus = {name: len(sample.gpus) for name, sample in facts.samples.items()}
        memory = memory_of(facts.samples, ranks_per_host(profile, gpus))
        problems += memory_problems(profile, model, memory, schema, running=facts.running)
    return problems
