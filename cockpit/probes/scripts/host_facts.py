"""Preflight's questions to a host: prints one line of JSON. Reads, and changes nothing.

Argument: JSON with ``ports`` (numbers), ``image`` ("" for none) and ``mounts`` (folders; a leading ~ is home).
Every program it asks has a time limit; what did not answer is told as such.
"""

import hashlib
import ipaddress
import json
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from cockpit.runtime.scripts.processes import cluster

LIMIT = 10.0
LONGEST = 400


def call(*argv: str) -> dict[str, Any]:
    """Status (None without one), output and error of a program."""
    try:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return {"status": None, "missing": missing, "output": "", "error": f"{argv[0]}: {error.strerror}"}
    try:
        output, errors = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()  # and not waited for: in a hung driver it never ends
        told = f"{argv[0]} has not answered for {LIMIT:.0f} s"
        return {"status": None, "missing": False, "output": "", "error": told}
    text = errors.decode("utf-8", "replace").strip() or output.decode("utf-8", "replace").strip()
    return {
        "status": child.returncode,
        "missing": False,
        "output": output.decode("utf-8", "replace"),
        "error": text[:LONGEST] if child.returncode else "",
    }


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
    answer = call("nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader")
    rows = [line.split(", ", 1) for line in answer.pop("output").splitlines()]
    answer["gpus"] = [row for row in rows if len(row) == 2]
    return answer


def cuda() -> str:
    """The newest CUDA that the driver can do, "" where nvidia-smi doesn't say (a line ``CUDA Version : 13.0``)."""
    for line in call("nvidia-smi", "--version")["output"].splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "CUDA Version":
            return str(value.split()[0]) if value.split() else ""
    return ""


def docker(image: str) -> dict[str, Any]:
    """Whether the engine answers, and the image."""
    engine = call("docker", "version", "--format", "{{.Server.Version}}")
    if engine["status"] != 0:
        return {"engine": engine, "image": None}
    found = call("docker", "image", "inspect", "--", image)
    if found["status"] != 0:
        return {"engine": engine, "image": {"id": "", "error": found["error"]}}
    about = json.loads(found["output"])[0]
    return {
        "engine": engine,
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
    facts: dict[str, Any] = {}
    slow = [threading.Thread(target=lambda: facts.update(gpu=gpus()))]
    slow.append(threading.Thread(target=lambda: facts.update(cuda=cuda())))
    if asked["image"]:
        slow.append(threading.Thread(target=lambda: facts.update(docker=docker(asked["image"]))))
    for thread in slow:
        thread.start()
    facts["system"] = system()
    facts["missing"] = missing(asked["mounts"])
    facts["listeners"] = listeners(asked["ports"])
    for thread in slow:
        thread.join()
    print(json.dumps(facts), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
