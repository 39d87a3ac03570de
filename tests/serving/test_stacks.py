"""Stacks are taken by the runtime's own py-spy, of the processes of our units alone."""

import os
import subprocess
import sys
import time
from pathlib import Path

from cockpit.diagnosis.sources import STACKS, Source
from cockpit.diagnosis.stacks import refused, waiting
from cockpit.lab.environment import Environment
from cockpit.model.command import Command
from cockpit.runtime.script_text import script_text
from cockpit.serving.stacks import keep_command, kept_command, parse_kept
from tests.serving.profiles import profile

SERVE = "import time\ndef wait_for_the_other_rank():\n    time.sleep(60)\nwait_for_the_other_rank()\n"


def _take(state: Path, path: str) -> bytes:
    script = script_text("cockpit.serving.scripts", "stacks").encode()
    argv = (sys.executable, "-I", "-S", "-", "runs/current", "ray")
    env = {"STATE": str(state), "PATH": path}
    return subprocess.run(argv, input=script, env=env, capture_output=True, timeout=60, check=True).stdout


def _run(command: Command, state: Path) -> bytes:
    env = {"XDG_STATE_HOME": str(state), "HOME": str(state), "PATH": os.defpath}
    argv, text = command.remote_argv, command.stdin.encode()
    return subprocess.run(argv, input=text, env=env, capture_output=True, timeout=60, check=True).stdout


def _began(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19])


def test_a_real_process_of_the_run(lab_environment: Environment, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(SERVE)
    unit = tmp_path / "runs" / "current"
    unit.mkdir(parents=True)
    argv = (sys.executable, str(program), "serve", "/models/tiny")
    with subprocess.Popen(argv) as ours, subprocess.Popen(argv) as other:
        try:
            time.sleep(1)
            (unit / "pid").write_text(f"{ours.pid} {_began(ours.pid)} 0\nboot\n")
            taken = _take(tmp_path, f"{lab_environment.folder}/bin:{os.defpath}")
            nothing = _take(tmp_path, "/nowhere")
        finally:
            ours.kill()
            other.kill()
    source = Source("stacks/spark-1.txt", "spark-1", STACKS, taken)
    assert f"## process {ours.pid} " in taken.decode()
    assert f"## process {other.pid} " not in taken.decode()
    seen = waiting([source])
    # Where tracing is not allowed (a container without SYS_PTRACE), that is what is said.
    assert "wait_for_the_other_rank" in seen[0].frame if seen else "SYS_PTRACE" in refused([source])[0]
    assert nothing == b"## missing py-spy is not in the environment that vLLM runs in\n"


def test_nothing_runs(tmp_path: Path) -> None:
    assert _take(tmp_path, "/nowhere") == b"## missing no process of the run is here\n"


def test_kept_stacks_are_told_apart_by_host() -> None:
    kept = b"## host spark-1\n## process 7 VLLM::Worker\nThread 7 (idle)\n## host spark-2\n## missing x\n"
    assert parse_kept(kept) == {
        "spark-1": b"## process 7 VLLM::Worker\nThread 7 (idle)\n",
        "spark-2": b"## missing x\n",
    }


def test_what_was_taken_is_kept_in_the_runs_folder(tmp_path: Path) -> None:
    declared = profile()
    taken = b'## process 7 VLLM::Worker\nThread 7 (idle): "it\'s $HOME `x`"\n'
    for spec in declared.hosts:
        _run(keep_command(declared, "20261201-1", spec, taken), tmp_path)
    assert parse_kept(_run(kept_command(declared, "20261201-1"), tmp_path)) == dict.fromkeys(
        [spec.name for spec in declared.hosts], taken
    )
    old = next((tmp_path / "spark-cockpit").rglob(f"{declared.head.name}.txt"))
    os.utime(old, (1, 1))
    assert list(parse_kept(_run(kept_command(declared, "20261201-1"), tmp_path))) == [declared.workers[0].name]
    assert parse_kept(_run(kept_command(declared, "another"), tmp_path)) == {}
