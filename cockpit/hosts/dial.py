"""Dialling a host: ssh_config, jumps, keys and host keys, with every refusal told by its own type.

Imports asyncssh: loaded only by ``hosts.ssh``.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import NoReturn

import asyncssh

from cockpit.hosts import known_hosts
from cockpit.hosts.errors import (
    AuthenticationFailed,
    HostConfigError,
    HostError,
    HostKeyChanged,
    HostKeyError,
    HostKeyRevoked,
    HostKeyUnknown,
    Unreachable,
)
from cockpit.hosts.identities import agent_keys, describe
from cockpit.hosts.ssh_config import Target, client_line, config_files, read_target, split_port

Ask = Callable[[HostKeyUnknown], Awaitable[bool]]
"""Asks the operator whether an unknown host key is to be trusted."""

KEEPALIVE_INTERVAL = 2
KEEPALIVE_COUNT = 2
"""A dead link is noticed after interval x (count + 1) = 6 s (measured with asyncssh 2.24.1)."""
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com")
MAX_JUMPS = 8


class Client(asyncssh.SSHClient):
    """Notes what asyncssh's exceptions leave out."""

    def __init__(self) -> None:
        self.connection: asyncssh.SSHClientConnection | None = None
        self.presented: asyncssh.SSHKey | None = None
        self.accepts: tuple[str, ...] = ()
        self.lost: Exception | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """TCP stands."""
        self.connection = conn

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended; ``exc`` is None when this side closed it."""
        self.lost = exc

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called for a key that is not in known_hosts: refused here, judged by ``Dialler``."""
        self.presented = key
        return False

    def public_key_auth_requested(self) -> None:
        """Called when all keys were offered."""
        self._note_methods()

    def password_auth_requested(self) -> None:
        """The cockpit types no password."""
        self._note_methods()

    def kbdint_auth_requested(self) -> None:
        """The cockpit answers no question."""
        self._note_methods()

    def _note_methods(self) -> None:
        if self.connection and not self.accepts:
            self.accepts = tuple(self.connection.get_server_auth_methods())


