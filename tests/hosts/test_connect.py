"""Getting in: ssh_config, jumps, keys, host keys; every refusal told by its own type and words."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cockpit.hosts.errors import (
    AuthenticationFailed,
    HostConfigError,
    HostError,
    HostKeyChanged,
    HostKeyRevoked,
    HostKeyUnknown,
    Unreachable,
)
from cockpit.hosts.factory import open_host
from tests.hosts.sshd import Sshd, command, fingerprint, free_port, link_to, make_key, public, serve, spec


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Sshd]:
    """A server of the test's own."""
    with serve(tmp_path / "server") as server:
        yield server


async def refused(config: str, **options: object) -> HostError:
    """The error that ``connect`` ends with."""
    host = open_host(spec(), ssh_config=config, **options)  # type: ignore[arg-type]
    with pytest.raises(HostError) as caught:
        await host.connect()
    assert not host.connected
    assert "spark-1" in str(caught.value)
    return caught.value


async def answers(config: str, address: str = "spark-1", **options: object) -> None:
    """A command runs over a new connection."""
    host = open_host(spec(address), ssh_config=config, **options)  # type: ignore[arg-type]
    await host.connect()
    assert (await host.run(command("echo", "here"))).text == "here\n"
    await host.close()


async def test_an_unknown_key_is_told_with_its_fingerprint_and_the_option(fresh: Sshd) -> None:
    error = await refused(fresh.config(known=False))
    assert type(error) is HostKeyUnknown
    assert error.fingerprint == fingerprint(fresh.host_key)
    assert error.key == public(fresh.host_key)
    assert error.address == fresh.address_in_file
    assert f"--trust-host-key {error.fingerprint}" in error.remedy
    assert "is new here" in error.message
    assert not fresh.known_hosts.exists()


