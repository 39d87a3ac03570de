"""Keeps vLLM's parser loaded and answers questions about command lines over a Unix socket in this folder.

Arguments: seconds without a question after which it ends by itself, seconds an answer may take, and the folder
that relative paths of a command line start from. A connection is one question: a line of JSON as
``parser_verdict.py`` takes it, answered by a line of JSON, or by the end of the connection where there is no
answer. Every question is answered by a fork, so that none leaves anything behind, and one that hangs or
breaks takes only its fork with it.
"""

import importlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

SOCKET = "socket"
FIRST = 3
REACHED = 10  # exit status of a fork that came to vLLM's configuration


def respond(judge: Any, connection: socket.socket, limit: int, where: str) -> int:
    """Answer one question in a fork; its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.alarm(limit)
        question = json.loads(connection.makefile("rb").readline())
        Path("question").write_text(json.dumps(question))
        os.chdir(where)
        answer = judge.answer(question)
        connection.sendall(json.dumps(answer).encode() + b"\n")
        deep = question["deep"] and any(one["stage"] in ("", "config") for one in answer["verdicts"])
        status = REACHED if deep else 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def warm_up(judge: Any, limit: int, where: str) -> None:
    """Build the configuration once in this process: what vLLM imports on the way is there for every fork."""

    def give_up(*_: Any) -> None:
        raise TimeoutError("the warm-up took too long")

    own = Path.cwd()
    question = {**json.loads(Path("question").read_text()), "schema": False}
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(limit)
    try:
        os.chdir(where)
        judge.answer(question)
    except TimeoutError as error:
        print(error, flush=True)
    finally:
        os.chdir(own)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def main(idle: int, limit: int, where: str) -> None:
    """Answer until nobody asks any more."""
    os.umask(0o077)
    Path(SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        # A relative name: a socket's path may have 107 bytes.
        server.bind(SOCKET)
        server.listen(8)
        server.settimeout(idle)
        module = importlib.import_module("judge")
        known = module.identity()
        judge = module.Judge(True)
        warm = False
        while True:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                break
            with connection:
                # Another vLLM was installed over this one: what is loaded is no longer what would run.
                if module.identity() != known:
                    break
                # Until it is warm, an answer imports what is left of vLLM too.
                most = limit if warm else limit * FIRST
                connection.settimeout(most)
                status = respond(judge, connection, most, where)
                if status == -signal.SIGALRM:
                    print(f"vLLM gave no answer within {most} s", flush=True)
            if status == REACHED and not warm:
                warm_up(judge, limit, where)
                warm = True


def leave(path: Path) -> None:
    """End at once: an exception could be caught by what runs now, vLLM's own code among it."""
    path.unlink(missing_ok=True)
    os._exit(0)


if __name__ == "__main__":
    place = Path(SOCKET).absolute()
    signal.signal(signal.SIGTERM, lambda *_: leave(place))
    try:
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    finally:
        place.unlink(missing_ok=True)
