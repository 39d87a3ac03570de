"""What ssh_config says of a host: where it is, over which jumps, with which keys, known by which.

Imports asyncssh: loaded only by ``hosts.ssh``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from cockpit.hosts import known_hosts
from cockpit.hosts.identities import Identities, load_identities
from cockpit.hosts.quoting import join

DIAL_TIMEOUT = 15.0
"""Seconds for TCP, key exchange and login of one hop, unless ssh_config's ConnectTimeout says otherwise."""
HOST_KEYS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
CERTIFICATE = "-cert-v01@openssh.com"


@dataclass(frozen=True, slots=True)
class Target:
    """One hop, with what ssh_config says of it.

    ``user`` and ``port`` are the profile's, "" and 0 where it has none; ``real_user`` is who logs in.
    ``name`` is the host's in known_hosts, ``writable`` the file an accepted key goes to (None for no file),
    ``proxy`` the ProxyCommand that stands for the network, "" for none, ``timeout`` in seconds.
    """

    address: str
    user: str
    port: int
    real_user: str
    name: str
    jumps: tuple[str, ...]
    proxy: str
    writable: Path | None
    known: known_hosts.Known
    host_key_types: tuple[str, ...]
    identities: Identities
    timeout: float

    @property
    def where(self) -> dict[str, object]:
        """What the profile itself says, as asyncssh's arguments: it wins over ssh_config."""
        return _where(self.address, self.user, self.port)


def read_target(config_file: str, address: str, user: str, port: int) -> Target:
    """Read the configuration for ``address``. Raises ``OSError``, ``ValueError`` or ``asyncssh.Error`` for a
    file that can't be used."""
    options = asyncssh.SSHClientConnectionOptions(
        config=config_files(config_file), client_keys=None, known_hosts=b"", **_where(address, user, port)
    )
    config = options.config
    alias = options.host_key_alias
    name = str(alias) if alias else known_hosts.name_in_file(options.host, options.port)
    own = _paths(config.get("UserKnownHostsFile"), ("~/.ssh/known_hosts", "~/.ssh/known_hosts2"))
    shared = _paths(config.get("GlobalKnownHostsFile"), ("/etc/ssh/ssh_known_hosts",))
    jumps = options.tunnel if isinstance(options.tunnel, str) else ""
    known = known_hosts.look_up((*own, *shared), name)
    return Target(
        address=address,
        user=user,
        port=port,
        real_user=options.username,
        name=name,
        jumps=tuple(jumps.replace(" ", "").split(",")) if jumps else (),
        proxy=join(options.proxy_command) if options.proxy_command else "",
        writable=own[0] if own else None,
        known=known,
        host_key_types=() if config.get("HostKeyAlgorithms") else _host_key_types(known),
        identities=load_identities(config),
        timeout=float(str(config.get("ConnectTimeout") or DIAL_TIMEOUT)),
    )


def config_files(config_file: str) -> list[str]:
    """The file named, alone, as ``ssh -F`` has it; where none is, the user's and the system's."""
    if config_file:
        return [str(Path(config_file).expanduser())]
    files = (Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config"))
    return [str(file) for file in files if os.access(file, os.R_OK)]


def client_line(program: Sequence[str], config_file: str, address: str, user: str, port: int) -> str:
    """The command line on which ``program``, of OpenSSH, dials what the profile says."""
    config = ["-F", config_files(config_file)[0]] if config_file else []
    return join(
        [*program, *config, *(["-p", str(port)] if port else []), f"{user}@{address}" if user else address]
    )


def _where(address: str, user: str, port: int) -> dict[str, object]:
    where: dict[str, object] = {"host": address}
    return where | ({"username": user} if user else {}) | ({"port": port} if port else {})


def _host_key_types(known: known_hosts.Known) -> tuple[str, ...]:
    """The signature algorithms to ask a host for: those of its known keys first, then all others, so that a
    host with another type of key shows it and is judged. Certificates only where an authority is known:
    else they would hide the key that could be accepted."""
    types = [
        str(algorithm, "ascii")
        for item in (*known.keys, *known.elsewhere)
        for algorithm in item.key.sig_algorithms
    ]
    plain = sorted(HOST_KEYS, key=lambda kind: kind not in types)
    certificates = [f"{kind}{CERTIFICATE}" for kind in HOST_KEYS] if known.authorities else []
    return (*certificates, *plain)


def split_port(place: str) -> tuple[str, int]:
    """Host and port of HOST, HOST:PORT or [IPv6]:PORT; 0 where there is no port."""
    if place.startswith("["):
        host, _, port = place[1:].partition("]:")
        return host.rstrip("]"), int(port or 0)
    host, colon, port = place.rpartition(":")
    return (host, int(port)) if colon and ":" not in host else (place, 0)


def _paths(value: object, default: Sequence[str]) -> tuple[Path, ...]:
    """The files of an ssh_config value; ``none`` (an empty list) means no file."""
    names = [str(name) for name in value] if isinstance(value, list) else list(default)
    home = str(Path.home())
    return tuple(Path(os.path.expandvars(name.replace("%d", home))).expanduser() for name in names)
