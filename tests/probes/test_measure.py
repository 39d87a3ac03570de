"""The throughput's measurement: real bytes over loopback, and what is said when none get through."""

from __future__ import annotations

import json
import re

from cockpit.hosts.local import LocalHost
from cockpit.model.profile import Profile
from cockpit.model.profile_yaml import parse
from cockpit.model.verdict import Grade
from cockpit.probes.measure import throughput
from cockpit.runtime.environment import environment


def pair(receiver: str = "127.12.0.2") -> Profile:
    """Two names of this machine."""
    hosts = [
        {"name": "one", "address": "local", "role": "head", "fabric": {"address": "127.12.0.1"}},
        {"name": "two", "address": "two", "role": "worker", "fabric": {"address": receiver}},
    ]
    runtime = {"kind": "native", "venv": "/opt/none"}
    text = {"name": "pair", "hosts": hosts, "runtime": runtime, "serve": {"model": "/m"}}
    return parse(json.dumps(text).encode(), "pair.yaml")


async def test_real_bytes_are_counted() -> None:
    profile = pair()
    hosts = {spec.name: LocalHost(spec) for spec in profile.hosts}
    for host in hosts.values():
        await host.connect()
    one, two = profile.hosts
    verdict = await throughput(hosts, environment(profile), one, two)
    assert verdict.hosts == ("one", "two")
    assert verdict.grade in (Grade.READY, Grade.SLOW), verdict
    rate = re.search(r"4 streams, one to two: ([\d.]+) Gb/s", verdict.observed)
    assert rate is not None and float(rate[1]) > 0.1
    for host in hosts.values():
        await host.close()


async def test_an_address_that_is_not_there_is_unknown() -> None:
    profile = pair("192.0.2.77")
    hosts = {spec.name: LocalHost(spec) for spec in profile.hosts}
    for host in hosts.values():
        await host.connect()
    one, two = profile.hosts
    verdict = await throughput(hosts, environment(profile), one, two)
    assert (verdict.grade, verdict.id) == (Grade.UNKNOWN, "throughput")
    for host in hosts.values():
        await host.close()
