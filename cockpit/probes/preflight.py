"""Preflight: two questions to each host, all at once, read-only; then a table of checks over the answers."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from importlib.resources import files

from cockpit.hosts.errors import HostError
from cockpit.hosts.host import Host
from cockpit.model.command import Command, Completed
from cockpit.model.profile import DockerRuntime, HostSpec, Profile
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes import checks_environment, checks_host, checks_model
from cockpit.probes.answers import EnvironmentFacts, HostFacts, parse_environment, parse_host
from cockpit.probes.asked import Asked, Check, Failure, merged
from cockpit.runtime.docker import DockerEnvironment
from cockpit.runtime.prelude import heredoc
from cockpit.runtime.runtime import Runtime

CHECKS: tuple[Check, ...] = (
    checks_host.system,
    checks_host.gpu,
    checks_host.docker,
    checks_host.image,
    checks_host.mounts,
    checks_environment.environment,
    checks_environment.vllm,
    checks_environment.ray,
    checks_environment.python,
    checks_model.model,
    checks_host.ports,
)
HOST_LIMIT = 20.0
ENVIRONMENT_LIMIT = 60.0
"""Seconds. Each program that the host script asks has ten of its own; a container may take long to start."""

_HUB_VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def commands(profile: Profile, runtime: Runtime) -> tuple[Command, ...]:
    """Exactly what ``preflight`` runs: a script on each host, and one inside its environment."""
    return tuple(
        command
        for host in profile.hosts
        for command in (host_command(profile, runtime, host), environment_command(profile, runtime, host))
    )


def host_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """The questions to the host itself."""
    docker = profile.runtime if isinstance(profile.runtime, DockerRuntime) else None
    sources = [mount.split(":")[0] for mount in docker.mounts] if docker else []
    asked = {
        "ports": sorted(checks_host.wanted_ports(profile)) if host == profile.head else [],
        "image": docker.image if docker else "",
        "mounts": [source for source in sources if source.startswith(("/", "~"))],
    }
    text = _python("python3 -I -S", "host_facts", asked)
    return runtime.host_script(host, text, "look at system, GPU, Docker and ports", limit=HOST_LIMIT)


def environment_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """The questions inside the environment; a docker runtime is asked in a throw-away container."""
    revision = profile.serve.flags.get("revision", "")
    asked = {
        "model": profile.serve.model,
        "revision": revision if isinstance(revision, str) else "",
        "env": {name: profile.serve.env[name] for name in _HUB_VARIABLES if name in profile.serve.env},
    }
    text = _python("python3", "environment_facts", asked)
    why = "look for vLLM, Ray and the model in the environment"
    if isinstance(runtime, DockerEnvironment):
        return runtime.image_script(host, text, why, limit=ENVIRONMENT_LIMIT)
    return runtime.script(host, text, why, limit=ENVIRONMENT_LIMIT)


def _python(python: str, name: str, asked: Mapping[str, object]) -> str:
    word, body = heredoc((files("cockpit.probes.scripts") / f"{name}.py").read_text(encoding="utf-8"))
    return f"exec {python} - {shlex.quote(json.dumps(asked))} {word}\n{body}"


async def preflight(
    hosts: Mapping[str, Host], profile: Profile, runtime: Runtime, *, ours: bool = False
) -> tuple[Verdict, ...]:
    """The verdicts on all hosts. ``ours``: this very cluster runs, its ports are rightly taken.

    A host that can't be reached raises nothing: it gets a verdict ``connect`` of grade unknown. One that is
    not in ``hosts`` is left out.
    """
    specs = [spec for spec in profile.hosts if spec.name in hosts]
    answers = await asyncio.gather(*(_ask(hosts[spec.name], spec, profile, runtime) for spec in specs))
    unreachable: list[Verdict] = []
    facts: dict[str, HostFacts] = {}
    environments: dict[str, EnvironmentFacts] = {}
    failures: dict[str, Failure] = {}
    for spec, (host, environment) in zip(specs, answers, strict=True):
        if isinstance(host, Verdict):
            unreachable.append(host)
            continue
        facts[spec.name] = host
        if isinstance(environment, EnvironmentFacts):
            environments[spec.name] = environment
        else:
            failures[spec.name] = environment
    asked = Asked(profile, facts, environments, failures, ours)
    return (*unreachable, *merged(verdict for check in CHECKS for verdict in check(asked)))


async def _ask(
    host: Host, spec: HostSpec, profile: Profile, runtime: Runtime
) -> tuple[HostFacts | Verdict, EnvironmentFacts | Failure]:
    """Both questions at once."""
    try:
        await host.connect()
    except HostError as error:
        return _unreachable(spec, error), Failure(None, error.message)
    return await asyncio.gather(
        _ask_host(host, spec, host_command(profile, runtime, spec)),
        _ask_environment(host, environment_command(profile, runtime, spec)),
    )


async def _ask_host(host: Host, spec: HostSpec, command: Command) -> HostFacts | Verdict:
    try:
        completed = await host.run(command, check=False)
        if completed.status == 0:
            return parse_host(completed.stdout)
    except HostError as error:
        return _unreachable(spec, error)
    except ValueError as error:
        return _silent(spec, str(error))
    return _silent(spec, _line(completed))


def _unreachable(spec: HostSpec, error: HostError) -> Verdict:
    why = "Nothing is known of this host."
    return Verdict("connect", (spec.name,), Grade.UNKNOWN, error.message, why, error.remedy)


def _silent(spec: HostSpec, line: str) -> Verdict:
    why = "Nothing is known of this host. The questions are a script for python3."
    remedy = f"On {spec.name}: python3 --version"
    return Verdict(
        "connect", (spec.name,), Grade.UNKNOWN, f"The host's answer can't be used: {line}", why, remedy
    )


async def _ask_environment(host: Host, command: Command) -> EnvironmentFacts | Failure:
    try:
        completed = await host.run(command, check=False)
        if completed.status == 0:
            return parse_environment(completed.stdout)
    except HostError as error:
        return Failure(None, error.message)
    except ValueError as error:
        return Failure(None, f"The answer can't be used: {error}")
    return Failure(completed.status, _line(completed))


def _line(completed: Completed) -> str:
    """The last line of what it said, which for docker and python alike names the reason."""
    for text in (completed.error_text, completed.text):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # docker run adds "See 'docker run --help'." below its reason.
        lines = [line for line in lines if not line.startswith(("See 'docker", "Run 'docker"))] or lines
        if lines:
            return lines[-1][:400]
    return f"status {completed.status}"
