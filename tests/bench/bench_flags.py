"""How fast a change of the flags is judged, beside ``vllm serve``'s own refusal of the same line.

    python tests/bench/bench_flags.py

On this machine, with the lab's environment and model: the first answer (vLLM is loaded into the helper), then a
value that is changed each time, asked as the editor asks, and the program ``vllm serve`` on the wrong line.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cockpit.bringup.flag_judge import FlagCheck, check_flags
from cockpit.bringup.open import open_session
from cockpit.bringup.session import Session
from cockpit.model.profile import HostSpec, NativeRuntime, Profile, Role, ServeSpec
from cockpit.serving.arguments import serve_argv
from cockpit.serving.deep import helper_stop_command
from tests.rig.environment import default_environment

ENV = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
ENV["VLLM_CACHE_ROOT"] = str(Path("~/.cache/vllm").expanduser())
ROUNDS = 15


def profile_with(venv: Path, model: Path, length: int) -> Profile:
    """A profile of this machine; the model has 2048 tokens."""
    serve = ServeSpec(
        str(model), "tiny", {"max-model-len": length, "enforce-eager": True, "port": 26399}, env=ENV
    )
    head = HostSpec("here", "local", Role.HEAD)
    return Profile("bench", (head,), NativeRuntime(str(venv)), serve, file="bench.yaml", digest="0" * 64)


Answer = tuple[float, FlagCheck]


async def judge(venv: Path, model: Path) -> tuple[Answer, list[Answer], list[Answer]]:
    """The first answer, those to changes that vLLM takes, and to those that it refuses: seconds and verdict."""
    async with open_session(profile_with(venv, model, 512)) as session:
        await session.connect()
        first = await timed(session, None)
        check = first[1]
        right, wrong = [], []
        try:
            for number in range(ROUNDS):
                for kept, length in ((right, 513 + number), (wrong, 4096 + number)):
                    session = replace(session, profile=profile_with(venv, model, length))
                    kept.append(await timed(session, check))
                    check = kept[-1][1]
                    assert bool(check.errors) == (length > 2048)
        finally:
            await session.run(helper_stop_command(session.profile, session.runtime), check=False)
    return first, right, wrong


async def timed(session: Session, previous: FlagCheck | None) -> Answer:
    """One check, as the editor asks for it."""
    began = time.perf_counter()
    check = await check_flags(session, deep=True, keep=True, previous=previous)
    return time.perf_counter() - began, check


def median(answers: list[Answer]) -> float:
    """The median of the seconds."""
    return statistics.median(seconds for seconds, _ in answers)


def refusal(venv: Path, model: Path) -> float:
    """Seconds until the program refuses the same."""
    argv = serve_argv(profile_with(venv, model, 4096))
    began = time.perf_counter()
    done = subprocess.run(
        [str(venv / "bin" / argv[0]), *argv[1:]], env={**os.environ, **ENV}, capture_output=True, timeout=300
    )
    assert done.returncode
    return time.perf_counter() - began


def main() -> int:
    """Print the table."""
    found = default_environment()
    if found is None:
        print("no environment with vLLM: `spark-cockpit lab up` makes one")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for name in ("STATE", "CACHE", "CONFIG"):
            os.environ[f"XDG_{name}_HOME"] = str(Path(folder) / name.lower())
        model = Path(folder) / "tiny"
        script = Path(__file__).resolve().parents[2] / "cockpit" / "lab" / "tiny_model.py"
        subprocess.run([found.venv / "bin" / "python", script, model], check=True, capture_output=True)
        first, right, wrong = asyncio.run(judge(found.venv, model))
        own = refusal(found.venv, model)
    told = first[1].seconds
    print(f"first answer            {first[0]:6.2f} s")
    print(f"{'':24}{told['import']:6.2f} s   of it vLLM's import, and {told['answer']:.2f} s its answer")
    for name, answers in (("taken", right), ("refused", wrong)):
        inside = statistics.median(check.seconds["answer"] for _, check in answers)
        worst = max(seconds for seconds, _ in answers)
        print(f"a change that is {name:7}{median(answers):6.2f} s   budget 0.80 s, worst {worst:.2f} s")
        print(f"{'':24}{inside:6.2f} s   of it vLLM's own work")
    print(f"vllm serve's refusal    {own:6.2f} s   {own / median(wrong):.0f} times as long")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
