"""Detached processes, for real: started, watched and ended by the very texts that hosts get."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cockpit.runtime import detached
from cockpit.runtime.detached import Process, ProcessState

SHELLS = [shell for shell in ("dash", "bash") if any((Path(d) / shell).exists() for d in ("/bin", "/usr/bin"))]


class Unit:
    """One unit below a state folder of its own."""

    def __init__(self, state: Path, shell: str) -> None:
        self.state_folder = state
        self.shell = shell
        self.folder = state / "unit"

    def sh(self, text: str, ignore: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a text as a host does; ``ignore`` starts the shell with SIGINT ignored."""
        trap = "trap '' INT; " if ignore else ""
        return subprocess.run(
            ["sh", "-c", f"{trap}exec {self.shell} -s"],
            input=f"STATE={self.state_folder}\n{text}",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, *argv: str, prelude: str = "", ignore: bool = False) -> str:
        done = self.sh(detached.start("unit", argv, prelude=prelude), ignore)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def state(self) -> Process:
        done = self.sh(detached.state("unit"))
        assert done.stderr == ""
        return detached.parse_state(done.stdout)

    def stop(self, signal: str = "INT", grace: float = 5) -> subprocess.CompletedProcess[str]:
        return self.sh(detached.stop("unit", signal=signal, grace=grace))

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def leader(self) -> int:
        return int((self.folder / "pid").read_text().split()[0])

    def program(self) -> int:
        return int((self.folder / "program").read_text().split()[0])


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for ``condition``, at most 20 s."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, f"never came true: {what}"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(params=SHELLS)
def unit(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Unit]:
    (tmp_path / "state").mkdir()
    unit = Unit(tmp_path / "state", request.param)
    yield unit
    unit.stop("KILL", 0)


def test_absent_before_anything(unit: Unit) -> None:
    assert unit.state() == Process(ProcessState.ABSENT)
    stopped = unit.stop()
    assert (stopped.returncode, stopped.stdout) == (0, "nothing of it runs\n")


def test_exit_status_and_output_are_recorded(unit: Unit) -> None:
    before = time.time()
    assert unit.start("sh", "-c", "echo out; echo err >&2; exit 7").startswith("started ")
    until(lambda: unit.state().state is ProcessState.ENDED, "ended")
    state = unit.state()
    assert state.status == 7
    assert state.since is not None and before - 1 <= state.since <= time.time()
    assert unit.log() == "out\nerr\n"


def test_arguments_arrive_as_given_and_the_log_is_appended(unit: Unit) -> None:
    odd = ("a b", "", "$HOME", "'\"\\", "END", "ü\n.")
    for _ in range(2):
        unit.start(sys.executable, "-c", "import sys; print(sys.argv[1:])", *odd, prelude="X=1\nexport X\n")
        until(lambda: unit.state().state is ProcessState.ENDED, "ended")
    assert unit.log() == f"{list(odd)}\n" * 2
    assert (unit.folder / "launch.sh").stat().st_mode & 0o777 == 0o600


def test_a_second_start_is_told_and_starts_nothing(unit: Unit) -> None:
    unit.start("sleep", "1000")
    until(lambda: (unit.folder / "program").exists(), "program recorded")
    program = unit.program()
    assert unit.start("sleep", "1000") == f"already running {program}\n"
    assert unit.state().pid == program == unit.program()


