"""The profile: what the operator declares. Frozen; ``model.profile_yaml`` makes it from YAML."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

FlagValue = str | int | float | bool | list[object] | dict[str, object] | None
"""A flag's value as YAML gives it. ``true`` is the bare flag, ``false`` its ``--no-`` form, lists repeat
the value after one flag, mappings are passed as JSON."""

EMPTY: Mapping[str, str] = MappingProxyType({})


class Role(StrEnum):
    """A host's role in the Ray cluster; rank 0 runs on the head."""

    HEAD = "head"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a profile's file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Fabric:
    """The host's end of the ConnectX-7 link: its address there and the network interface's name."""

    address: str
    interface: str = ""


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A host as declared. ``address`` is an address, an ssh_config alias, or ``local`` (this machine)."""

    name: str
    address: str
    role: Role
    fabric: Fabric | None = None
    user: str = ""
    port: int = 0
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)

    @property
    def is_local(self) -> bool:
        """Whether the cockpit itself runs on this host."""
        return self.address == "local"

    @property
    def cluster_address(self) -> str:
        """The address the host has in the cluster: on the fabric, or loopback where it has none."""
        return self.fabric.address if self.fabric else "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DockerRuntime:
    """vLLM lives in an image. ``mounts`` are ``SOURCE:TARGET[:ro]``; a leading ``~`` in SOURCE is the home
    folder of the user on the host. ``run_flags`` are given to ``docker run`` as they are."""

    image: str
    mounts: tuple[str, ...] = ()
    run_flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class NativeRuntime:
    """vLLM lives in a virtual environment on the host; ``venv`` is its folder."""

    venv: str
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)


RuntimeSpec = DockerRuntime | NativeRuntime


@dataclass(frozen=True, slots=True)
class RaySpec:
    """Ray's ports and extra flags. ``flags`` go to every ``ray start``, without the leading dashes."""

    port: int = 6379
    dashboard_port: int = 8265
    flags: Mapping[str, FlagValue] = field(default_factory=lambda: MappingProxyType({}))
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)


class GuardWhile(StrEnum):
    """When the memory guard watches: until the model is loaded, until the run ends, or never."""

    LOADING = "loading"
    SERVING = "serving"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class GuardSpec:
    """The memory guard. Below ``reserve`` bytes of available memory it ends the host's ranks; 0 is the default,
    8 GiB and at most a 15th of the host's memory: 8 to 16 GiB is what operators of DGX Sparks use while
    loading (sfxnz, pull request 12; Hugging Face discussion 7)."""

    reserve: int = 0
    during: GuardWhile = GuardWhile.LOADING


@dataclass(frozen=True, slots=True)
class ServeSpec:
    """What ``vllm serve`` is started with.

    ``flags`` are in vLLM's own names without the leading dashes. ``secrets`` names variables of the
    operator's environment that the serve needs (HF_TOKEN). ``ready_within`` is in seconds.
    """

    model: str
    served_name: str = ""
    flags: Mapping[str, FlagValue] = field(default_factory=lambda: MappingProxyType({}))
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    secrets: tuple[str, ...] = ()
    ready_within: float = 3600.0
    guard: GuardSpec = GuardSpec()

    @property
    def port(self) -> int:
        """The API's port: the flag ``port``, else vLLM's default 8000."""
        value = self.flags.get("port", 8000)
        return value if isinstance(value, int) else 8000

    @property
    def api_name(self) -> str:
        """The name under which the API knows the model."""
        return self.served_name or self.model


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """The test prompt."""

    text: str = "In one sentence: what are you, and where do you run?"
    system: str = ""
    max_tokens: int = 256
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything one bring-up needs.

    ``name`` is also the cluster's key on the hosts (state folder, container label). ``places`` maps a key's
    path, such as ``("serve", "flags", "port")``, to where it stands in the file. ``digest`` is the SHA-256
    of the file's bytes, ``called`` the word by which the operator named the profile, a name or a path, "" where
    nobody did.
    """

    name: str
    hosts: tuple[HostSpec, ...]
    runtime: RuntimeSpec
    serve: ServeSpec
    ray: RaySpec = field(default_factory=RaySpec)
    prompt: PromptSpec = field(default_factory=PromptSpec)
    description: str = ""
    ssh_config: str = ""
    file: str = ""
    digest: str = ""
    called: str = field(default="", compare=False)
    places: Mapping[tuple[str | int, ...], Place] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def word(self) -> str:
        """What stands for this profile on a command line of the cockpit, quoted: a profile named by its path need
        not be found by its name."""
        return shlex.quote(self.called or self.name)

    @property
    def head(self) -> HostSpec:
        """The host that rank 0 runs on."""
        return next(host for host in self.hosts if host.role is Role.HEAD)

    @property
    def workers(self) -> tuple[HostSpec, ...]:
        """Every other host, in the profile's order."""
        return tuple(host for host in self.hosts if host.role is Role.WORKER)

    def host(self, name: str) -> HostSpec:
        """The host called ``name``; raises ``KeyError``."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    def place(self, *path: str | int) -> Place | None:
        """Where ``path`` stands in the file, else where its nearest declared parent does."""
        while path:
            if path in self.places:
                return self.places[path]
            path = path[:-1]
        return None
