"""Preflight: four questions to each host, all at once, read-only; then a table of checks over the answers."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cockpit.hosts.errors import HostError
from cockpit.hosts.host import Host
from cockpit.model.command import Command, Completed
from cockpit.model.profile import DockerRuntime, HostSpec, Profile
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes import checks_environment, checks_fabric, checks_host, checks_machine, checks_model
from cockpit.probes.answers import EnvironmentFacts, HostFacts, parse_environment, parse_host
from cockpit.probes.asked import Asked, Check, Failure, busy, merged
from cockpit.probes.fabric import FabricFacts, parse_fabric
from cockpit.probes.machine import MachineFacts, parse_machine
from cockpit.runtime.docker import DockerEnvironment
from cockpit.runtime.prelude import heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.runtime.script_text import script_text

T = TypeVar("T")

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
    checks_machine.kernel,
    checks_machine.driver,
    checks_machine.power,
    checks_machine.memory,
    checks_machine.leftovers,
    checks_machine.disk,
    checks_machine.limits,
    checks_machine.clocks,
    checks_machine.cdi,
    checks_environment.container_gpu,
    checks_environment.cuda,
    checks_environment.baked,
    checks_fabric.address,
    checks_fabric.cables,
    checks_fabric.mtu,
    checks_fabric.reach,
    checks_fabric.firewall,
    checks_fabric.name,
    checks_fabric.rdma,
)
HOST_LIMIT = 20.0
ENVIRONMENT_LIMIT = 60.0
"""Seconds. Each program that the host script asks has ten of its own; a container may take long to start."""

_HUB_VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def commands(profile: Profile, runtime: Runtime) -> tuple[Command, ...]:
    """Exactly what ``preflight`` runs: three scripts on each host, and one inside its environment."""
    return tuple(
        command
        for host in profile.hosts
        for command in (
            host_command(profile, runtime, host),
            environment_command(profile, runtime, host),
            machine_command(profile, runtime, host),
            fabric_command(profile, runtime, host),
        )
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


def machine_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """The questions about memory, disks, limits and what earlier runs left."""
    docker = profile.runtime if isinstance(profile.runtime, DockerRuntime) else None
    sources = (
        [mount.split(":")[0] for mount in docker.mounts if mount.endswith(":ro") is False] if docker else []
    )
    asked = {
        "folders": ["~", "/tmp", *(["/var/lib/docker"] if docker else []), *sources],
        "image": docker.image if docker else "",
        "model": profile.serve.model,
    }
    text = _python("python3 -I -S", "machine_facts", asked)
    why = "look at memory, disks, limits and leftovers"
    return runtime.host_script(host, text, why, limit=HOST_LIMIT)


def fabric_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """The questions about interfaces and RDMA, and the way to the other hosts."""
    asked = {
        "address": host.cluster_address,
        "peers": {peer.name: peer.cluster_address for peer in profile.hosts if peer != host},
        "ports": checks_fabric.wanted_knocks(profile, host),
    }
    text = _python("python3 -I -S", "fabric_facts", asked)
    return runtime.host_script(host, text, "look at the fabric and try the link", limit=HOST_LIMIT)


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
    word, body = heredoc(script_text("cockpit.probes.scripts", name))
    return f"exec {python} - {shlex.quote(json.dumps(asked))} {word}\n{body}"


@dataclass(frozen=True, slots=True)
class Survey:
    """What preflight found: the verdicts, and the cabling as text, "" where no host told of it."""

    verdicts: tuple[Verdict, ...]
    cabling: str = ""


async def preflight(
    hosts: Mapping[str, Host], profile: Profile, runtime: Runtime, *, ours: bool = False
) -> tuple[Verdict, ...]:
    """The verdicts of ``survey``."""
    return (await survey(hosts, profile, runtime, ours=ours)).verdicts


async def survey(
    hosts: Mapping[str, Host], profile: Profile, runtime: Runtime, *, ours: bool = False
) -> Survey:
    """The verdicts on all hosts, and the cabling. ``ours``: this very cluster runs, its ports are rightly taken.

    A host that can't be reached raises nothing: it gets a verdict ``connect`` of grade unknown. One that is
    not in ``hosts`` is left out.
    """
    specs = [spec for spec in profile.hosts if spec.name in hosts]
    asked, unreachable = await ask(hosts, profile, runtime, specs, ours=ours)
    return judged(asked, unreachable)


def judged(asked: Asked, unreachable: Sequence[Verdict]) -> Survey:
    """All checks over the answers, after the verdicts on what could not be asked."""
    found = merged(verdict for check in CHECKS for verdict in check(asked))
    verdicts = (*unreachable, *found, *merged(checks_machine.sudo(found, asked.machines)))
    return Survey(verdicts, checks_fabric.picture(asked))


async def ask(
    hosts: Mapping[str, Host], profile: Profile, runtime: Runtime, specs: Sequence[HostSpec], *, ours: bool
) -> tuple[Asked, list[Verdict]]:
    """What every host answers, and a verdict for each question that could not be asked."""
    answers = await asyncio.gather(*(_ask(hosts[spec.name], spec, profile, runtime) for spec in specs))
    unknown: list[Verdict] = []
    facts: dict[str, HostFacts] = {}
    environments: dict[str, EnvironmentFacts] = {}
    failures: dict[str, Failure] = {}
    machines: dict[str, MachineFacts] = {}
    fabrics: dict[str, FabricFacts] = {}
    for spec, answer in zip(specs, answers, strict=True):
        if isinstance(answer, Verdict):
            unknown.append(answer)
            continue
        host, environment, machine, fabric = answer
        if isinstance(host, Verdict):
            unknown.append(host)
            continue
        facts[spec.name] = host
        if isinstance(environment, EnvironmentFacts):
            environments[spec.name] = environment
        else:
            failures[spec.name] = environment
        if isinstance(machine, MachineFacts):
            machines[spec.name] = machine
        else:
            unknown.append(_unasked("machine", spec, machine, "memory, disks, limits and leftovers"))
        if isinstance(fabric, FabricFacts):
            fabrics[spec.name] = fabric
        else:
            unknown.append(_unasked("fabric", spec, fabric, "the fabric"))
    return Asked(profile, facts, environments, failures, ours, machines, fabrics), unknown


def _unasked(check: str, spec: HostSpec, line: str, what: str) -> Verdict:
    observed = f"The answer about {what} can't be used: {line}"
    return Verdict(
        check, (spec.name,), Grade.UNKNOWN, observed, f"Nothing is known of {what}.", busy(spec.name)
    )


Answers = tuple[HostFacts | Verdict, EnvironmentFacts | Failure, MachineFacts | str, FabricFacts | str]


async def _ask(host: Host, spec: HostSpec, profile: Profile, runtime: Runtime) -> Answers | Verdict:
    """All questions to a host, at once."""
    try:
        await host.connect()
    except HostError as error:
        return _unreachable(spec, error)
    began = time.time()
    return await asyncio.gather(
        _ask_host(host, spec, host_command(profile, runtime, spec)),
        _ask_environment(host, environment_command(profile, runtime, spec)),
        _ask_more(
            host,
            machine_command(profile, runtime, spec),
            lambda output: parse_machine(output, began, time.time()),
        ),
        _ask_more(host, fabric_command(profile, runtime, spec), parse_fabric),
    )


async def _ask_more(host: Host, command: Command, parse: Callable[[bytes], T]) -> T | str:
    """The parsed answer, or the line that tells why there is none."""
    try:
        completed = await host.run(command, check=False)
        return parse(completed.stdout) if completed.status == 0 else _line(completed)
    except HostError as error:
        return error.message
    except ValueError as error:
        return str(error)


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
    return Verdict("connect", (spec.name,), Grade.UNKNOWN, error.what, why, error.remedy)


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
