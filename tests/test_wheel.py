"""The wheel, installed away from the checkout, brings the shipped profiles along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent

ASK = """
import json, cockpit
from cockpit.bringup.profiles import find, listing
entries = [entry.to_json() for entry in listing()]
loaded = {entry["name"]: find(entry["name"]).file for entry in entries}
print(json.dumps({"package": cockpit.__file__, "entries": entries, "loaded": loaded}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(CHECKOUT)], check=True, timeout=300)
    (path,) = folder.glob("spark_cockpit-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of its own with the wheel in it; the libraries are this Python's, by a .pth file."""
    venv = tmp_path_factory.mktemp("away") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=120)
    python = venv / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--no-index", str(wheel)], check=True, timeout=300)
    (site,) = (venv / "lib").glob("python*/site-packages")
    # A line of a .pth file adds a folder after the venv's own, and no .pth file in that folder is read: an
    # editable install of the checkout beside these libraries stays out of the way.
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def ask(python: Path, home: Path) -> dict[str, object]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(
        [str(python), "-c", ASK], check=True, timeout=120, capture_output=True, cwd=home, env=env, text=True
    )
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_shipped_profiles_are_found_away_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    answer = ask(installed, tmp_path)
    package = Path(str(answer["package"])).parent
    assert CHECKOUT not in package.parents
    names = sorted(path.stem for path in (CHECKOUT / "profiles").glob("*.yaml"))
    assert len(names) >= 3
    assert answer["entries"] and answer["loaded"] == {
        name: str(package / "_data" / "profiles" / f"{name}.yaml") for name in names
    }
    entries = answer["entries"]
    assert isinstance(entries, list)
    assert all(entry["source"] == "shipped" and "error" not in entry for entry in entries)


def test_the_wheel_holds_all_of_the_package_and_nothing_else(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "-C", str(CHECKOUT), "ls-files", "cockpit", "profiles", "themes"],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    expected = {
        name if name.startswith("cockpit/") else f"cockpit/_data/{name}"
        for name in tracked
        if (CHECKOUT / name).exists()
    }
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert expected <= inside
    assert not [name for name in inside if not name.startswith("cockpit/") or "__pycache__" in name]
