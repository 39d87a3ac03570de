"""The real program in a shell's terminal: resized, suspended, resumed, and the terminal closed under it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.lab import folders, lab
from cockpit.lab.environment import Environment
from cockpit.lab.lab import LabInfo
from tests.lab.fixtures import lab_of_its_own
from tests.tui.shell import Shell

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def up(
    lab_environment: Environment, lab_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabInfo]:
    """A lab of these tests' own."""
    with lab_of_its_own("terminal", tmp_path_factory.mktemp("data")) as info:
        yield info


def files(info: LabInfo) -> set[Path]:
    """Every file in the folders of the lab's hosts, but that of the stand-in for nvidia-smi."""
    assert info.profile is not None
    found = info.profile.parent.rglob("*")
    return {path for path in found if path.is_file() and path.name != "nvidia-smi.last"}


def ended(pid: int) -> bool:
    """Whether a process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_suspend_resize_and_a_closed_terminal_leave_all_as_it_was(
    up: LabInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell gets its terminal back while it is suspended; after the end no process is left on any host."""
    assert up.profile is not None
    monkeypatch.setenv("XDG_DATA_HOME", str(up.profile.parents[3]))
    monkeypatch.setenv(folders.NAME, "terminal")
    before = files(up)
    shell = Shell(40, 120)
    try:
        shell.until(lambda text: b"shell> " in text, "the shell")
        # readline may export the size it saw, which would then stand for good.
        shell.type(f"env -u COLUMNS -u LINES {sys.executable} -m cockpit {up.profile}\n".encode())
        shell.until(lambda text: b"Nothing runs yet" in text, "the first screen")
        shell.seen.clear()
        shell.size(24, 80)
        shell.until(lambda text: b"\x1b[24;1H" in text, "the footer in the last of 24 rows")
        cockpit = shell.children()[0]
        shell.type(b"\x1a")
        shell.until(lambda text: b"Stopped" in text, "suspended")
        shell.type(b"stty -a | tr '\\n' ' '\n")
        shell.until(lambda text: b" icanon" in text and b" echo " in text, "the terminal as it was")
        shell.type(b"fg\n")
        shell.until(lambda text: b"Connect" in text, "resumed")
    finally:
        shell.close()
    stop = time.monotonic() + 30
    while not ended(cockpit) and time.monotonic() < stop:
        time.sleep(0.2)
    alive = not ended(cockpit)
    if alive:
        os.kill(cockpit, signal.SIGKILL)
    assert not alive, "the cockpit outlived its terminal"
    stop = time.monotonic() + 15
    while any(host.processes for host in lab.status().hosts) and time.monotonic() < stop:
        time.sleep(0.5)
    assert [host.processes for host in lab.status().hosts] == [0, 0]
    assert sorted(files(up) ^ before) == []
