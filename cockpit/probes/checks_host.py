"""Preflight of the hosts themselves: system, GPU, Docker, image, folders, ports."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from cockpit.model.profile import Profile
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes.answers import HostFacts, ImageFacts, Listener
from cockpit.probes.asked import Asked, blocked, differing, ready

_EVERYWHERE = ("0.0.0.0", "::")


def system(asked: Asked) -> Iterable[Verdict]:
    """Operating system, kernel, architecture: told, and compared."""
    for name, facts in asked.hosts.items():
        yield ready("system", name, f"{facts.os}, Linux {facts.kernel}, {facts.arch}.")
    yield from differing(
        "system",
        {name: facts.arch for name, facts in asked.hosts.items()},
        Grade.BLOCKED,
        "The architectures",
        "Both ranks load the same compiled code.",
        "Use hosts of one kind.",
    )
    yield from differing(
        "system",
        {name: facts.kernel for name, facts in asked.hosts.items()},
        Grade.SLOW,
        "The kernels",
        "Drivers and RDMA behave by the kernel; a pair that differs is hard to reason about.",
        "On the host that is behind: sudo apt update && sudo apt full-upgrade && sudo reboot",
    )


def gpu(asked: Asked) -> Iterable[Verdict]:
    """The driver answers and shows a GPU."""
    for name, facts in asked.hosts.items():
        if facts.gpu_missing:
            why = "It comes with the driver; without the driver there is no GPU for vLLM."
            yield blocked(
                "gpu", name, "There is no nvidia-smi.", why, f"On {name}: sudo apt install nvidia-open"
            )
        elif facts.gpu_error:
            why = "vLLM needs the driver; where nvidia-smi fails, CUDA fails too."
            yield blocked(
                "gpu", name, f"nvidia-smi fails: {facts.gpu_error}", why, f"On {name}: nvidia-smi ; sudo reboot"
            )
        elif not facts.gpus:
            why = "Every host brings at least one GPU to the cluster."
            yield blocked("gpu", name, "nvidia-smi shows no GPU.", why, f"On {name}: nvidia-smi -L")
        else:
            driver, model = facts.gpus[0]
            count = f"{len(facts.gpus)} x " if len(facts.gpus) > 1 else ""
            cuda = f", CUDA up to {facts.cuda}" if facts.cuda else ""
            yield ready("gpu", name, f"{count}{model}, driver {driver}{cuda}.")
    drivers = {name: facts.gpus[0][0] for name, facts in asked.hosts.items() if facts.gpus}
    yield from differing(
        "gpu",
        drivers,
        Grade.SLOW,
        "The drivers",
        "NCCL and CUDA are tested with one driver on all nodes.",
        "On the host that is behind: sudo apt update && sudo apt full-upgrade && sudo reboot",
    )
    yield from _cuda(asked)


def _cuda(asked: Asked) -> Iterable[Verdict]:
    yield from differing(
        "gpu",
        {name: facts.cuda for name, facts in asked.hosts.items() if facts.cuda},
        Grade.SLOW,
        "The CUDA versions of the drivers",
        "Both ranks load the same CUDA libraries; what the older driver can't do fails on one host alone.",
        "On the host that is behind: sudo apt update && sudo apt full-upgrade && sudo reboot",
    )


def docker(asked: Asked) -> Iterable[Verdict]:
    """The Docker engine answers this user."""
    if asked.docker is None:
        return
    for name, facts in asked.hosts.items():
        if facts.docker_missing:
            remedy = f"On {name}: sudo apt install docker.io ; or use `runtime: {{kind: native, …}}`"
            yield blocked(
                "docker", name, "There is no docker command.", "The profile's runtime is docker.", remedy
            )
        elif facts.docker_error:
            yield blocked("docker", name, *_engine(name, facts))
        else:
            yield ready("docker", name, f"Docker {facts.docker_version} answers.")


def _engine(name: str, facts: HostFacts) -> tuple[str, str, str]:
    if "permission denied" in facts.docker_error.lower():
        observed = f"The user {facts.user} may not talk to Docker."
        remedy = f"On {name}: sudo usermod -aG docker {shlex.quote(facts.user)} ; then connect again"
        return observed, "Docker serves root and the members of the group docker.", remedy
    why = "Without the engine no container starts."
    return f"Docker does not answer: {facts.docker_error}", why, f"On {name}: sudo systemctl start docker"


def image(asked: Asked) -> Iterable[Verdict]:
    """The image is on every host, and is the same one."""
    if asked.docker is None:
        return
    reference = asked.docker.image
    there: dict[str, ImageFacts] = {}
    for name, facts in asked.hosts.items():
        if facts.image is None:
            continue
        if not facts.image.id:
            why = "The cockpit pulls nothing by itself: an image has many gigabytes."
            yield blocked("image", name, f"The image {reference} is not there.", why, _fetch(asked, name))
            continue
        there[name] = facts.image
        if not _runs(facts.image.arch, facts.arch):
            observed = f"The image {reference} is for {facts.image.arch}, the host is {facts.arch}."
            yield blocked(
                "image",
                name,
                observed,
                "It can't run here.",
                f"On {name}: docker pull {shlex.quote(reference)}",
            )
        else:
            yield ready("image", name, f"{reference} ({facts.image.id.removeprefix('sha256:')[:12]}).")
    if not same_image(tuple(there.values())):
        told = ", ".join(f"{found.id.removeprefix('sha256:')[:12]} on {name}" for name, found in there.items())
        why = "Ranks of two builds can differ in their kernels and their NCCL."
        head, *others = there
        copy = f"{_prepare(asked)} ; or on {head}: docker save {shlex.quote(reference)} | ssh {others[0]} docker load"
        yield Verdict(
            "image", tuple(there), Grade.SLOW, f"{reference} is not the same image: {told}.", why, copy
        )


def _fetch(asked: Asked, name: str) -> str:
    reference = shlex.quote(asked.docker.image if asked.docker else "")
    having = [host for host, facts in asked.hosts.items() if facts.image and facts.image.id]
    pull = f"On {name}: docker pull {reference}"
    return f"{_prepare(asked)} ; or on {name}: docker pull {reference}" if having else pull


def _prepare(asked: Asked) -> str:
    return f"spark-cockpit prepare {asked.profile.word} --only image"


def _runs(image_arch: str, arch: str) -> bool:
    names = {"amd64": "x86_64", "arm64": "aarch64"}
    return not image_arch or names.get(image_arch, image_arch) == arch


def same_image(images: tuple[ImageFacts, ...]) -> bool:
    """One image: by id, by a digest in common, else by its layers and what it starts with (``docker import`` makes
    ids of its own)."""
    if len({found.id for found in images}) <= 1 or set.intersection(*(set(found.digests) for found in images)):
        return True
    return bool(images[0].layers) and len({(found.layers, found.config) for found in images}) == 1


def mounts(asked: Asked) -> Iterable[Verdict]:
    """The folders that are mounted exist: Docker would make them, empty and owned by root."""
    for name, facts in asked.hosts.items():
        if facts.missing:
            folders = " ".join(facts.missing)
            why = "Docker would make them, empty and owned by root."
            remedy = f"On {name}: mkdir -p {' '.join(_home(path) for path in facts.missing)}"
            yield blocked("mounts", name, f"Folders to mount are missing: {folders}.", why, remedy)


def _home(path: str) -> str:
    return f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path)


def wanted_ports(profile: Profile) -> dict[int, str]:
    """The ports the head listens on, and what for."""
    ports = {profile.serve.port: "the API"}
    if len(profile.hosts) > 1:
        ports |= {profile.ray.port: "Ray", profile.ray.dashboard_port: "Ray's dashboard"}
    return ports


def ports(asked: Asked) -> Iterable[Verdict]:
    """The head's ports are free, or taken by this very cluster."""
    profile = asked.profile
    head = profile.head.name
    if head not in asked.hosts:
        return
    wanted = wanted_ports(profile)
    taken = [row for row in asked.hosts[head].listeners if _in_the_way(profile, row)]
    numbers = ", ".join(f"{port} ({what})" for port, what in sorted(wanted.items()))
    if not taken:
        yield ready("ports", head, f"Ports that are free: {numbers}.")
    elif asked.ours:
        yield ready("ports", head, f"Ports in use by this cluster: {numbers}.")
    else:
        for port in sorted({row.port for row in taken}):
            holders = [row for row in taken if row.port == port]
            yield _taken(asked, wanted[port], holders)


