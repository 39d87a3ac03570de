"""Preflight's questions about a host's resources: prints one line of JSON. Reads, and changes nothing.

Argument: JSON with ``folders`` (whose free space matters; a leading ~ is home), ``image`` ("" for none), ``model``
(a folder or an id of the hub) and ``root`` ("" for /): where /proc, /sys and /etc are looked for, for tests.
"""

import itertools
import json
import os
import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

from cockpit.runtime.scripts.hub import model_folder
from cockpit.runtime.scripts.processes import RANKS, cluster, shared_memory, table, text
from cockpit.runtime.scripts.programs import at_once, call

LIMIT = 8.0
GPU_FIELDS = "persistence_mode,clocks_event_reasons.active,temperature.gpu"
MOST = 20
HUB_LINE = r"""^\s*(?:export\s+)?(HF_HOME|HF_HUB_CACHE)=["']?([^"'\s#;]+)"""


def memory(root: Path) -> "dict[str, int]":
    """/proc/meminfo in bytes."""
    found = {}
    for line in text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found


def disks(folders: "list[str]") -> "list[dict[str, Any]]":
    """Size and free space of the file systems that hold the folders, each once."""
    found: dict[int, dict[str, Any]] = {}
    for folder in folders:
        path = Path(folder).expanduser()
        while not path.exists() and path != path.parent:
            path = path.parent
        try:
            about, device = os.statvfs(path), path.stat().st_dev
        except OSError:
            continue
        size, free = about.f_blocks * about.f_frsize, about.f_bavail * about.f_frsize
        row = found.setdefault(device, {"path": folder, "size": size, "free": free, "folders": []})
        row["folders"] += sorted({folder, str(Path(folder).expanduser())})
    return list(found.values())


def engines() -> "list[dict[str, Any]]":
    """Engines and ranks of vLLM that run, whoever started them."""
    found: list[dict[str, Any]] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        words = text(folder / "cmdline").split("\0")
        title = " ".join(words).strip()
        serve = any(Path(one).name == "vllm" and two == "serve" for one, two in itertools.pairwise(words[:4]))
        if serve or title.startswith(RANKS):
            pages = [*text(folder / "statm").split(), "0", "0"][1]
            try:
                owner = folder.stat().st_uid
            except OSError:
                continue
            size = int(pages) * os.sysconf("SC_PAGE_SIZE")
            row = {"pid": int(folder.name), "uid": owner, "bytes": size, "name": title[:200]}
            found.append({**row, "cluster": cluster(int(folder.name))})
    return sorted(found, key=lambda row: row["pid"])[:MOST]


def left_memory() -> "dict[str, Any]":
    """/dev/shm, and what in it is this user's and held by nobody."""
    about = os.statvfs("/dev/shm")
    held = shared_memory(set(table()))
    left = []
    for path in Path("/dev/shm").iterdir():
        try:
            about_file = path.stat()
        except OSError:
            continue
        if path.is_file() and about_file.st_uid == os.getuid() and str(path) not in held:
            left.append((about_file.st_blocks * 512, str(path)))
    left.sort(reverse=True)
    return {
        "size": about.f_blocks * about.f_frsize,
        "left": sum(size for size, _ in left),
        "names": [name for _, name in left[:MOST]],
    }


def gpu_states() -> "list[list[str]]":
    """Persistence, reasons of the clocks and temperature of each GPU, in nvidia-smi's words."""
    said = call("nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv,noheader", limit=LIMIT)
    return [line.split(", ") for line in said.output.splitlines()] if said.status == 0 else []


def has_sudo() -> bool:
    """Whether root can be had without a password."""
    return os.getuid() == 0 or call("sudo", "-n", "true", limit=LIMIT).status == 0


def compute_memory() -> "int | None":
    """Bytes that all compute processes hold together, None where nvidia-smi doesn't tell."""
    fields = ("--query-compute-apps=used_memory", "--format=csv,noheader,nounits")
    said = call("nvidia-smi", *fields, limit=LIMIT)
    words = said.output.split()
    return sum(map(int, words)) << 20 if said.status == 0 and all(word.isdigit() for word in words) else None


def cdi(root: Path) -> "list[list[str]]":
    """The container device interface's files, and the driver version in the names of the libraries they list."""
    found = []
    for folder in ("etc/cdi", "var/run/cdi"):
        for path in sorted((root / folder).glob("*nvidia*")):
            for word in text(path).replace('"', " ").split():
                _, mark, number = word.rpartition("libcuda.so.")
                if mark and number.count(".") >= 1 and number.replace(".", "").isdigit():
                    found.append(["/" + str(path.relative_to(root)), number])
                    break
    return found


def running_containers(image: str) -> "list[list[str]]":
    """The containers that run: id, name, image, the cockpit's label."""
    if not image:
        return []
    label = '{{.Label "org.spark-cockpit.cluster"}}'
    form = "{{.ID}}\t{{.Names}}\t{{.Image}}\t" + label
    said = call("docker", "ps", "--format", form, limit=LIMIT)
    rows = said.output.splitlines() if said.status == 0 else []
    return [line.split("\t")[:4] for line in rows if line.count("\t") >= 3]


def set_in_files() -> "list[dict[str, str]]":
    """What the files that a log-in reads say of the hub's cache: a command by SSH reads none of them."""
    found = []
    for file in ("~/.bashrc", "~/.profile", "~/.bash_profile", "~/.zshrc", "/etc/environment"):
        for name, value in re.findall(HUB_LINE, text(Path(file).expanduser()), re.MULTILINE):
            found.append({name: value.replace("$HOME", "~").replace("${HOME}", "~")})
    return found


def kept_models(name: str) -> "list[str]":
    """Where this host has the model, whatever its runtime reads: folders with a configuration and weights."""
    if "://" in name or not name:
        return []
    folders = [Path(name)]
    if not name.startswith("/"):
        folders = [model_folder(name, env) for env in (dict(os.environ), {}, *set_in_files())]
    kept = {str(folder): [folder, *folder.glob("snapshots/*")] for folder in folders}
    return [path for path, places in kept.items() if any(map(has_weights, places))][:MOST]


def has_weights(folder: Path) -> bool:
    """Whether a folder has a configuration and at least one file of weights."""
    names = ("*.safetensors", "*.bin", "*.gguf")
    return (folder / "config.json").is_file() and any(
        path.is_file() for kind in names for path in folder.glob(kind)
    )


def main(asked: "dict[str, Any]") -> None:
    """Print the answer."""
    root = Path(asked.get("root") or "/")
    gpus, gpu_memory, containers, sudo = at_once(
        gpu_states, compute_memory, lambda: running_containers(asked["image"]), has_sudo
    )
    facts = {
        "at": time.time(),
        "memory": memory(root),
        "disks": disks(asked["folders"]),
        "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "engines": engines(),
        "shm": left_memory(),
        "gpus": gpus,
        "gpu_memory": gpu_memory,
        "driver": text(root / "proc/driver/nvidia/version").partition("\n")[0].partition("NVRM version: ")[2],
        "cdi": cdi(root),
        "containers": containers,
        "sudo": sudo,
        "models": kept_models(asked["model"]),
    }
    print(json.dumps(facts), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
