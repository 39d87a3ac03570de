"""A model's files on this host: lists them, or compares them with another host's list. Changes nothing.

Standard input: JSON with ``folder`` (a leading ~ is home) and ``address`` (this host's on the fabric), and for a
comparison ``files``. A file is [path, size, link, sum]: ``link`` is where a symbolic link leads ("" for a file),
``sum`` what the hub says of the contents: ``sha256:`` (large files) or ``git:`` (small ones, as git names a blob).
The hub's cache names a blob by it (huggingface_hub, file_download.py); a download into a folder keeps it in the
second line of .cache/huggingface/download/FILE.metadata (_local_folder.py).
"""

import hashlib
import json
import os
import re
import shutil
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
CHUNK = 4 << 20
THREADS = 4


def summed(word: str) -> str:
    """The hub's name for a blob as a sum, "" for anything else."""
    if not HEX.fullmatch(word):
        return ""
    return ("sha256:" if len(word) == 64 else "git:") + word


def known_sum(root: Path, path: Path) -> str:
    """What the hub says of a file's contents."""
    if path.parent.name == "blobs":
        return summed(path.name)
    try:
        note = root / ".cache/huggingface/download" / (str(path.relative_to(root)) + ".metadata")
        return summed(note.read_text().splitlines()[1].strip())
    except (OSError, IndexError):
        return ""


def walk(root: Path) -> "tuple[list[list[Any]], list[str]]":
    """Every file and link below ``root``, and the links that lead out of it."""
    found: list[list[Any]] = []
    outside: list[str] = []
    for folder, folders, names in os.walk(root):
        for name in (*names, *(one for one in folders if Path(folder, one).is_symlink())):
            path = Path(folder, name)
            relative = str(path.relative_to(root))
            if name.endswith(".incomplete"):
                continue
            if path.is_symlink():
                target = str(path.readlink())
                end = Path(os.path.normpath(Path(folder, target)))
                if Path(target).is_absolute() or root not in end.parents:
                    outside.append(relative)
                found.append([relative, 0, target, ""])
            elif path.is_file():
                found.append([relative, path.stat().st_size, "", known_sum(root, path)])
    return sorted(found), outside


def free_port(address: str) -> int:
    """A port that nobody has right now; 0 where the address is not this host's."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as trial:
            trial.bind((address, 0))
            return int(trial.getsockname()[1])
    except OSError:
        return 0


def contents(path: Path, kind: str, tell: "Any") -> str:
    """The sum of a file's contents."""
    digest = hashlib.sha256() if kind == "sha256" else hashlib.sha1()
    if kind == "git":
        digest.update(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            digest.update(data)
            tell(len(data))
    return digest.hexdigest()


def compare(root: Path, wanted: "list[list[Any]]") -> "dict[str, Any]":
    """What of the list is not here, or is not the same."""
    missing, differs, to_sum = [], [], []
    for relative, size, link, known in wanted:
        path = root / relative
        if link:
            same = path.is_symlink() and str(path.readlink()) == link
        else:
            same = path.is_file() and not path.is_symlink() and path.stat().st_size == size
        if not os.path.lexists(path):
            missing.append(relative)
        elif not same:
            differs.append(relative)
        elif known:
            to_sum.append((relative, size, known))
    differs += sums(root, to_sum)
    return {"missing": missing, "differs": differs, "summed": len(to_sum), "end": True}


def sums(root: Path, files: "list[tuple[str, int, str]]") -> "list[str]":
    """Those whose contents are not what the hub says; how far it is, as a line twice a second."""
    total, done, lock = sum(size for _, size, _ in files), 0, threading.Lock()
    wrong: list[str] = []
    ended = threading.Event()

    def add(count: int) -> None:
        nonlocal done
        with lock:
            done += count

    def judge(file: "tuple[str, int, str]") -> None:
        relative, _, known = file
        kind, _, value = known.partition(":")
        try:
            if contents(root / relative, kind, add) != value:
                wrong.append(relative)
        except OSError:
            wrong.append(relative)

    def report() -> None:
        while not ended.wait(0.5):
            print(json.dumps({"done": done, "total": total}), flush=True)

    reporter = threading.Thread(target=report)
    reporter.start()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(judge, files))
    ended.set()
    reporter.join()
    return sorted(wrong)


def main() -> None:
    """Print the answer."""
    asked = json.load(sys.stdin)
    root = Path(asked["folder"]).expanduser()
    root = Path(os.path.realpath(root)) if root.exists() else root
    if "files" in asked:
        print(json.dumps(compare(root, asked["files"])), flush=True)
        return
    files, outside = walk(root)
    there = root
    while not there.exists():
        there = there.parent
    about = os.statvfs(there)
    answer = {
        "folder": str(root),
        "exists": root.is_dir(),
        "writable": os.access(there, os.W_OK),
        "at": str(there),
        "free": about.f_bavail * about.f_frsize,
        "rsync": bool(shutil.which("rsync")),
        "port": free_port(asked["address"]),
        "files": files,
        "outside": outside,
    }
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
