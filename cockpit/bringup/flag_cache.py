"""The flags of vLLMs that were asked once, kept on this machine: a file an installed vLLM."""

from __future__ import annotations

import json
import os
import re
import tempfile
from hashlib import sha256
from pathlib import Path

import platformdirs

from cockpit.bringup.profiles import APP
from cockpit.model.profile import DockerRuntime, Profile
from cockpit.serving.schema import Schema, read_schema
from cockpit.serving.schema_shipped import shipped

_DIGEST = re.compile(r"[0-9a-f]{16,64}")


def folder() -> Path:
    """Where they are kept: below XDG_CACHE_HOME on Linux."""
    return platformdirs.user_cache_path(APP, appauthor=False) / "schemas"


def declared(profile: Profile) -> str:
    """What a profile says of its runtime: all there is to go by while it can't be asked."""
    runtime = profile.runtime
    if isinstance(runtime, DockerRuntime):
        return f"docker {runtime.image}"
    return f"native {profile.head.address} {runtime.venv}"


def load(identity: str) -> Schema | None:
    """The flags of the vLLM with this identity; None where they are not kept, or the file is damaged."""
    if not _DIGEST.fullmatch(identity):
        return None
    try:
        return read_schema(json.loads((folder() / f"{identity}.json").read_text()))
    except (OSError, ValueError):
        return None


def save(profile: Profile, identity: str, schema: Schema) -> None:
    """Keep the flags of the profile's vLLM. That they can't be kept (a full disk) is no reason to fail: they
    are asked for again."""
    if not _DIGEST.fullmatch(identity):
        return
    try:
        _write(folder() / f"{identity}.json", json.dumps(schema.to_json()))
        _write(_pointer(profile), identity)
    except OSError:
        return


def last_known(profile: Profile) -> Schema | None:
    """The flags that a runtime declared like the profile's gave last."""
    try:
        return load(_pointer(profile).read_text().strip())
    except OSError:
        return None


def offline(profile: Profile) -> Schema:
    """The flags to go by where the runtime can't be asked: its own of an earlier time, else the shipped ones
    of the version that the image's tag names, else those of the newest."""
    kept = last_known(profile)
    if kept is not None:
        return kept
    runtime = profile.runtime
    tag = runtime.image.rpartition("/")[2].partition(":")[2] if isinstance(runtime, DockerRuntime) else ""
    # NVIDIA's tags (25.11-py3) are dates, not vLLM's versions.
    named = re.match(r"v?(0\.\d+(\.\d+)?)", tag)
    return shipped(named[1] if named else "")


def _pointer(profile: Profile) -> Path:
    return folder() / "declared" / sha256(declared(profile).encode()).hexdigest()[:32]


def _write(path: Path, text: str) -> None:
    """Whole or not at all: another cockpit may be reading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
