"""A serve log on a host of the rig, the command line that follows it, and what must come of the two."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from cockpit.logs.marks import Mark, read_marks
from cockpit.logs.spools import spool_path
from tests.e2e.cockpit import Cockpit
from tests.rig.host import Host
from tests.rig.profile import plain_text
from tests.rig.rig import Rig

NAME = "logs"
RUN = "20261130-200000-0001"
HOME = "/home/aurora/.local/state/spark-cockpit"
VENV = "/home/aurora/venv"
RAY = "/tmp/ray-of-logs"
SERVE_LOG = f"{HOME}/{NAME}/runs/{RUN}/serve.log"

WRITER = """
import os, sys
path, size = sys.argv[1], int(sys.argv[2])
line = b"(EngineCore pid=3821) INFO 11-30 20:00:00 [core.py:1] written as fast as the disk takes it: line %09d\\n"
with open(path, "ab", buffering=0) as file:
    number, left = os.fstat(file.fileno()).st_size, size
    while left:
        data = b"".join(line % (number + at) for at in range(5000))[:left]
        left -= file.write(data)
        number += 5000
"""


def profile_of(rig: Rig, folder: Path) -> Path:
    """A native profile of the rig's hosts, with a Python and Ray's folder, and nothing to run."""
    path = folder / f"{NAME}.yaml"
    sections = {"runtime": {"kind": "native", "venv": VENV}, "ray": {"flags": {"temp-dir": RAY}}}
    path.write_text(plain_text(rig, NAME, **sections))
    return path


def make_run(host: Host) -> None:
    """The folder of a run, its log empty."""
    folder = f"{HOME}/{NAME}/runs"
    shell(host, f"mkdir -p {folder}/{RUN} && ln -s {RUN} {folder}/current && : >{SERVE_LOG}")


def shell(host: Host, text: str, timeout: float = 60) -> str:
    """What sh prints on the host, as its user."""
    return host.exec(["sh", "-ec", text], timeout, user="aurora").out


class Writer:
    """Writes to the serve log in bursts, each as fast as it goes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.size = 0
        host.exec(["sh", "-c", f"cat >/tmp/writer.py <<'END'\n{WRITER}\nEND"], user="aurora")

    def burst(self, size: int) -> None:
        """Begin to write ``size`` bytes more."""
        self.done()
        self.size += size
        start = f"setsid python3 /tmp/writer.py {SERVE_LOG} {size} >/tmp/writer.out 2>&1 </dev/null &"
        self._host.exec(["sh", "-c", start], user="aurora")

    def done(self, limit: float = 300) -> None:
        """Wait until all is written."""
        until(lambda: size_of(self._host) == self.size, limit, "the writer ends")


def size_of(host: Host) -> int:
    """The serve log's size on its host."""
    return int(shell(host, f"stat -c %s {SERVE_LOG}"))


class Followed:
    """``logs -f`` as a process of its own, and the spool that it writes."""

    def __init__(self, cockpit: Cockpit, profile: Path, folder: Path, source: str = "serve") -> None:
        self._cockpit, self._profile, self._source = cockpit, profile, source
        self.said = folder / "said"
        self.printed = folder / "printed"
        root = Path(cockpit.env["XDG_STATE_HOME"]) / "spark-cockpit" / "spool"
        self.spool = spool_path(root, profile.stem, RUN if source == "serve" else "host", "spark-1", source)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        words = ("logs", self._profile, "--host", "spark-1", "--source", self._source, "-f")
        with self.said.open("ab") as said, self.printed.open("wb") as printed:
            return subprocess.Popen(
                self._cockpit.argv(*words),
                env=self._cockpit.env,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=said,
            )

    def kill(self) -> None:
        """End it as a power failure would."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Begin again, as its user would."""
        self.process = self._start()

    @property
    def size(self) -> int:
        """What the spool holds."""
        return self.spool.stat().st_size if self.spool.exists() else 0

    def has(self, size: int, limit: float = 300) -> None:
        """Wait until the spool holds that much."""
        until(lambda: self.size >= size, limit, f"{size:,} bytes are in the spool")

    def words(self) -> str:
        """What it said on standard error so far."""
        return self.said.read_text()

    def says(self, text: str, limit: float = 60, times: int = 1) -> None:
        """Wait until it has said so."""
        until(lambda: self.words().count(text) >= times, limit, f"“{text}” is said {times} times")

    @property
    def marks(self) -> tuple[Mark, ...]:
        """What is marked in the spool."""
        return read_marks(self.spool)


def until(holds: Callable[[], object], limit: float, what: str) -> None:
    """Wait until it holds."""
    end = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < end, f"not within {limit:g} s: {what}"
        time.sleep(0.1)


def sha256_of(path: Path) -> str:
    """Of a file here."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_on(host: Host) -> str:
    """Of the serve log, on its host."""
    return shell(host, f"sha256sum {SERVE_LOG}", timeout=120).split()[0]