def _in_the_way(profile: Profile, row: Listener) -> bool:
    """Ray's GCS and the API listen on every address (Ray 2.60, vLLM 0.32), the dashboard on its own."""
    if row.port == profile.ray.dashboard_port and row.port != profile.serve.port:
        return row.address in (*_EVERYWHERE, "127.0.0.1", profile.head.cluster_address)
    return row.port in wanted_ports(profile)


def _other_clusters(asked: Asked, head: str) -> list[str]:
    """The clusters of this cockpit, but this one, that have a container on the head."""
    machine = asked.machines.get(head)
    labels = [row[3] for row in machine.containers] if machine else []
    return [label for label in labels if label and label != asked.profile.name]


def _taken(asked: Asked, what: str, holders: list[Listener]) -> Verdict:
    row, head = holders[0], asked.profile.head.name
    key = {"the API": "serve.flags.port", "Ray": "ray.port"}.get(what, "ray.dashboard_port")
    observed = f"Port {row.port}, for {what}, is taken at {row.address} by "
    if row.cluster and row.cluster != asked.profile.name:
        observed += f"the cluster {row.cluster} of this cockpit (process {row.pid})."
        remedy = f"spark-cockpit down {shlex.quote(row.cluster)} ; or choose another port in {key}"
    elif row.pid is None and (others := _other_clusters(asked, head)):
        observed += f"a process of another user, perhaps in the container of the cluster {others[0]}."
        remedy = f"spark-cockpit down {shlex.quote(others[0])} ; or choose another port in {key}"
    elif row.pid is None:
        observed += "a process of another user."
        remedy = f"On {head}: sudo ss -ltnp 'sport = :{row.port}' shows it; or choose another port in {key}"
    else:
        observed += f"process {row.pid} ({row.name[:80]})."
        remedy = f"End it if it is yours (on {head}: kill {row.pid}), or choose another port in {key}"
    return blocked("ports", head, observed, "Two programs can't listen on one port.", remedy)
