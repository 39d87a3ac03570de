"""The lab's model, made on the spot and kept beside the environment."""

from __future__ import annotations

import hashlib
import importlib.resources
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from cockpit.lab import folders
from cockpit.lab.environment import Environment
from cockpit.lab.errors import LabError, Progress

_LIMIT = 300.0


def ensure(environment: Environment, progress: Progress) -> Path:
    """The model's folder, made by the environment's Python where there is none yet. Raises ``LabError``."""
    source = importlib.resources.files("cockpit.lab").joinpath("tiny_model.py").read_text()
    folder = folders.cache() / f"model-{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    lock = folder.with_name(f"{folder.name}.lock")
    with folders.locked(lock, lambda: progress("Waiting for another to make the model", None, None)) as hold:
        if not folder.exists():
            progress("Making the lab's model: a small random Qwen3 in four shards", None, None)
            with tempfile.TemporaryDirectory(prefix="model-", dir=folder.parent) as place:
                _make(environment, source, Path(place) / "tiny", hold)
                (Path(place) / "tiny").replace(folder)
    return folder


def _make(environment: Environment, source: str, place: Path, hold: int) -> None:
    place.mkdir()
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "DO_NOT_TRACK": "1"}
    try:
        made = subprocess.run(
            (str(environment.python), "-c", source, str(place)),
            env={**os.environ, **quiet},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT,
            pass_fds=(hold,),
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"The lab's model was not made within {_LIMIT:g} s.") from error
    if made.returncode:
        shutil.rmtree(place, ignore_errors=True)
        last = "\n".join(made.stderr.splitlines()[-5:])
        raise LabError(f"The lab's model could not be made by {environment.python}.\n{last}")
    for file in place.iterdir():
        file.chmod(0o644)
