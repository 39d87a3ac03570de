"""Profiles as the tests of this room need them."""

from __future__ import annotations

from cockpit.model.profile import (
    Fabric,
    FlagValue,
    HostSpec,
    NativeRuntime,
    Place,
    Profile,
    Role,
    ServeSpec,
)

HEAD = HostSpec("spark-1", "10.0.0.1", Role.HEAD, Fabric("192.168.100.10", "enp1s0f1np1"))
WORKER = HostSpec("spark-2", "10.0.0.2", Role.WORKER, Fabric("192.168.100.11", "enp1s0f1np1"))


def profile(
    flags: dict[str, FlagValue] | None = None,
    *,
    hosts: tuple[HostSpec, ...] = (HEAD, WORKER),
    serve: ServeSpec | None = None,
    venv: str = "/opt/vllm",
) -> Profile:
    """A profile whose flags stand one a line from line 21 on, in column 5."""
    declared = flags or {}
    places = {("serve", "flags", name): Place("two.yaml", 21 + at, 5) for at, name in enumerate(declared)} | {
        ("serve", "flags"): Place("two.yaml", 20, 3),
        ("serve", "model"): Place("two.yaml", 19, 3),
    }
    return Profile(
        "two",
        hosts,
        NativeRuntime(venv),
        serve or ServeSpec("/models/big", "big", declared),
        file="two.yaml",
        digest="d" * 64,
        places=places,
    )
