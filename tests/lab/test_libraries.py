"""A shared library that the machine lacks, fetched from the system's own packages without root's rights."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit.lab import libraries
from cockpit.lab.errors import LabError

HIDDEN = """\
set -e
for file in $(ldconfig -p | sed -n 's/.*libnuma\\.so\\.1 .*=> //p'); do mount --bind /dev/null "$file"; done
exec "$@"
"""
ENSURE = """\
import sys
from pathlib import Path
from cockpit.lab import libraries
venv = Path(sys.argv[1])
(packages,) = venv.glob("lib/python3*/site-packages")
print(libraries.loads(venv))
libraries.ensure(venv, packages, lambda said, *_: print(said))
libraries.ensure(venv, packages, lambda said, *_: print(said))
print(libraries.loads(venv))
"""


@pytest.mark.rig
@pytest.mark.timeout(300)
def test_a_machine_without_the_library_gets_one_into_the_environment_alone(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=120)
    hidden = ["unshare", "--mount", "--propagation", "private", "sh", "-c", HIDDEN, "sh"]
    done = subprocess.run(
        [*hidden, sys.executable, "-c", ENSURE, str(venv)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "False",
        "Fetching libnuma.so.1, which this machine lacks",
        "True",
    ]
    fetched = venv / "lib" / "spark-cockpit" / libraries.LIBRARY
    assert ctypes.CDLL(str(fetched)).numa_available() in (0, -1)


def test_without_apt_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"needs libnuma\.so\.1, and this machine has none") as refused:
        libraries.fetch(tmp_path)
    assert "sudo apt-get install libnuma1" in str(refused.value.remedy)


def test_what_apt_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "sources.list"
    sources.write_text("this is no source\n")
    configuration = tmp_path / "apt.conf"
    configuration.write_text(f'Dir::Etc::sourcelist "{sources}";\nDir::Etc::sourceparts "{tmp_path}/none";\n')
    monkeypatch.setenv("APT_CONFIG", str(configuration))
    with pytest.raises(LabError, match="can't be fetched: apt-get") as refused:
        libraries.fetch(tmp_path)
    assert "sources.list" in str(refused.value)
    assert not list(tmp_path.glob("libnuma*"))
