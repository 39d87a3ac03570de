"""Processes and shared memory of a host, as /proc tells them. Runs with the standard library of Python 3.10."""

from pathlib import Path

RANKS = ("VLLM::", "ray::RayWorkerProc", "ray::RayWorkerWrapper")
"""How the titles of vLLM's engines and ranks begin (vLLM 0.32.0)."""

UNIT = "SPARK_COCKPIT_UNIT="
"""The cockpit's mark in the environment of all that it starts: behind it stands the unit's folder."""


def read(path: "str | Path") -> bytes:
    """A file, empty where it can't be read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def text(path: "str | Path") -> str:
    """A file's text, empty where it can't be read."""
    return read(path).decode("utf-8", "replace")


def table() -> "dict[int, tuple[int, int]]":
    """Parent and start time of every living process."""
    found = {}
    for folder in Path("/proc").iterdir():
        fields = read(folder / "stat").rpartition(b") ")[2].split() if folder.name.isdigit() else []
        if len(fields) > 19 and fields[0] != b"Z":
            found[int(folder.name)] = (int(fields[1]), int(fields[19]))
    return found


def title(pid: int) -> str:
    """The command line, as the process shows it."""
    return text(f"/proc/{pid}/cmdline").replace("\0", " ").strip()


def descendants(processes: "dict[int, tuple[int, int]]", roots: "set[int]") -> "set[int]":
    """The roots and all below them."""
    found, more = set(roots), set(roots)
    while more:
        more = {pid for pid, (parent, _) in processes.items() if parent in found} - found
        found |= more
    return found


def alive(record: bytes, processes: "dict[int, tuple[int, int]]") -> int:
    """The process that a file of a unit names ("PID START ..."), 0 where that very one does not run."""
    words = record.split()[:2]
    if len(words) < 2 or not all(word.isdigit() for word in words):
        return 0
    pid, began = int(words[0]), int(words[1])
    return pid if processes.get(pid, (0, -1))[1] == began else 0


def units(pid: int) -> "list[str]":
    """The units' folders that the environment of a process is marked with."""
    words = text(f"/proc/{pid}/environ").split("\0")
    return [word[len(UNIT) :] for word in words if word.startswith(UNIT)]


def cluster(pid: int) -> str:
    """The profile whose cockpit started a process, "" for none: a unit's folder is ``.../spark-cockpit/PROFILE/...``.
    A rank that sets its title may have written over its own environment: then an ancestor's tells."""
    for _ in range(12):
        for unit in units(pid):
            # In a container the state folder is /spark-cockpit itself, and tells no profile.
            if "/spark-cockpit/" in unit and not unit.startswith("/spark-cockpit/"):
                return unit.rpartition("/spark-cockpit/")[2].partition("/")[0]
        fields = read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
        if len(fields) < 2 or int(fields[1]) < 2:
            return ""
        pid = int(fields[1])
    return ""


def shared_memory(pids: "set[int]") -> "set[str]":
    """The files of /dev/shm that these processes have open or mapped, where that may be seen."""
    found = set()
    for pid in pids:
        lines = text(f"/proc/{pid}/maps").splitlines()
        found |= {line.split(None, 5)[-1] for line in lines if "/dev/shm/" in line}
        try:
            links = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
        for link in links:
            try:
                found.add(str(link.readlink()))
            except OSError:
                continue  # closed meanwhile
    return {path.removesuffix(" (deleted)") for path in found if path.startswith("/dev/shm/")}
