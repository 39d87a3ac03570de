"""What the guided set-up does with hosts: names of ssh_config, a test of the connection, a look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from cockpit.hosts.errors import HostError, HostKeyUnknown
from cockpit.hosts.factory import open_host
from cockpit.model.profile import HostSpec, Role
from cockpit.probes.setup import SetupError, parse_found, setup_command
from cockpit.tui.setup_profile import Candidate, parse_address

Ask = Callable[[HostKeyUnknown], Awaitable[bool]]


def known_aliases(config: Path | None = None) -> list[str]:
    """The hosts named in ssh_config, patterns left out; files it includes are not looked into."""
    path = config or Path.home() / ".ssh" / "config"
    names: list[str] = []
    with suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            keyword, _, rest = line.strip().replace("=", " ", 1).partition(" ")
            if keyword.lower() == "host":
                names += [name for name in rest.split() if not set(name) & set("*?!")]
    return list(dict.fromkeys(names))


async def look_at(address: str, ask: Ask, *, ssh_config: str = "") -> Candidate:
    """Connect to ``address`` (``local``, an alias, ``user@host:port``), see what it has, and leave it as it was.
    Raises ``AddressError``."""
    parts = parse_address(address)
    spec = HostSpec(address, parts.place, Role.HEAD, user=parts.user, port=parts.port)
    host = open_host(spec, ssh_config=ssh_config, ask=ask)
    try:
        await host.connect()
        completed = await host.run(setup_command(spec.name))
        return Candidate(address, parse_found(completed.stdout))
    except HostError as error:
        said = error.message.removeprefix(f"{error.host}: ")
        return Candidate(address, error=f"{said}\n{error.remedy}".strip())
    except SetupError as error:
        return Candidate(address, error=error.message)
    finally:
        await host.close()
