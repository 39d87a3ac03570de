"""pip, run in a virtual environment, with its progress told."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cockpit.lab.errors import Progress

_FILE = re.compile(
    r"\s*(?:Downloading|Using cached|Processing) (?:\S*/)?([^/\s]+\.whl)(?:\.metadata)?(?: \((.*)\))?"
)
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_KEPT = 8
"""Lines of pip's errors that are shown; the whole stands in the log."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call of pip ended: its exit status, and what it said of errors."""

    status: int
    errors: str


def run(
    python: Path, arguments: tuple[str, ...], *, log: Path, progress: Progress, hold: int | None = None
) -> Outcome:
    """Run ``python -m pip`` with ``arguments``; the whole output is appended to ``log``.

    ``hold`` is a lock's descriptor that pip holds as long as it lives. Only wheels are taken: a lab that
    needs a compiler would fail late and in foreign words.
    """
    argv = (str(python), "-m", "pip", "--no-input", "--disable-pip-version-check", *arguments)
    errors: list[str] = []
    with log.open("a", encoding="utf-8", errors="replace") as record:
        record.write(f"$ {' '.join(argv)}\n")
        record.flush()
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PIP_REQUIRE_VIRTUALENV": "0"},
            pass_fds=() if hold is None else (hold,),
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            try:
                file = ""
                for line in process.stdout:
                    if not line.startswith("Progress "):
                        record.write(line)
                    if line.startswith("ERROR:"):
                        errors.append(line.strip())
                    file = _tell(line, file, progress)
            except BaseException:
                process.terminate()
                raise
        record.write(f"= {process.returncode}\n")
    return Outcome(process.returncode, "\n".join(errors[-_KEPT:]))


def _tell(line: str, file: str, progress: Progress) -> str:
    """Pass on what a line of pip's tells; the value is the file being fetched."""
    if match := _FILE.match(line):
        if ".whl.metadata" not in line:
            progress(f"Fetching {match.group(1)}", None, None)
        return match.group(1)
    if match := _PROGRESS.match(line):
        progress(f"Fetching {file}", int(match.group(1)), int(match.group(2)))
    elif line.startswith("Installing collected packages"):
        progress("Installing the packages", None, None)
    return file
