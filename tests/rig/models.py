"""The model of the rig's tests: the lab's tiny random one, made once by the environment's own Python."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from pathlib import Path

import cockpit.lab
from tests.rig.environment import Environment
from tests.rig.layout import cache
from tests.rig.shell import run

NAME = "tiny"
MAKER = Path(cockpit.lab.__file__).with_name("tiny_model.py")


def models(environment: Environment) -> Path:
    """A folder with the model ``tiny`` in it; about 1.4 MB in four shards."""
    digest = hashlib.sha256(MAKER.read_bytes()).hexdigest()[:12]
    folder = cache() / "models" / digest
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            (unfinished / NAME).mkdir(parents=True)
            run([f"{environment.venv}/bin/python", str(MAKER), str(unfinished / NAME)], timeout=300)
            unfinished.rename(folder)
        for path in (folder / NAME).iterdir():
            path.chmod(0o644)  # safetensors makes files that their owner alone may read
    return folder
