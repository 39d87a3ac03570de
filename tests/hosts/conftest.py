"""One sshd for each test module, and hosts of both kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from cockpit.hosts.factory import open_host
from cockpit.hosts.host import Host
from tests.hosts.sshd import Sshd, serve, spec


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's agent stays out of the tests."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server shared by a module's tests."""
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
async def ssh_host(sshd: Sshd) -> AsyncIterator[Host]:
    """A connected host by SSH."""
    host = open_host(spec(), ssh_config=sshd.config())
    await host.connect()
    yield host
    await host.close()


@pytest.fixture(params=["ssh", "local"])
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    """A connected host, by SSH and on this machine: both hold the same contract."""
    if request.param == "ssh":
        server: Sshd = request.getfixturevalue("sshd")
        made = open_host(spec(), ssh_config=server.config())
    else:
        made = open_host(spec("local"))
    await made.connect()
    yield made
    await made.close()
