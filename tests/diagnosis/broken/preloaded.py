"""Run by the environment's Python: imports vLLM once, then runs its command line in a child a launch.

``python preloaded.py VLLM`` reads a JSON line (``argv``, ``env``, ``log``, ``cwd``) a launch on standard input, and
answers with the exit status. What vLLM printed while it was imported is at the head of each log, as if the child had
imported it. For launches that end before there is an engine: a spawned process would look for its main module.
"""

import json
import os
import sys
import traceback
from pathlib import Path


def child(launch: "dict[str, object]", program: str, imported: bytes) -> None:
    """The launch; ends this process."""
    os.setsid()
    log = os.open(str(launch["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, imported.replace(b"pid=%d)" % os.getppid(), b"pid=%d)" % os.getpid()))
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(launch["env"])  # type: ignore[call-overload]
    os.chdir(str(launch["cwd"]))
    sys.argv = launch["argv"]  # type: ignore[assignment]
    sys.modules["__main__"].__dict__.update(__file__=program)
    status = 0
    try:
        exec(compile(Path(program).read_text(), program, "exec"), {"__name__": "__main__", "__file__": program})
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:  # noqa: BLE001  (as Python itself would print whatever ends it)
        traceback.print_exception(
            type(error), error, error.__traceback__.tb_next if error.__traceback__ else None
        )
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    """Reads launches until the input ends."""
    program, said = sys.argv[1], Path(sys.argv[2])
    answers = os.dup(1)
    file = os.open(said, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = [program, "serve"]
    import vllm.entrypoints.cli.main
    import vllm.entrypoints.cli.serve
    import vllm.entrypoints.launchers.api_server.entry  # noqa: F401  (what `vllm serve` itself imports first)

    sys.stdout.flush()
    imported = said.read_bytes()
    os.write(answers, b"ready\n")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            child(json.loads(line), program, imported)
        _, status = os.waitpid(pid, 0)
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))


main()
