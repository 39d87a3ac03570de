"""Preflight's questions to a host: prints one line of JSON. Reads, and changes nothing.

Argument: JSON with ``ports`` (numbers), ``image`` ("" for none) and ``mounts`` (folders; a leading ~ is home).
Every program it asks has a time limit; what did not answer is told as such.
"""

import hashlib
import ipaddress
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cockpit.runtime.scripts.processes import cluster
from cockpit.runtime.scripts.programs import LONGEST, Said, at_once, call

LIMIT = 10.0


def system() -> dict[str, str]:
    """Kernel, architecture and distribution."""
    release = {}
    try:
        for line in Path("/etc/os-release").read_text().splitlines():
            key, _, value = line.partition("=")
            release[key] = value.strip('"')
    except OSError:
        pass
    return {
        "kernel": platform.release(),
        "arch": platform.machine(),
        "os": release.get("PRETTY_NAME", platform.system()),
        "user": os.environ.get("USER") or str(os.getuid()),
    }


def gpus() -> dict[str, Any]:
    """Name and driver of each GPU."""
    said = call("nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader", limit=LIMIT)
    rows = [line.split(", ", 1) for line in said.output.splitlines()]
    return {"gpus": [row for row in rows if len(row) == 2], "error": said.error, "missing": said.missing}


def cuda() -> str:
    """The newest CUDA that the driver can do, "" where nvidia-smi doesn't say (a line ``CUDA Version : 13.0``)."""
    for line in call("nvidia-smi", "--version", limit=LIMIT).output.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "CUDA Version":
            return str(value.split()[0]) if value.split() else ""
    return ""


def docker(image: str) -> dict[str, Any]:
    """Whether the engine answers, and the image."""
    answers: list[Said] = at_once(
        lambda: call("docker", "version", "--format", "{{.Server.Version}}", limit=LIMIT),
        lambda: call("docker", "image", "inspect", "--", image, limit=LIMIT),
    )
    engine, found = answers
    told = {"output": engine.output, "error": engine.error, "missing": engine.missing}
    if engine.status != 0:
        return {"engine": told, "image": None}
    if found.status != 0:
        return {"engine": told, "image": {"id": "", "error": found.error}}
    about = json.loads(found.output)[0]
    return {
        "engine": told,
        "image": {
            "id": about.get("Id", ""),
            "digests": sorted(digest.partition("@")[2] for digest in about.get("RepoDigests") or []),
            "layers": (about.get("RootFS") or {}).get("Layers") or [],
            "arch": about.get("Architecture", ""),
            "size": about.get("Size", 0),
            "config": config(about.get("Config") or {}),
            "error": "",
        },
    }


def config(found: dict[str, Any]) -> str:
    """A digest of what the image starts with: two of the same layers can differ in their environment."""
    kept = {name: found.get(name) or None for name in ("Env", "Entrypoint", "Cmd", "User", "WorkingDir")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def missing(mounts: list[str]) -> list[str]:
    """Those of the folders that are not there."""
    return [mount for mount in mounts if not Path(mount).expanduser().exists()]


def address(text: str) -> str:
    """An address of /proc/net/tcp: hexadecimal words in the machine's byte order."""
    words = [bytes.fromhex(text[index : index + 8]) for index in range(0, len(text), 8)]
    raw = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    parsed = ipaddress.ip_address(raw)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)


def listeners(ports: list[int]) -> list[dict[str, Any]]:
    """Who listens on the ports; the process only where this user may see it."""
    found: dict[str, dict[str, Any]] = {}
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            where, _, port = fields[1].rpartition(":")
            if fields[3] == "0A" and int(port, 16) in ports:
                row = {"port": int(port, 16), "address": address(where), "pid": None, "name": "", "cluster": ""}
                found[fields[9]] = row
    if found:
        name_holders(found)
    return sorted(found.values(), key=lambda row: (row["port"], row["address"]))


def link(path: Path) -> str:
    """Where a link points, "" when it is gone by now."""
    try:
        return str(path.readlink())
    except OSError:
        return ""


def name_holders(found: dict[str, dict[str, Any]]) -> None:
    """Put the processes to the sockets' inodes."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            links = [link(path) for path in (folder / "fd").iterdir()]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        for target in links:
            row = found.get(target[8:-1]) if target.startswith("socket:[") else None
            if row is not None and row["pid"] is None:
                row["pid"], row["name"] = int(folder.name), command[:LONGEST]
                row["cluster"] = cluster(int(folder.name))


def main(asked: dict[str, Any]) -> None:
    """Ask everything, what may take long at once."""
    questions: dict[str, Callable[[], Any]] = {
        "gpu": gpus,
        "cuda": cuda,
        "system": system,
        "missing": lambda: missing(asked["mounts"]),
        "listeners": lambda: listeners(asked["ports"]),
    }
    if asked["image"]:
        questions["docker"] = lambda: docker(asked["image"])
    facts = dict(zip(questions, at_once(*questions.values()), strict=True))
    print(json.dumps(facts), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