async def test_a_trusted_fingerprint_is_kept_as_openssh_keeps_it(fresh: Sshd) -> None:
    config = fresh.config(known=False)
    await answers(config, trust=frozenset({fingerprint(fresh.host_key)}))
    assert fresh.known_hosts.read_text() == f"{fresh.address_in_file} {public(fresh.host_key)}\n"
    assert stat.S_IMODE(fresh.known_hosts.stat().st_mode) == 0o600
    await answers(config)
    ssh = [
        "ssh",
        "-F",
        config,
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "BatchMode=yes",
        "spark-1",
        "echo",
        "hi",
    ]
    done = await asyncio.to_thread(subprocess.run, ssh, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("hi\n", 0), done.stderr


async def test_another_fingerprint_is_not_enough(fresh: Sshd) -> None:
    wrong = frozenset({"SHA256:" + "A" * 43})
    assert type(await refused(fresh.config(known=False), trust=wrong)) is HostKeyUnknown


async def test_the_operator_is_asked_and_both_answers_count(fresh: Sshd) -> None:
    asked = []

    async def ask(unknown: HostKeyUnknown) -> bool:
        asked.append(unknown.fingerprint)
        return len(asked) > 1

    config = fresh.config(known=False)
    assert type(await refused(config, ask=ask)) is HostKeyUnknown
    await answers(config, ask=ask)
    await answers(config, ask=ask)
    assert asked == [fingerprint(fresh.host_key)] * 2


async def test_a_key_is_added_after_a_last_line_without_its_end(fresh: Sshd) -> None:
    config = fresh.config(known=False)
    other = make_key(fresh.folder / "other")
    fresh.known_hosts.write_text(f"elsewhere {public(other)}")
    await answers(config, trust=frozenset({fingerprint(fresh.host_key)}))
    assert fresh.known_hosts.read_text().splitlines() == [
        f"elsewhere {public(other)}",
        f"{fresh.address_in_file} {public(fresh.host_key)}",
    ]


async def test_a_changed_key_is_refused_in_other_words_whoever_says_yes(fresh: Sshd) -> None:
    other = make_key(fresh.folder / "other")
    fresh.known_hosts.write_text("# a comment\n")
    fresh.know(fresh.address_in_file, other)
    before = fresh.known_hosts.read_bytes()

    async def ask(unknown: HostKeyUnknown) -> bool:
        raise AssertionError("a changed key is nothing to ask about")

    error = await refused(fresh.config(known=False), ask=ask, trust=frozenset({fingerprint(fresh.host_key)}))
    assert type(error) is HostKeyChanged
    assert error.places == (f"{fresh.known_hosts}:2",)
    for part in (fingerprint(fresh.host_key), fingerprint(other), "REFUSED", f"{fresh.known_hosts}:2"):
        assert part in error.message
    assert "is new here" not in error.message
    assert "ssh-keygen -R" in error.remedy
    assert "--trust-host-key" not in str(error)
    assert fresh.known_hosts.read_bytes() == before


async def test_a_key_of_another_type_than_the_known_one_is_a_change(fresh: Sshd) -> None:
    fresh.know(fresh.address_in_file, make_key(fresh.folder / "ecdsa", "ecdsa"))
    assert type(await refused(fresh.config(known=False))) is HostKeyChanged


async def test_the_remedy_for_a_changed_key_works(fresh: Sshd) -> None:
    fresh.know(fresh.address_in_file, make_key(fresh.folder / "other"))
    config = fresh.config(known=False)
    error = await refused(config)
    removal = re.search(r"ssh-keygen .*", error.remedy)
    assert removal
    await asyncio.to_thread(subprocess.run, ["sh", "-c", removal[0]], check=True, capture_output=True)
    assert type(await refused(config)) is HostKeyUnknown


async def test_a_revoked_key_is_refused(fresh: Sshd) -> None:
    fresh.known_hosts.write_text(f"@revoked * {public(fresh.host_key)}\n")
    error = await refused(fresh.config(known=False), trust=frozenset({fingerprint(fresh.host_key)}))
    assert type(error) is HostKeyRevoked
    assert fingerprint(fresh.host_key) in error.message


async def test_hashed_names_aliases_and_authorities_are_understood(fresh: Sshd) -> None:
    fresh.know(fresh.address_in_file)
    hashing = ["ssh-keygen", "-q", "-H", "-f", str(fresh.known_hosts)]
    await asyncio.to_thread(subprocess.run, hashing, check=True, capture_output=True)
    assert fresh.known_hosts.read_text().startswith("|1|")
    await answers(fresh.config(known=False))
    fresh.known_hosts.write_text("")
    fresh.know("the-alias")
    await answers(fresh.config("HostKeyAlias the-alias", known=False))


async def test_a_host_certificate_is_believed_only_from_a_known_authority(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    authority = make_key(tmp_path / "authority")
    key = make_key(folder / "host_key")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "id", "-h", "-n", "127.0.0.1", f"{key}.pub"]
    await asyncio.to_thread(subprocess.run, sign, check=True)
    with serve(folder, f"HostCertificate {key}-cert.pub") as server:
        error = await refused(server.config(known=False))
        assert type(error) is HostKeyUnknown
        assert error.fingerprint == fingerprint(key)
        server.known_hosts.write_text(f"@cert-authority * {public(authority)}\n")
        await answers(server.config(known=False))


async def test_no_known_hosts_file_never_means_no_check(fresh: Sshd) -> None:
    nowhere = fresh.config("UserKnownHostsFile none", "StrictHostKeyChecking no", known=False)
    assert type(await refused(nowhere)) is HostKeyUnknown
    trusted = frozenset({fingerprint(fresh.host_key)})
    await answers(nowhere, trust=trusted)
    await answers(fresh.config("UserKnownHostsFile /dev/null", known=False), trust=trusted)


async def test_a_refused_key_tells_user_address_and_keys_tried(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "stranger")
    config = own_key(sshd, key)
    error = await refused(config)
    assert type(error) is AuthenticationFailed
    for part in (sshd.user, "spark-1", str(key), fingerprint(key), "publickey"):
        assert part in str(error)
    assert error.remedy.endswith(f"ssh-copy-id -F {config} {sshd.user}@spark-1")


async def test_the_clients_line_in_an_error_dials_what_the_profile_says(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "ssh config").write_text("Host far\n  HostName 127.0.0.1\n")
    declared = replace(spec("far"), port=port, user="nobody")
    with pytest.raises(Unreachable) as caught:
        await open_host(declared, ssh_config=f"{tmp_path}/ssh config").connect()
    assert f"`ssh -F '{tmp_path}/ssh config' -p {port} nobody@far` gets through" in caught.value.remedy


async def test_a_protected_key_outside_the_agent_is_named_and_nothing_hangs(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "protected", passphrase="a long secret")
    error = await refused(own_key(sshd, key))
    assert type(error) is AuthenticationFailed
    assert f"{key} is protected by a passphrase" in error.message
    assert "ssh-add" in error.remedy


async def test_a_missing_key_file_is_named(sshd: Sshd, tmp_path: Path) -> None:
    error = await refused(own_key(sshd, tmp_path / "absent"))
    assert type(error) is AuthenticationFailed
    assert f"{tmp_path}/absent does not exist" in error.message


async def test_a_protected_key_in_the_agent_lets_in(
    sshd: Sshd, tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "client"
    for end in ("", ".pub"):
        shutil.copy(f"{sshd.client_key}{end}", f"{key}{end}")
    agent.add(key)
    protect = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "a long secret", "-f", str(key)]
    await asyncio.to_thread(subprocess.run, protect, check=True, capture_output=True)
    for lines in ((), ("IdentitiesOnly yes",), ("IdentitiesOnly yes", f"IdentityAgent {agent.socket}")):
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent.socket) if len(lines) < 2 else "")
        await answers(own_key(sshd, key, *lines))


