"""Asks the warm helper one question. Arguments: the question's JSON, and seconds to wait for the answer.

Runs in the helper's folder. Prints a marker and the answer, as ``parser_verdict.py`` does; status 3 with the
last lines of the helper's log where it gave none.
"""

import socket
import sys
import time
from pathlib import Path

MARKER = "SPARK-COCKPIT-VERDICT "


def ask(question: str, until: float) -> bytes:
    """The answer; b"" where the helper ended the connection without one. OSError where there is no helper."""
    while True:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(max(until - time.monotonic(), 0.1))
                connection.connect("socket")
                connection.sendall(question.encode() + b"\n")
                return connection.makefile("rb").readline()
        except (FileNotFoundError, ConnectionRefusedError):
            # It has only just been started, or it is gone.
            if Path("exit-status").exists() or time.monotonic() > until:
                raise
            time.sleep(0.05)


def main(question: str, limit: float) -> int:
    """Print the answer, or why there is none."""
    try:
        answer = ask(question, time.monotonic() + limit)
    except OSError as error:
        answer, why = b"", str(error)
    else:
        why = "the helper ended the connection"
    if answer.endswith(b"\n"):
        print(MARKER + answer.decode("utf-8").rstrip("\n"), flush=True)
        return 0
    log = Path("log")
    lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
    print("\n".join([*lines, *([] if lines else [why])]), file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
