"""Preflight of the environments: that they can be entered, and vLLM, Ray and Python in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from cockpit.model.finding import Fix
from cockpit.model.profile import NativeRuntime
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes.answers import EnvironmentFacts
from cockpit.probes.asked import Asked, Failure, blocked, busy, differing, ready
from cockpit.runtime.prelude import NO_ENVIRONMENT

_INSIDE = "vLLM, Ray, Python and the model are looked for inside it; they could not be."


def environment(asked: Asked) -> Iterable[Verdict]:
    """A script runs inside: in a container of the image, with the profile's own flags, or in the venv."""
    for name, facts in asked.environments.items():
        yield ready("environment", name, f"{_what(asked)} runs Python {facts.python} ({facts.executable}).")
    for name, failure in asked.failures.items():
        if reason := _standing_before(asked, name):
            observed = f"{_what(asked)} could not be entered: {reason}."
            yield Verdict("environment", (name,), Grade.UNKNOWN, observed, _INSIDE, "Mend that first.")
        elif failure.status is None:
            yield Verdict("environment", (name,), Grade.UNKNOWN, failure.line, _INSIDE, busy(name))
        else:
            observed = f"{_what(asked)} could not be entered (status {failure.status}): {failure.line}"
            yield blocked("environment", name, observed, _INSIDE, _remedy(asked, name, failure))


def _what(asked: Asked) -> str:
    runtime = asked.profile.runtime
    return (
        f"The environment {runtime.venv}" if isinstance(runtime, NativeRuntime) else "A container of the image"
    )


def _standing_before(asked: Asked, name: str) -> str:
    """What of the host is known to keep the environment shut."""
    facts = asked.hosts.get(name)
    if asked.docker is None or facts is None:
        return ""
    if facts.docker_error or facts.docker_missing:
        return "Docker does not answer"
    if facts.image is not None and not facts.image.id:
        return "the image is missing"
    return "a folder to mount is missing" if facts.missing else ""


def _remedy(asked: Asked, name: str, failure: Failure) -> str:
    runtime = asked.profile.runtime
    if isinstance(runtime, NativeRuntime):
        if failure.status == NO_ENVIRONMENT:
            venv = runtime.venv
            return f"On {name}: python3 -m venv {venv} && {venv}/bin/pip install 'ray[default]' vllm"
        return f"On {name}: {runtime.venv}/bin/python --version"
    if "device driver" in failure.line or "nvidia" in failure.line.lower():
        return (
            f"On {name}: sudo apt install nvidia-container-toolkit && "
            "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
        )
    return f"On {name}: docker run --rm --gpus all --entrypoint python3 {runtime.image} --version"


def vllm(asked: Asked) -> Iterable[Verdict]:
    """vLLM is installed, and of one version everywhere."""
    for name, facts in asked.environments.items():
        if not facts.vllm:
            why = f"Python {facts.executable} has no distribution called vllm."
            yield blocked("vllm", name, "vLLM is not installed.", why, _install(asked, name, "vllm"))
        elif not facts.command:
            why = "The serve is started by the command `vllm`."
            yield blocked(
                "vllm", name, f"vLLM {facts.vllm}, but no command `vllm`.", why, _install(asked, name, "vllm")
            )
        else:
            yield ready("vllm", name, f"vLLM {facts.vllm}, torch {facts.torch or 'unknown'}.")
    why = "The ranks exchange objects of vLLM's own; two versions fail in ways that don't say so."
    yield from _equal(asked, "vllm", lambda facts: facts.vllm, "vLLM's versions", why)


def ray(asked: Asked) -> Iterable[Verdict]:
    """Ray is installed, and of one version everywhere; one host needs none."""
    if len(asked.profile.hosts) < 2:
        return
    for name, facts in asked.environments.items():
        if facts.ray:
            yield ready("ray", name, f"Ray {facts.ray}.")
        else:
            why = "Ray joins the hosts to one cluster. Several vLLM images come without it."
            yield blocked("ray", name, "Ray is not installed.", why, _install(asked, name, "ray[default]"))
    why = "Ray lets no node of another version join."
    yield from _equal(asked, "ray", lambda facts: facts.ray, "Ray's versions", why)


def python(asked: Asked) -> Iterable[Verdict]:
    """Python is of one series everywhere."""
    why = "Ray lets no node join whose Python differs in its first two numbers."
    yield from _equal(asked, "python", lambda facts: facts.python_series, "The Pythons", why)


def _equal(
    asked: Asked, check: str, value: Callable[[EnvironmentFacts], str], what: str, why: str
) -> Iterable[Verdict]:
    values = {name: value(facts) for name, facts in asked.environments.items() if value(facts)}
    return differing(check, values, Grade.BLOCKED, what, why, _same(asked, check, values))


def _same(asked: Asked, check: str, values: Mapping[str, str]) -> str:
    """How all hosts come to what the first has."""
    runtime = asked.profile.runtime
    if not isinstance(runtime, NativeRuntime):
        return f"spark-cockpit prepare {asked.profile.word} --only image  (the same image on every host)"
    first, version = next(iter(values.items()), ("", ""))
    others = " and ".join(name for name in values if values[name] != version)
    if check == "python":
        return f"On {others}, as on {first}: python{version} -m venv --clear {runtime.venv} ; then install vLLM and Ray"
    package = "ray[default]" if check == "ray" else check
    return f"On {others}, as on {first}: {runtime.venv}/bin/pip install '{package}=={version}'"