async def test_too_many_keys_in_the_agent_are_told_as_that(
    sshd: Sshd, tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [make_key(tmp_path / f"key-{n}") for n in range(7)]
    for key in keys:
        agent.add(key)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent.socket))
    error = await refused(sshd.config())
    assert type(error) is AuthenticationFailed
    assert "IdentitiesOnly" in error.remedy
    assert fingerprint(keys[0]) in error.message


async def test_a_closed_port_and_a_name_nobody_knows(sshd: Sshd) -> None:
    error = await refused(sshd.config(port=free_port(), known=False))
    assert type(error) is Unreachable
    assert "refused" in error.message.lower()
    error = await refused(sshd.config("HostName no-such-host.invalid"))
    assert type(error) is Unreachable


async def test_a_host_that_says_nothing_is_given_up_on(sshd: Sshd) -> None:
    async with link_to(sshd.port) as link:
        link.cut()
        error = await refused(sshd.config("ConnectTimeout 1", port=link.port, known=False))
    assert type(error) is Unreachable
    assert "within 1 s" in error.message


async def test_a_broken_ssh_config_is_told_with_its_line(sshd: Sshd, tmp_path: Path) -> None:
    broken = tmp_path / "config"
    broken.write_text("Host spark-1\n  Port twenty-two\n")
    error = await refused(str(broken))
    assert type(error) is HostConfigError
    assert f"{broken} line 2" in error.message
    assert type(await refused(str(tmp_path / "absent"))) is HostConfigError


def joined(*configs: str) -> str:
    """One config made of several."""
    file = Path(configs[0]).with_name("config-joined")
    file.write_text("".join(Path(config).read_text() for config in configs))
    return str(file)


@pytest.mark.parametrize("jumps", ["gate", "gate,gate", "ssh://gate"])
async def test_over_jump_hosts(sshd: Sshd, jumps: str) -> None:
    await answers(joined(sshd.config(name="gate"), sshd.config(f"ProxyJump {jumps}")))


async def test_a_jump_host_and_what_lies_behind_it_have_errors_of_their_own(sshd: Sshd, fresh: Sshd) -> None:
    behind = sshd.config("ProxyJump gate")
    error = await refused(joined(fresh.config(name="gate", known=False), behind))
    assert type(error) is HostKeyUnknown
    assert error.fingerprint == fingerprint(fresh.host_key)
    closed = sshd.config("ProxyJump gate", port=free_port())
    error = await refused(joined(sshd.config(name="gate"), closed))
    assert type(error) is Unreachable
    assert "over the jump host" in error.message


async def test_a_jump_that_leads_to_itself_ends(sshd: Sshd) -> None:
    error = await refused(sshd.config("ProxyJump spark-1"))
    assert type(error) is HostConfigError
    assert "ProxyJump" in error.remedy


async def test_a_proxy_command_that_is_missing_is_named(sshd: Sshd) -> None:
    error = await refused(sshd.config("ProxyCommand /no/such/program %h"))
    assert type(error) is Unreachable
    assert "No such file or directory (over ssh_config's ProxyCommand: /no/such/program 127." in error.message


async def test_user_and_port_of_the_profile_win(sshd: Sshd) -> None:
    config = sshd.config("Port 1", "User nobody-here")
    host = open_host(spec(user=sshd.user, port=sshd.port), ssh_config=config)
    await host.connect()
    await host.close()


async def test_a_pty_or_command_of_ssh_config_does_not_get_in_the_way(sshd: Sshd) -> None:
    await answers(sshd.config("RequestTTY force", "RemoteCommand echo other"))


def test_asyncssh_is_loaded_for_ssh_hosts_alone() -> None:
    program = (
        "import sys; from cockpit.hosts.factory import open_host\n"
        "from cockpit.model.profile import HostSpec, Role\n"
        "open_host(HostSpec('a', 'local', Role.HEAD)); assert 'asyncssh' not in sys.modules\n"
        "open_host(HostSpec('a', 'b', Role.HEAD)); assert 'asyncssh' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def own_key(server: Sshd, key: Path, *extra: str) -> str:
    """A config that offers ``key`` alone."""
    file = Path(server.config(*extra, name="spark-1"))
    file.write_text(file.read_text().replace(f"IdentityFile {server.client_key}", f"IdentityFile {key}"))
    return str(file)


class Agent:
    """An ssh-agent of the test's own."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    def add(self, key: Path) -> None:
        environment = os.environ | {"SSH_AUTH_SOCK": str(self.socket)}
        subprocess.run(["ssh-add", "-q", str(key)], check=True, env=environment, stdin=subprocess.DEVNULL)


@pytest.fixture
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A running agent."""
    socket = tmp_path_factory.mktemp("a") / "s"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield Agent(socket)
    process.terminate()
    process.wait()
    process.stdout.close()
