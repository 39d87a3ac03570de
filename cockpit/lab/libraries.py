"""The shared libraries of the system that the lab's wheels need and a small machine may lack.

Wheels carry most of what they need. vLLM's CPU build (0.32.0, ``vllm/_C.abi3.so``) needs libnuma of the system
all the same: without it vLLM says so in a warning, and its engine dies later of an operator that is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cockpit.lab.errors import LabError, Progress

LIBRARY = "libnuma.so.1"
PACKAGE = "libnuma1"
"""The package that holds it on Debian and Ubuntu."""

_OTHERS = "sudo apt-get install libnuma1 (Fedora: sudo dnf install numactl-libs; Arch: sudo pacman -S numactl)"
_LOAD = (
    "import ctypes, os, sys; p = os.path.join(sys.prefix, 'lib', 'spark-cockpit', {0!r}); "
    "os.path.exists(p) and ctypes.CDLL(p, mode=ctypes.RTLD_GLOBAL)\n"
)
"""The loader takes a library by its name where one of that name is loaded already."""


def ensure(venv: Path, packages: Path, progress: Progress) -> None:
    """Let the environment's processes find the library: the system's own, or a copy in ``venv``.

    ``packages`` is its site-packages folder. Nothing outside ``venv`` is changed. Raises ``LabError``.
    """
    if loads(venv):
        return
    progress(f"Fetching {LIBRARY}, which this machine lacks", None, None)
    target = venv / "lib" / "spark-cockpit"
    target.mkdir(parents=True, exist_ok=True)
    fetch(target)
    (packages / "spark_cockpit_libraries.pth").write_text(_LOAD.format(LIBRARY))
    if not loads(venv):
        raise LabError(
            f"{LIBRARY} was fetched to {target} and can't be loaded there.", remedy=f"Install it: {_OTHERS}"
        )


def loads(venv: Path) -> bool:
    """Whether a process of the environment gets the library."""
    argv = (str(venv / "bin" / "python"), "-c", f"import ctypes; ctypes.CDLL({LIBRARY!r})")
    try:
        return subprocess.run(argv, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def fetch(target: Path) -> None:
    """Put the library of the system's own package into ``target``, with apt and no root. Raises ``LabError``.

    apt gets folders of its own for what it knows and fetches, so it needs no right on the system's, and works
    where the system's lists were removed; the package's signature is checked by the system's keys.
    """
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        raise LabError(
            f"vLLM's CPU build needs {LIBRARY}, and this machine has none.", remedy=f"Install it: {_OTHERS}"
        )
    with tempfile.TemporaryDirectory(prefix="spark-cockpit-") as name:
        folder = Path(name)
        for each in ("state/lists/partial", "cache/archives/partial"):
            (folder / each).mkdir(parents=True)
        own = ("-o", f"Dir::State={folder / 'state'}", "-o", f"Dir::Cache={folder / 'cache'}")
        apt = ("apt-get", "-qq", *own, "-o", "Debug::NoLocking=true")
        _run((*apt, "update"), folder)
        _run((*apt, "download", PACKAGE), folder)
        (package,) = folder.glob(f"{PACKAGE}_*.deb")
        _run(("dpkg-deb", "-x", str(package), str(folder / "unpacked")), folder)
        (found,) = (folder / "unpacked").rglob(LIBRARY)
        fresh = target / f".{LIBRARY}.new"
        shutil.copyfile(found.resolve(), fresh)
        fresh.replace(target / LIBRARY)


def _run(argv: tuple[str, ...], folder: Path) -> None:
    late: subprocess.TimeoutExpired | None = None
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired as error:
        said, late = "it had not ended after 300 s", error
    else:
        if done.returncode == 0:
            return
        said = done.stderr.strip() or f"status {done.returncode}"
    raise LabError(
        f"vLLM's CPU build needs {LIBRARY}, this machine has none, and it can't be fetched: "
        f"{' '.join(argv)}: {said}",
        remedy=f"Install it: {_OTHERS}",
    ) from late
