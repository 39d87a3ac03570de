"""A session whose hosts are this machine, with a home folder of its own each."""

from __future__ import annotations

import sys
from pathlib import Path

from cockpit.bringup.session import Session
from cockpit.hosts.factory import open_host
from cockpit.model.profile_yaml import parse
from cockpit.runtime.environment import environment

TEXT = """\
name: here
hosts:
  - {{name: spark-1, address: local, role: head}}
runtime: {{kind: native, venv: {venv}}}
serve:
  model: /models/none
  secrets: [HF_TOKEN]
"""


async def connected() -> Session:
    """``session_here``, connected."""
    session = session_here()
    await session.connect()
    return session


def session_here(venv: Path | None = None) -> Session:
    """A session of one host, which is this machine."""
    profile = parse(TEXT.format(venv=venv or sys.prefix).encode(), "here.yaml")
    secrets: dict[str, str] = {}
    hosts = {spec.name: open_host(spec, secrets=lambda: secrets) for spec in profile.hosts}
    return Session(profile, hosts, environment(profile), secrets=secrets)
