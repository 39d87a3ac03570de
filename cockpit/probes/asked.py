"""What preflight knows when its checks are made, and the words they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cockpit.model.finding import Fix
from cockpit.model.profile import DockerRuntime, Profile
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes.answers import EnvironmentFacts, HostFacts
from cockpit.probes.fabric import FabricFacts
from cockpit.probes.machine import MachineFacts


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an environment did not answer: the exit status of the question (None when the outcome isn't known)
    and the line that says most."""

    status: int | None
    line: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything that was answered, by host. A host that could not be reached stands in none.
    ``ours`` tells that this very cluster is running, so that its ports are rightly taken."""

    profile: Profile
    hosts: Mapping[str, HostFacts]
    environments: Mapping[str, EnvironmentFacts]
    failures: Mapping[str, Failure]
    ours: bool = False
    machines: Mapping[str, MachineFacts] = field(default_factory=dict)
    fabrics: Mapping[str, FabricFacts] = field(default_factory=dict)

    @property
    def docker(self) -> DockerRuntime | None:
        """The docker runtime, None for a native one."""
        runtime = self.profile.runtime
        return runtime if isinstance(runtime, DockerRuntime) else None


Check = Callable[[Asked], Iterable[Verdict]]


def ready(check: str, host: str, observed: str) -> Verdict:
    """Nothing stands in the way."""
    return Verdict(check, (host,), Grade.READY, observed)


def blocked(check: str, host: str, observed: str, why: str, remedy: str) -> Verdict:
    """It can't work like this."""
    return Verdict(check, (host,), Grade.BLOCKED, observed, why, remedy)


def busy(host: str) -> str:
    """The remedy where a host did not answer in time."""
    return f"On {host}: uptime ; ps -eo pid,stat,pcpu,args --sort=-pcpu | head ; then check again"


def differing(
    check: str, values: Mapping[str, str], grade: Grade, what: str, why: str, remedy: str
) -> Iterable[Verdict]:
    """One verdict over all hosts where ``values`` (by host) are not all the same."""
    if len(set(values.values())) > 1:
        told = ", ".join(f"{value or 'none'} on {host}" for host, value in values.items())
        yield Verdict(check, tuple(values), grade, f"{what} differ: {told}.", why, remedy)


_HERE = "On the host: "


def merged(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Verdicts that say the same of several hosts, as one; a remedy then begins with all their names."""
    groups: dict[tuple[str, Grade, str, str, str, tuple[str, ...]], list[str]] = {}
    fixes: dict[str, Fix] = {}
    for verdict in verdicts:
        remedy = verdict.remedy
        if len(verdict.hosts) == 1 and remedy.startswith(own := f"On {verdict.hosts[0]}: "):
            remedy = _HERE + remedy.removeprefix(own)
        texts = tuple(fix.text for fix in verdict.fix)
        key = (verdict.id, verdict.grade, verdict.observed, verdict.why, remedy, texts)
        fixes |= {fix.text: fix for fix in verdict.fix}
        groups.setdefault(key, []).extend(verdict.hosts)
    found = []
    for (check, grade, observed, why, remedy, texts), names in groups.items():
        hosts = tuple(dict.fromkeys(names))
        told = remedy.replace(_HERE, f"On {' and '.join(hosts)}: ", 1)
        found.append(Verdict(check, hosts, grade, observed, why, told, tuple(fixes[text] for text in texts)))
    return tuple(found)
