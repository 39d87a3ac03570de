"""Records what the real ``vllm serve`` says to each command line of ``tests/data/flags/lines.json``.

    VENV/bin/python tests/serving/record_verdicts.py MODEL [NAME...] [--out FILE]

Run by the python of an environment with vLLM (the lab's), on the lab's model. Each line is started as
``vllm`` starts it: vLLM's own ``main()`` with that argv, in a process group of its own. It is *taken* when
the API server says that its start-up is complete, and *refused* when the process ends before. vLLM is
imported once and each line runs in a fork of that process, its engine and workers too, instead of processes
that import vLLM anew: that saves 20 to 40 s of CPU a line, and is all that differs from the program. With
``--program`` the program ``vllm`` itself is run instead.

In a line, ``{model}`` is the model's folder, ``{port}`` a free port, ``{busy}`` one that is listened on, and
``{folder}`` a folder with the files that stand under ``files`` in lines.json. A line with an environment of
its own is always run by the program. One that is neither ready nor ended in time is left out, and told.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data" / "flags"
READY = b"Application startup complete."
LIMIT = 300.0
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_COLOR": "0",
    # Two ranks on a machine of one NUMA node: the CPU build would bind each to a node of its own.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


def preload() -> None:
    """Import vLLM here once, and have it fork its processes."""
    import multiprocessing
    from importlib import import_module

    for name in (
        "vllm.entrypoints.cli.main",
        "vllm.entrypoints.cli.serve",
        "vllm.v1.engine.core",
        "vllm.v1.engine.async_llm",
        "vllm.v1.executor.multiproc_executor",
        "vllm.v1.worker.cpu_worker",
        "vllm.v1.worker.cpu_model_runner",
        "vllm.model_executor.models.qwen3",
        "vllm.entrypoints.launchers.api_server.entry",
    ):
        import_module(name)
    context = multiprocessing.get_context("fork")
    for name, module in list(sys.modules.items()):
        if name.startswith("vllm.") and "get_mp_context" in vars(module):
            module.get_mp_context = lambda: context


def start(argv: list[str], log: Path, *, program: bool, env: dict[str, str]) -> int:
    """Start one line; its process id, which is its process group's too."""
    if program or env:
        with log.open("wb") as output:
            vllm = str(Path(sys.executable).parent / argv[0])
            return subprocess.Popen(
                ["env", "--default-signal=INT", vllm, *argv[1:]],
                env={**os.environ, **env},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ).pid
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        # A shell's background job has it ignored, and vLLM would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.argv = list(argv)
        from vllm.entrypoints.cli.main import main  # type: ignore[import-not-found]

        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - whatever ends the line is its end
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def watch(pid: int, log: Path, limit: float) -> tuple[bool, int | None]:
    """Whether the line was taken, and the exit status where it ended by itself."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return READY in log.read_bytes(), os.waitstatus_to_exitcode(status)
        if log.exists() and READY in log.read_bytes():
            return True, None
        time.sleep(0.1)
    raise TimeoutError(f"neither ready nor ended within {limit:g} s: {log.read_text(errors='replace')[-2000:]}")


def stop(pid: int) -> None:
    """End the line's processes: SIGINT, ten seconds, SIGKILL."""
    for sign, seconds in ((signal.SIGINT, 10.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(pid, sign)
        except ProcessLookupError:
            return
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
            try:
                os.killpg(pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)


def words(log: Path) -> str:
    """The line of the log that says why: the last error of argparse or pydantic, else the last exception."""
    lines = log.read_text(errors="replace").splitlines()
    plain = [re.sub(r"^(\(\w+ pid=\d+\) )?(ERROR \S+ \S+ \[\S+\] ?)?", "", line).strip() for line in lines]
    for pattern in (r"vllm(?: serve)?: error: ", r"Value error, ", r"Input should be "):
        if found := [line for line in plain if re.match(pattern, line)]:
            return found[-1].split(" [type=")[0]
    named = [line for line in plain if re.match(r"[\w.]*(?:Error|Exception|Invalid\w*)(?:: |$)", line)]
    causes = [line for line in named if "root cause" not in line]
    return (causes or named or plain or [""])[-1][:600]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def command(line: dict[str, Any], fill: dict[str, str]) -> list[str]:
    """The line as an argv."""
    base = [] if line.get("bare") else ["--enforce-eager", "--max-num-seqs", "4"]
    own = line["argv"]
    where = (
        []
        if any("{busy}" in word or word.startswith(("--port", "--host")) for word in own)
        else [
            "--host",
            "127.0.0.1",
            "--port",
            "{port}",
        ]
    )
    argv = ["vllm", "serve", *([] if line.get("modelless") else ["{model}"]), *own, *base, *where]
    return [re.sub(r"\{(model|port|busy|folder)\}", lambda match: fill[match[1]], word) for word in argv]


def record(lines: list[dict[str, Any]], model: str, *, program: bool, limit: float = LIMIT) -> dict[str, Any]:
    """Every line's verdict by its name."""
    verdicts = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, text in json.loads((DATA / "lines.json").read_text())["files"].items():
            (folder / name).write_text(text)
        busy = stack.enter_context(socket.socket())
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        for line in lines:
            fill = {"model": model, "folder": str(folder), "port": str(free_port())}
            argv = command(line, {**fill, "busy": str(busy.getsockname()[1])})
            log, began = folder / "log", time.monotonic()
            log.unlink(missing_ok=True)
            pid = start(argv, log, program=program, env=line.get("env", {}))
            try:
                taken, status = watch(pid, log, limit)
            finally:
                stop(pid)
            told = "" if taken else words(log)
            for path, name in ((str(folder), "{folder}"), (model, "{model}"), (sys.prefix, "{environment}")):
                told = told.replace(path, name)
            verdicts[line["name"]] = {"taken": taken, "status": status, "words": told}
            print(
                f"{time.monotonic() - began:6.1f} s  {line['name']}: {taken} {told}",
                file=sys.stderr,
                flush=True,
            )
    return verdicts


def main() -> None:
    """Record all lines, or the named ones, and put them into the file of verdicts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--program", action="store_true")
    parser.add_argument("--out", type=Path, default=DATA / "verdicts.json")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds a line may take")
    asked = parser.parse_args()
    lines = json.loads((DATA / "lines.json").read_text())["lines"]
    chosen = [line for line in lines if not asked.names or line["name"] in asked.names]
    os.environ.update(ENVIRONMENT)
    if not asked.program:
        preload()
    from importlib.metadata import version

    kept = json.loads(asked.out.read_text())["verdicts"] if asked.names and asked.out.exists() else {}
    for line in chosen:
        try:
            kept |= record([line], asked.model, program=asked.program, limit=asked.limit)
        except TimeoutError as error:
            print(f"{line['name']}: {error}", file=sys.stderr, flush=True)
        told = {"vllm": version("vllm"), "verdicts": kept}
        asked.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
