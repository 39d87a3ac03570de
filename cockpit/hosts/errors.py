"""What can go wrong on the way to a host, each with a type of its own."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.hosts import quoting
from cockpit.model.command import Command, Completed
from cockpit.model.errors import CockpitError

TAIL_LINES = 5
"""Lines of a failed command's output that its error shows."""


class HostError(CockpitError):
    """Something went wrong with ``host`` (the profile's name for it); ``what`` is the message without it."""

    def __init__(self, host: str, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{host}: {message}", remedy=remedy)
        self.host = host
        self.what = message


class HostConfigError(HostError):
    """The operator's own SSH configuration cannot be used: ssh_config, known_hosts or a key file."""


class Unreachable(HostError):
    """No connection came about. ``address`` is what was dialled, ``client`` the command line of OpenSSH's client
    that dials the same."""

    def __init__(self, host: str, address: str, why: str, *, client: str) -> None:
        super().__init__(
            host,
            f"{address} cannot be reached: {why}.",
            remedy=f"Check that the host is up and that `{client}` gets through from here.",
        )
        self.address = address


class AuthenticationFailed(HostError):
    """The host refused every key. ``tried`` tells the keys that were offered, ``unusable`` those that could
    not be (protected by a passphrase, unreadable), each in words; ``accepts`` the host's methods; ``copy`` is the
    command that gives the host a key."""

    def __init__(
        self,
        host: str,
        address: str,
        user: str,
        *,
        tried: Sequence[str] = (),
        unusable: Sequence[str] = (),
        accepts: Sequence[str] = (),
        copy: str = "",
        remedy: str = "",
    ) -> None:
        parts = [f"{address} lets user {user} in with none of the keys offered."]
        parts.append("Tried: " + ("; ".join(tried) if tried else "no key, none was found") + ".")
        if unusable:
            parts.append("Not usable: " + "; ".join(unusable) + ".")
        if accepts:
            parts.append("The host accepts: " + ", ".join(accepts) + ".")
        super().__init__(host, " ".join(parts), remedy=remedy or self._remedy(copy, unusable))
        self.address = address
        self.user = user
        self.tried = tuple(tried)
        self.unusable = tuple(unusable)

    @staticmethod
    def _remedy(copy: str, unusable: Sequence[str]) -> str:
        if any("passphrase" in reason for reason in unusable):
            return (
                "Put the protected key into the agent first: ssh-add FILE. The cockpit asks for no passphrase."
            )
        return f"Check the user name (`user` in the profile, or User in ssh_config), or give the host your key: {copy}"


class HostKeyError(HostError):
    """The host did not prove who it is. ``fingerprint`` is SHA256:..., ``key`` the OpenSSH public key line
    (type and base64), ``address`` the name the key stands under in known_hosts."""

    def __init__(
        self, host: str, message: str, *, address: str, fingerprint: str, key: str, remedy: str
    ) -> None:
        super().__init__(host, message, remedy=remedy)
        self.address = address
        self.fingerprint = fingerprint
        self.key = key

    @property
    def key_type(self) -> str:
        """The key's type, such as ssh-ed25519."""
        return self.key.split(" ", 1)[0]


class HostKeyUnknown(HostKeyError):
    """The host's key has never been seen from here; ``file`` is where it will be kept when accepted."""

    def __init__(self, host: str, *, address: str, fingerprint: str, key: str, file: str) -> None:
        key_type = key.split(" ", 1)[0]
        super().__init__(
            host,
            f"{address} is new here: its {key_type} key {fingerprint} is in none of the known_hosts files.",
            address=address,
            fingerprint=fingerprint,
            key=key,
            remedy=(
                "Compare the fingerprint with the one the host itself shows "
                "(on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), "
                f"then accept it: --trust-host-key {fingerprint}"
            ),
        )
        self.file = file


class HostKeyChanged(HostKeyError):
    """The host shows another key than the one known. ``places`` are FILE:LINE of the keys known."""

    def __init__(
        self, host: str, *, address: str, fingerprint: str, key: str, known: str, places: Sequence[str]
    ) -> None:
        key_type = key.split(" ", 1)[0]
        files = sorted({place.rpartition(":")[0] for place in places})
        removal = "; ".join(quoting.join(["ssh-keygen", "-R", address, "-f", file]) for file in files)
        super().__init__(
            host,
            f"REFUSED: {address} shows the {key_type} key {fingerprint}, but is known by another, {known} "
            f"({', '.join(places)}). Either the host was set up anew, or something else answers in its place.",
            address=address,
            fingerprint=fingerprint,
            key=key,
            remedy=(
                "Find out why before you go on. Only if the host was set up anew, forget the old key: "
                + removal
            ),
        )
        self.places = tuple(places)


class HostKeyRevoked(HostKeyError):
    """The host shows a key that known_hosts marks as revoked."""

    def __init__(self, host: str, *, address: str, fingerprint: str, key: str, places: Sequence[str]) -> None:
        super().__init__(
            host,
            f"REFUSED: {address} shows the key {fingerprint}, which is marked @revoked ({', '.join(places)}).",
            address=address,
            fingerprint=fingerprint,
            key=key,
            remedy="A revoked key is known to be in the wrong hands: have the host's keys made anew.",
        )


class ConnectionLost(HostError):
    """The link to the host is gone; the outcome of ``command`` is unknown."""

    def __init__(self, host: str, why: str, *, command: Command | None = None) -> None:
        doing = f" while it was to {command.why}, and how that ended is unknown" if command else ""
        what = f" (run was: {quoting.command_line(command)})" if command else ""
        super().__init__(
            host,
            f"the connection is gone{doing}: {why}{what}.",
            remedy="Whatever runs on the host goes on. Connect again and look at its state.",
        )
        self.command = command


class NotConnected(ConnectionLost):
    """There was no connection when ``command`` was to be run: nothing was. ``why`` is "" where there never was
    one, else how the last one ended."""

    def __init__(self, host: str, why: str = "", *, command: Command | None = None) -> None:
        state = f"the connection is gone: {why}" if why else "there is no connection"
        left = f". Nothing was run to {command.why}" if command else ""
        HostError.__init__(
            self,
            host,
            f"{state}{left}.",
            remedy="Whatever runs on the host goes on. Connect, and look at its state.",
        )
        self.command = command


class SessionRefused(HostError):
    """The host is connected but opens no further session for ``command``; nothing was run."""

    def __init__(self, host: str, command: Command, why: str) -> None:
        super().__init__(
            host,
            f"no further session was opened to {command.why}: {why} (not run: {quoting.command_line(command)}).",
            remedy="Check MaxSessions in the host's sshd_config: the cockpit needs the default of 10.",
        )
        self.command = command


class TimedOut(HostError):
    """``command`` was not done within ``limit`` seconds and was ended on the host."""

    def __init__(self, host: str, command: Command, limit: float, *, output: str = "") -> None:
        super().__init__(
            host,
            f"gave up to {command.why}: not done after {limit:g} s (run was: {quoting.command_line(command)})."
            + _tail(output),
            remedy="The command was ended on the host. See what it waited for, then try again.",
        )
        self.command = command
        self.limit = limit


class CommandFailed(HostError):
    """``completed.command`` ended with a status other than 0."""

    def __init__(self, completed: Completed) -> None:
        command = completed.command
        output = completed.error_text.strip() or ("" if command.gives else completed.text)
        super().__init__(
            command.host,
            f"failed to {command.why}: status {completed.status} of {quoting.command_line(command)}."
            + _tail(output),
        )
        self.completed = completed
        self.command = command


class ForwardFailed(HostError):
    """No local port could be opened to forward to ``target``, or the host refused to forward."""

    def __init__(self, host: str, target: str, why: str) -> None:
        super().__init__(
            host,
            f"no forward to {target}: {why}.",
            remedy="Check AllowTcpForwarding in the host's sshd_config.",
        )
        self.target = target


def _tail(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()][-TAIL_LINES:]
    return "".join(f"\n  {line}" for line in lines)