def test_two_starts_at_once_start_one(unit: Unit) -> None:
    text = f"STATE={unit.state_folder}\n{detached.start('unit', ['sleep', '1000'])}"
    both = [
        subprocess.Popen(["sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for one in both:
        assert one.stdin is not None
        one.stdin.write(text)
    for one in both:
        assert one.stdin is not None
        one.stdin.close()
    said = sorted((one.stdout.read() if one.stdout else "").split()[0] for one in both)
    assert [one.wait() for one in both] == [0, 0]
    assert said == ["already", "started"]


@pytest.mark.parametrize("ignore", [False, True], ids=["default", "ignored-by-the-starter"])
def test_sigint_reaches_the_program(unit: Unit, ignore: bool) -> None:
    program = (
        "import time\ntry:\n  print('on', flush=True); time.sleep(1000)\nexcept KeyboardInterrupt: print('INT')"
    )
    unit.start(sys.executable, "-c", program, ignore=ignore)
    until(lambda: "on" in unit.log(), "program on")
    stopped = unit.stop()
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stdout.startswith("SIGINT ended its ")
    assert unit.log() == "on\nINT\n"
    assert unit.state().status == 0


def test_a_signal_to_the_group_leaves_the_exit_status(unit: Unit) -> None:
    unit.start("sleep", "1000")
    until(lambda: (unit.folder / "program").exists(), "program recorded")
    os.killpg(unit.leader(), signal.SIGTERM)
    until(lambda: unit.state().state is ProcessState.ENDED, "ended")
    assert unit.state().status == 128 + signal.SIGTERM


def test_killed_outright_is_recorded_too(unit: Unit) -> None:
    unit.start("sleep", "1000")
    until(lambda: (unit.folder / "program").exists(), "program recorded")
    os.kill(unit.program(), signal.SIGKILL)
    until(lambda: unit.state().state is ProcessState.ENDED, "ended")
    assert unit.state().status == 128 + signal.SIGKILL


def test_without_its_leader_the_program_still_counts_as_running(unit: Unit) -> None:
    unit.start("sleep", "1000")
    until(lambda: (unit.folder / "program").exists(), "program recorded")
    program = unit.program()
    os.kill(unit.leader(), signal.SIGKILL)
    until(lambda: not lives(unit.leader()), "leader gone")
    assert unit.state().state is ProcessState.RUNNING
    assert unit.stop().returncode == 0
    assert not lives(program)
    state = unit.state()
    assert (state.state, state.status) == (ProcessState.GONE, None)


CHILD = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
os.setsid()
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(1000)
"""


@pytest.mark.parametrize(
    ("orphan", "bare"), [(False, False), (False, True), (True, False)], ids=["child", "child-no-mark", "orphan"]
)
def test_stop_ends_a_deaf_child_in_a_session_of_its_own(unit: Unit, orphan: bool, bare: bool) -> None:
    note = unit.state_folder / "child"
    child = f"{'env -u SPARK_COCKPIT_UNIT ' if bare else ''}{sys.executable} -c '{CHILD}' {note}"
    ending = "exec sleep 1000" if not orphan else f"while [ ! -s {note} ]; do sleep 0.05; done"
    unit.start("sh", "-c", f"{child} >/dev/null 2>&1 & {ending}")
    until(lambda: note.exists() and note.read_text() != "", "child on")
    if orphan:
        until(lambda: unit.state().state is ProcessState.ENDED, "program ended")
    pid = int(note.read_text())
    assert lives(pid)
    stopped = unit.stop(grace=1)
    assert stopped.returncode == 0, stopped.stderr
    assert "SIGKILL to 1 of its" in stopped.stdout
    assert not lives(pid)


def test_a_member_without_mark_is_known_by_its_output(unit: Unit) -> None:
    """As a vLLM process whose title has overwritten its environment, when leader and program are gone."""
    note = unit.state_folder / "child"
    inner = f"echo $$ >{note}; exec sleep 1000"
    unit.start("sh", "-c", f"env -u SPARK_COCKPIT_UNIT sh -c '{inner}' & wait")
    until(lambda: note.exists() and note.read_text() != "", "child on")
    until(lambda: (unit.folder / "program").exists(), "program recorded")
    for pid in (unit.leader(), unit.program()):
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: not lives(pid), "killed")  # type: ignore[misc]
    assert unit.state().state is ProcessState.GONE
    pid = int(note.read_text())
    assert lives(pid)
    assert unit.stop(grace=5).returncode == 0
    assert not lives(pid)


def test_a_process_that_took_over_the_number_is_left_alone(unit: Unit) -> None:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        try:
            unit.start("true")
            until(lambda: unit.state().state is ProcessState.ENDED, "ended")
            record = (unit.folder / "pid").read_text()
            (unit.folder / "exit-status").unlink()
            (unit.folder / "pid").write_text(record.replace(record.split()[0], str(stranger.pid), 1))
            assert unit.state().state is ProcessState.GONE
            stopped = unit.stop("KILL", 1)
            assert (stopped.returncode, stopped.stdout) == (0, "nothing of it runs\n")
            assert stranger.poll() is None
            assert unit.start("true").startswith("started ")
        finally:
            stranger.kill()


def test_a_record_of_an_earlier_boot_counts_for_nothing(unit: Unit) -> None:
    unit.start("sleep", "1000")
    until(lambda: (unit.folder / "program").exists(), "program recorded")
    record = unit.folder / "pid"
    first, boot = record.read_text().splitlines()
    record.write_text(f"{first}\n{boot.replace(boot[:8], '00000000')}\n")
    assert unit.state().state is ProcessState.GONE
    record.write_text(f"{first}\n{boot}\n")
    assert unit.state().state is ProcessState.RUNNING


def test_another_unit_is_never_touched(unit: Unit) -> None:
    other = Unit(unit.state_folder, unit.shell)
    other.folder = unit.state_folder / "unit2"
    assert unit.sh(detached.start("unit2", ["sleep", "1000"])).returncode == 0
    try:
        unit.start("sleep", "1000")
        assert unit.stop().returncode == 0
        assert detached.parse_state(unit.sh(detached.state("unit2")).stdout).state is ProcessState.RUNNING
    finally:
        assert unit.sh(detached.stop("unit2", signal="KILL", grace=1)).returncode == 0


def test_a_program_that_is_not_there_ends_with_127(unit: Unit) -> None:
    unit.start("/nowhere/vllm")
    until(lambda: unit.state().state is ProcessState.ENDED, "ended")
    assert unit.state().status == 127
    assert "/nowhere/vllm" in unit.log()


def test_a_unit_reached_by_a_link_keeps_to_its_folder(unit: Unit) -> None:
    """As a run, whose folder is reached by a link that moves on with the next one; and under ``set -eu``."""
    current = unit.state_folder / "current"
    for name in ("first", "second"):
        folder = unit.state_folder / name
        folder.mkdir()
        current.unlink(missing_ok=True)
        current.symlink_to(name)
        started = unit.sh(
            f"set -eu\nlast() {{\n{detached.state('current')}}}\nlast\n"
            + detached.start("current", ["sleep", "1000"])
        )
        assert (started.returncode, started.stderr) == (0, "")
        assert started.stdout.startswith("absent\nstarted ")
        until(lambda folder=folder: (folder / "program").exists(), "program recorded")  # type: ignore[misc]
    first, second = (detached.parse_state(unit.sh(detached.state(name)).stdout) for name in ("first", "second"))
    assert first.state is second.state is ProcessState.RUNNING
    assert unit.sh(detached.stop("current", signal="TERM", grace=5)).returncode == 0
    assert detached.parse_state(unit.sh(detached.state("current")).stdout).status == 128 + signal.SIGTERM
    assert detached.parse_state(unit.sh(detached.state("first")).stdout) == first
    assert unit.sh(detached.stop("first", signal="KILL", grace=2)).returncode == 0


@pytest.mark.parametrize(
    "output", ["", "running\n", "ended\n", "absent status=0\n", "running pid=x\n", "gone\nx"]
)
def test_anything_else_is_refused(output: str) -> None:
    with pytest.raises(ValueError, match="not the state of a process"):
        detached.parse_state(output)