class Dialler:
    """Connects to one host and its jumps. ``host`` is the profile's name for it."""

    def __init__(self, host: str, ssh_config: str, ask: Ask | None, trust: frozenset[str]) -> None:
        self._host = host
        self._config = ssh_config
        self._ask = ask
        self._trust = trust
        self._accepted: dict[str, list[asyncssh.SSHKey]] = {}

    async def dial(self, address: str, user: str, port: int) -> tuple[asyncssh.SSHClientConnection, Client]:
        """A connection that is logged in. Raises ``HostError``."""
        return await self._dial(address, user, port, None, 0)

    async def _dial(
        self, address: str, user: str, port: int, jumps: tuple[str, ...] | None, depth: int
    ) -> tuple[asyncssh.SSHClientConnection, Client]:
        if depth > MAX_JUMPS:
            raise HostConfigError(
                self._host,
                f"ssh_config leads to {address} over more than {MAX_JUMPS} jumps.",
                remedy="Look for a ProxyJump that leads back to itself.",
            )
        target = await self._read(address, user, port)
        hops = target.jumps if jumps is None else jumps
        via = await self._jump(hops, depth) if hops else None
        try:
            conn, client = await self._log_in(target, via)
        except BaseException:
            if via:
                via.close()
            raise
        conn.set_tunnel(via)
        return conn, client

    async def _jump(self, hops: tuple[str, ...], depth: int) -> asyncssh.SSHClientConnection:
        """The connection to the last of ``hops``, over those before it (as ssh -J has it)."""
        # OpenSSH takes a hop as [user@]host[:port] or as a URI.
        user, _, place = hops[-1].removeprefix("ssh://").rpartition("@")
        host, port = split_port(place)
        before = hops[:-1] or None
        return (await self._dial(host, user, port, before, depth + 1))[0]

    async def _read(self, address: str, user: str, port: int) -> Target:
        try:
            return await asyncio.to_thread(read_target, self._config, address, user, port)
        except (OSError, ValueError, asyncssh.Error) as error:
            raise HostConfigError(
                self._host,
                f"the SSH configuration for {address} cannot be used: {error}.",
                remedy=f"Mend that file; `{client_line(('ssh', '-G'), self._config, address, user, port)}` shows what "
                "OpenSSH makes of it.",
            ) from error

    async def _log_in(
        self, target: Target, via: asyncssh.SSHClientConnection | None
    ) -> tuple[asyncssh.SSHClientConnection, Client]:
        while True:
            client = Client()
            try:
                return await self._attempt(target, via, client), client
            except asyncssh.HostKeyNotVerifiable as error:
                await self._judge(target, client, error)
            except asyncssh.PermissionDenied as error:
                raise await self._denied(target, client) from error
            except TimeoutError as error:
                where = "it accepts connections, but no login came about" if client.connection else "no answer"
                raise self._unreachable(target, via, f"{where} within {target.timeout:g} s") from error
            except asyncssh.DisconnectError as error:
                if "too many authentication failures" in error.reason.lower():
                    raise await self._denied(target, client, too_many=True) from error
                raise self._unreachable(target, via, error.reason) from error
            except asyncssh.ChannelOpenError as error:
                raise self._unreachable(target, via, error.reason) from error
            except OSError as error:
                raise self._unreachable(target, via, _words(error)) from error
            except ValueError as error:
                raise HostConfigError(self._host, f"{target.address} cannot be dialled: {error}.") from error

    async def _attempt(
        self, target: Target, via: asyncssh.SSHClientConnection | None, client: Client
    ) -> asyncssh.SSHClientConnection:
        ids = target.identities
        return await asyncssh.connect(
            config=config_files(self._config),
            client_factory=lambda: client,
            tunnel=via,
            known_hosts=target.known.trusted(self._accepted.get(target.name, ())),
            server_host_key_algs=list(target.host_key_types),
            client_keys=[pair for _, pair in ids.keys],
            ignore_encrypted=True,
            agent_path=ids.agent,
            agent_identities=list(ids.only) if ids.only is not None else None,
            encryption_algs=list(CIPHERS),
            keepalive_interval=KEEPALIVE_INTERVAL,
            keepalive_count_max=KEEPALIVE_COUNT,
            connect_timeout=target.timeout,
            login_timeout=target.timeout,
            **target.where,
        )

    def _unreachable(self, target: Target, via: asyncssh.SSHClientConnection | None, why: str) -> Unreachable:
        over = f" (over the jump host {via.get_extra_info('host')})" if via else ""
        if target.proxy and not via:
            over = f" (over ssh_config's ProxyCommand: {target.proxy})"
        client = client_line(["ssh"], self._config, target.address, target.user, target.port)
        return Unreachable(self._host, target.address, why.rstrip(".") + over, client=client)

    async def _judge(self, target: Target, client: Client, error: asyncssh.HostKeyNotVerifiable) -> None:
        """Returns when the key was accepted, so that dialling again will succeed; else raises."""
        key = client.presented
        if key is None:
            self._refuse_unseen(target, error)
        unknown = self._verdict(target, key)
        accepted = unknown.fingerprint in self._trust or (self._ask is not None and await self._ask(unknown))
        if not accepted:
            raise unknown
        self._accepted.setdefault(target.name, []).append(key)
        if target.writable:
            try:
                await asyncio.to_thread(known_hosts.append, target.writable, target.name, key)
            except OSError as failure:
                raise HostConfigError(
                    self._host, f"the accepted key could not be kept in {target.writable}: {failure}."
                ) from failure

    def _refuse_unseen(self, target: Target, error: asyncssh.HostKeyNotVerifiable) -> NoReturn:
        """A revoked key or a certificate that does not hold: asyncssh tells no key, only words."""
        if target.known.revoked and "revoked" in error.reason:
            revoked = target.known.revoked[0]
            raise HostKeyRevoked(
                self._host,
                address=target.name,
                fingerprint=revoked.key.get_fingerprint(),
                key=known_hosts.public_line(revoked.key),
                places=[known.place for known in target.known.revoked],
            )
        raise HostKeyError(
            self._host,
            f"REFUSED: {target.name} does not prove who it is: {error.reason}.",
            address=target.name,
            fingerprint="",
            key="",
            remedy="Look at the host's certificate: ssh-keygen -L -f /etc/ssh/ssh_host_ed25519_key-cert.pub",
        )

    def _verdict(self, target: Target, key: asyncssh.SSHKey) -> HostKeyUnknown:
        fingerprint, line = key.get_fingerprint(), known_hosts.public_line(key)
        if target.known.keys:
            raise HostKeyChanged(
                self._host,
                address=target.name,
                fingerprint=fingerprint,
                key=line,
                known=", ".join(known.key.get_fingerprint() for known in target.known.keys),
                places=[known.place for known in target.known.keys],
            )
        file = str(target.writable) if target.writable else ""
        return HostKeyUnknown(self._host, address=target.name, fingerprint=fingerprint, key=line, file=file)

    async def _denied(self, target: Target, client: Client, *, too_many: bool = False) -> HostError:
        in_agent = await agent_keys(target.identities)
        tried = [describe(source, pair) for source, pair in target.identities.keys]
        tried = [*(describe("agent", pair) for pair in in_agent), *tried]
        held = {pair.key_public_data for pair in in_agent}
        unusable = [key.why for key in target.identities.unusable if key.public not in held]
        remedy = "Set `IdentitiesOnly yes` and IdentityFile for it in ssh_config: too many keys were offered."
        return AuthenticationFailed(
            self._host,
            target.address,
            target.real_user,
            tried=tried,
            unusable=unusable,
            accepts=client.accepts,
            copy=client_line(["ssh-copy-id"], self._config, target.address, target.real_user, target.port),
            remedy=remedy if too_many else "",
        )


def _words(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"the name is not known here ({error.strerror})"
    return os.strerror(error.errno) if error.errno else str(error)