def _install(asked: Asked, name: str, package: str) -> str:
    runtime = asked.profile.runtime
    if isinstance(runtime, NativeRuntime):
        return f"On {name}: {runtime.venv}/bin/pip install '{package}'"
    return (
        "Name an image that has it in runtime.image; or make one: "
        f"printf 'FROM {runtime.image}\\nRUN pip install \"{package}\"\\n' | docker build -t NAME -"
    )


def container_gpu(asked: Asked) -> Iterable[Verdict]:
    """A container sees the GPU that its host has."""
    if asked.docker is None or "--gpus=none" in asked.docker.run_flags or "none" in asked.docker.run_flags:
        return
    for name, facts in asked.environments.items():
        if name in asked.hosts and asked.hosts[name].gpus and not facts.gpu:
            why = "The host has one, and vLLM runs in the container. Docker's GPU runtime is not in order."
            remedy = (
                f"On {name}: sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker ; "
                f"docker run --rm --gpus all --entrypoint nvidia-smi {asked.docker.image} -L"
            )
            yield blocked(
                "container-gpu", name, "A container started with --gpus all sees no GPU.", why, remedy
            )


_BUILT = re.compile(r"\+cu(\d+)(\d)$")
"""PyTorch names the CUDA it was built for in its local version: 2.13.0+cu130 is CUDA 13.0."""


def cuda(asked: Asked) -> Iterable[Verdict]:
    """The driver can do the CUDA that the environment's PyTorch was built for. Within a major version any driver of
    it will do (NVIDIA, CUDA Compatibility, minor version compatibility)."""
    for name, facts in asked.environments.items():
        built = _BUILT.search(facts.torch)
        offered = asked.hosts[name].cuda if name in asked.hosts else ""
        if built is None or not offered:
            continue
        major, _, _ = offered.partition(".")
        if major.isdigit() and int(built[1]) > int(major):
            observed = (
                f"PyTorch {facts.torch} is built for CUDA {built[1]}.{built[2]}, and the driver does {offered}."
            )
            why = "CUDA does not come up in such an environment: the driver is older than its libraries."
            remedy = (
                f"On {name}: sudo apt update && sudo apt full-upgrade && sudo reboot ; or take an older image"
            )
            yield blocked("cuda", name, observed, why, remedy)
        else:
            yield ready("cuda", name, f"PyTorch for CUDA {built[1]}.{built[2]}, the driver does {offered}.")


_OURS = ("VLLM_HOST_IP", "MASTER_ADDR", "RAY_ADDRESS")
_INTERFACES = (
    *("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES"),
    "OMPI_MCA_btl_tcp_if_include",
)
"""What the cockpit sets itself: the addresses always, the interfaces where the profile names one."""


def baked(asked: Asked) -> Iterable[Verdict]:
    """No variable of the image or the profile names an interface or an RDMA device that the host lacks."""
    for name, facts in asked.environments.items():
        fabric, spec = asked.fabrics.get(name), asked.profile.host(name)
        if fabric is None:
            continue
        own = {*_OURS, *(_INTERFACES if spec.fabric and spec.fabric.interface else ())}
        declared = {**asked.profile.runtime.env, **spec.env}
        there = {link.name for link in fabric.links} | {"lo"}
        devices = {device.name for device in fabric.rdma}
        for variable, value in facts.baked:
            if variable in own and variable not in declared:
                continue
            known = devices if variable == "NCCL_IB_HCA" else there
            missing = [word for word in _named(variable, value) if not _present(word, known)]
            if missing:
                where = "the profile" if variable in declared else "the image's own environment"
                observed = f"{variable}={value} of {where} names {', '.join(missing)}, which this host lacks."
                why = "NCCL, Gloo and UCX, by which the ranks talk, then find no interface, and fail or wait for ever."
                right = spec.fabric.interface if spec.fabric and variable != "NCCL_IB_HCA" else ""
                change = {"set": {f"hosts.{name}.env.{variable}": right}} if right else None
                remedy = f"Set {variable} for this host in the profile: hosts.{name}.env"
                fix = (Fix(f"{remedy}.{variable}: {right}", change),) if change else ()
                yield Verdict("baked", (name,), Grade.BLOCKED, observed, why, remedy, fix)


def _named(variable: str, value: str) -> list[str]:
    """The interfaces or devices that a variable's value names; NCCL's ^ (all but these) names none."""
    if not (variable.endswith("_IFNAME") or variable in (*_INTERFACES, "MN_IF_NAME", "NCCL_IB_HCA")):
        return []
    if value.startswith("^"):
        return []
    words = [word.strip().lstrip("=").split(":")[0] for word in value.split(",")]
    return [word for word in words if word and word not in ("all", "auto")]


def _present(word: str, known: set[str]) -> bool:
    """NCCL takes a name as a prefix (its documentation, NCCL_SOCKET_IFNAME and NCCL_IB_HCA)."""
    return any(name.startswith(word) for name in known)
