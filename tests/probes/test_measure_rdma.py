"""RDMA's measurement. There is no RDMA here: ib_write_bw is a stand-in that meets its other end over TCP and prints
what perftest prints (perftest_parameters.h: RESULT_FMT_G)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.hosts.local import LocalHost
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes import checks_fabric
from cockpit.probes.measure_rdma import End, parse, rdma_bandwidth
from cockpit.runtime.environment import environment

from .test_fabric import asked as asked_fabric
from .test_fabric import device
from .test_measure import pair

TABLE = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : rocep1s0f1
 GID index       : 3
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      351234           0.00               @RATE@              0.176564
---------------------------------------------------------------------------------------
"""

STAND_IN = """\
#!/usr/bin/python3
# A stand-in for perftest's ib_write_bw.
import socket, sys
port = int(sys.argv[sys.argv.index("-p") + 1])
assert sys.argv[sys.argv.index("-x") + 1] == "3" and "--report_gbits" in sys.argv
if sys.argv[-1].startswith("127."):
    for _ in range(50):
        try:
            socket.create_connection((sys.argv[-1], port)).close()
            break
        except OSError:
            import time; time.sleep(0.1)
    else:
        sys.exit("Couldn't connect to " + sys.argv[-1])
    print('''@TABLE@''')
else:
    socket.create_server(("", port)).accept()
"""


async def measured(folder: Path, monkeypatch: pytest.MonkeyPatch, rate: str) -> Verdict:
    """The verdict with a tool that says ``rate``; "" for no tool."""
    if rate:
        tool = folder / "ib_write_bw"
        tool.write_text(STAND_IN.replace("@TABLE@", TABLE.replace("@RATE@", rate)))
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    profile = pair()
    hosts = {spec.name: LocalHost(spec) for spec in profile.hosts}
    for host in hosts.values():
        await host.connect()
    ends = [End(spec, "rocep1s0f1", 3) for spec in profile.hosts]
    try:
        return await rdma_bandwidth(hosts, environment(profile), *ends)
    finally:
        for host in hosts.values():
            await host.close()


async def test_a_port_as_it_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = await measured(tmp_path, monkeypatch, "92.57")
    assert (verdict.grade, verdict.hosts) == (Grade.READY, ("one", "two")), verdict
    assert verdict.observed == "RDMA write, one rocep1s0f1 to two rocep1s0f1: 92.6 Gb/s."


async def test_a_port_that_is_short_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = await measured(tmp_path, monkeypatch, "12.70")
    assert verdict.grade is Grade.SLOW and "12.7 Gb/s" in verdict.observed and verdict.why and verdict.remedy


async def test_without_the_tool_or_a_figure_it_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = await measured(tmp_path, monkeypatch, "")
    assert verdict.grade is Grade.UNKNOWN and "apt install perftest" in verdict.remedy
    verdict = await measured(tmp_path, monkeypatch, "nan%")
    assert verdict.grade is Grade.UNKNOWN and "could not be measured" in verdict.observed


def test_the_device_with_the_fabrics_address_is_measured() -> None:
    ends = checks_fabric.rdma_ends(asked_fabric(rdma=(device(1),)))
    assert {name: (end.device, end.gid) for name, end in ends.items()} == {"two": ("rocep1s0f1", 3)}


@pytest.mark.parametrize("text", ["", "#bytes", " #bytes BW average[Gb/sec]\n", "#bytes [Gb/sec]\n1 2 3 x"])
def test_no_table_is_no_figure(text: str) -> None:
    assert parse(text) is None
