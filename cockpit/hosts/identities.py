"""The operator's own keys: files and agent; which can be offered, and which not and why.

Imports asyncssh: loaded only by ``hosts.ssh``.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh
from asyncssh.config import SSHConfig

DEFAULT_FILES = ("id_ed25519_sk", "id_ecdsa_sk", "id_ed25519", "id_ecdsa", "id_rsa")
AGENT_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class UnusableKey:
    """A key file that can't be offered, why, and its public half where there is one beside it."""

    why: str
    public: bytes = b""


@dataclass(frozen=True, slots=True)
class Identities:
    """The keys to offer, each with its file.

    ``agent`` is the agent's socket, None where none is to be used; ``only`` the public keys that may be
    taken from it (IdentitiesOnly), None for all.
    """

    keys: tuple[tuple[str, asyncssh.SSHKeyPair], ...]
    unusable: tuple[UnusableKey, ...]
    agent: str | None
    only: tuple[bytes, ...] | None


def load_identities(config: SSHConfig) -> Identities:
    """Read the key files that ssh_config (or OpenSSH's default) names; asks for no passphrase, ever."""
    named = config.get("IdentityFile")
    files = [Path(str(name)).expanduser() for name in named] if isinstance(named, list) else _default_files()
    keys: list[tuple[str, asyncssh.SSHKeyPair]] = []
    unusable: list[UnusableKey] = []
    public: list[bytes] = []
    for file in files:
        half = _public_half(file)
        public += [half] if half else []
        try:
            pairs = asyncssh.load_keypairs([str(file)])
        except (OSError, ValueError) as error:
            unusable.append(UnusableKey(_why(file, error), half))
        else:
            keys += [(str(file), pair) for pair in pairs]
            public += [pair.key_public_data for pair in pairs]
    only = tuple(public) if config.get("IdentitiesOnly") else None
    agent = config.get("IdentityAgent", os.environ.get("SSH_AUTH_SOCK")) if only != () else None
    return Identities(tuple(keys), tuple(unusable), _agent_path(agent), only)


def _default_files() -> list[Path]:
    files = (Path.home() / ".ssh" / name for name in DEFAULT_FILES)
    return [file for file in files if file.exists()]


def _agent_path(value: object) -> str | None:
    if not value:
        return None
    path = str(value)
    if path == "SSH_AUTH_SOCK" or path == "$SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    return str(Path(path).expanduser())


def _public_half(file: Path) -> bytes:
    for candidate in (Path(f"{file}.pub"), file):
        try:
            return bytes(asyncssh.read_public_key(candidate).public_data)
        except (OSError, ValueError):
            continue
    return b""


def _why(file: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{file} does not exist"
    if isinstance(error, OSError):
        return f"{file}: {error.strerror}"
    if "passphrase" in str(error).lower():
        return f"{file} is protected by a passphrase and not in the agent"
    return f"{file} is no private key ({error})"


async def agent_keys(identities: Identities) -> Sequence[asyncssh.SSHKeyPair]:
    """The agent's keys that were open to offer; none where the agent does not answer."""
    if identities.agent is None:
        return ()
    try:
        async with asyncio.timeout(AGENT_TIMEOUT):
            agent = await asyncssh.connect_agent(identities.agent)
            try:
                return await agent.get_keys(identities.only)
            finally:
                agent.close()
    except (OSError, ValueError, asyncssh.Error):
        return ()


def describe(source: str, pair: asyncssh.SSHKeyPair) -> str:
    """A key in words: where it is from, its comment and fingerprint."""
    digest = base64.b64encode(hashlib.sha256(pair.key_public_data).digest()).decode().rstrip("=")
    comment = (pair.get_comment_bytes() or b"").decode("utf-8", "replace")
    words = (source, comment if comment != source else "", f"SHA256:{digest}")
    return " ".join(word for word in words if word)
