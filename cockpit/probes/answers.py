"""What preflight's two scripts answer, as records. Everything here was said by a host: it is not to be trusted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket; ``pid`` is None where this user may not see the process. ``cluster`` is the profile whose
    cockpit started it, "" where none did."""

    port: int
    address: str
    pid: int | None
    name: str
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image on a host; ``id`` is "" where it is missing. ``size`` in bytes, as the engine counts it;
    ``config`` a digest of its environment, entrypoint and command."""

    id: str = ""
    digests: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    arch: str = ""
    error: str = ""
    size: int = 0
    config: str = ""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host. ``gpus`` are (driver, name) pairs; an error is "" where the question was answered;
    ``cuda`` is the newest CUDA that the driver can do.
    ``docker_error`` and ``image`` mean something for a docker profile only."""

    kernel: str
    arch: str
    os: str
    user: str
    gpus: tuple[tuple[str, str], ...] = ()
    gpu_error: str = ""
    gpu_missing: bool = False
    docker_missing: bool = False
    docker_error: str = ""
    docker_version: str = ""
    image: ImageFacts | None = None
    missing: tuple[str, ...] = ()
    listeners: tuple[Listener, ...] = ()
    cuda: str = ""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The model's files. ``kind`` is local, hub or url; ``path`` the folder as the environment sees it.
    ``names`` are some of the files that are absent, damaged, or locked (this user may not read them); ``expected``
    are the bytes of all tensors by the index, 0 where it does not say."""

    kind: str
    found: bool
    offline: bool
    path: str = ""
    file: bool = False
    config: bool = False
    shards: int = 0
    bytes: int = 0
    absent: int = 0
    damaged: int = 0
    locked: int = 0
    wrong: int = 0
    expected: int = 0
    names: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all that the index names is there, and as long as it should be."""
        whole = self.config and self.shards and not (self.absent or self.damaged or self.locked or self.wrong)
        return self.found and (self.file or bool(whole))


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """A runtime's environment; a version is "" where the package isn't installed. ``baked`` are its variables
    that name interfaces, addresses and devices; ``gpu`` tells whether the driver's device is seen there."""

    python: str
    executable: str
    vllm: str
    ray: str
    torch: str
    command: str
    model: ModelFacts
    baked: tuple[tuple[str, str], ...] = ()
    gpu: bool = True

    @property
    def python_series(self) -> str:
        """Major and minor: Ray refuses a node that differs in these (facts of Ray 2.60)."""
        return ".".join(self.python.split(".")[:2])


def parse_host(output: bytes) -> HostFacts:
    """The answer of ``scripts/host_facts.py``; raises ``ValueError`` on anything else."""
    try:
        return _host(_last_line(output))
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not a host's facts ({error!r}): {output[:120]!r}") from error


def parse_environment(output: bytes) -> EnvironmentFacts:
    """The answer of ``scripts/environment_facts.py``; raises ``ValueError`` on anything else."""
    try:
        facts = _last_line(output)
        model = facts["model"]
        names = tuple(str(name) for name in model.pop("names", ()))
        kept = {key: model[key] for key in ModelFacts.__slots__ if key in model}
        texts = {key: str(facts[key]) for key in ("python", "executable", "vllm", "ray", "torch", "command")}
        baked = tuple(sorted((str(name), str(value)) for name, value in facts.get("baked", {}).items()))
        gpu = bool(facts.get("gpu", True))
        return EnvironmentFacts(**texts, model=ModelFacts(**kept, names=names), baked=baked, gpu=gpu)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not an environment's facts ({error!r}): {output[:120]!r}") from error


def _last_line(output: bytes) -> dict[str, Any]:
    """The JSON in the last line: an image's start script or a login shell may print before it."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    found = json.loads(lines[-1]) if lines else None
    if not isinstance(found, dict):
        raise ValueError(f"no JSON object: {output[:120]!r}")
    return found


def _host(facts: dict[str, Any]) -> HostFacts:
    system, gpu, docker = facts["system"], facts["gpu"], facts.get("docker") or {}
    engine, image = docker.get("engine") or {}, docker.get("image")
    return HostFacts(
        kernel=str(system["kernel"]),
        arch=str(system["arch"]),
        os=str(system["os"]),
        user=str(system["user"]),
        gpus=tuple((str(driver), str(name)) for driver, name in gpu["gpus"]),
        gpu_error=str(gpu["error"]),
        gpu_missing=bool(gpu["missing"]),
        cuda=str(facts.get("cuda", "")),
        docker_missing=bool(engine.get("missing")),
        docker_error=str(engine.get("error", "")),
        docker_version=str(engine.get("output", "")).strip(),
        image=_image(image) if image is not None else None,
        missing=tuple(str(path) for path in facts["missing"]),
        listeners=tuple(
            Listener(
                int(row["port"]), str(row["address"]), row["pid"], str(row["name"]), str(row.get("cluster", ""))
            )
            for row in facts["listeners"]
        ),
    )


def _image(image: dict[str, Any]) -> ImageFacts:
    return ImageFacts(
        id=str(image["id"]),
        digests=tuple(str(digest) for digest in image.get("digests", ())),
        layers=tuple(str(layer) for layer in image.get("layers", ())),
        arch=str(image.get("arch", "")),
        error=str(image["error"]),
        size=int(image.get("size", 0)),
        config=str(image.get("config", "")),
    )
