"""Programs that are asked with a time limit, and questions that are asked at once.

Runs with the standard library of Python 3.10.
"""

import os
import subprocess
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

LONGEST = 400
"""Characters of an error that are handed on."""


class Said(NamedTuple):
    """What a program said. ``status`` is None where it could not be started or did not end in time; ``error`` is ""
    where it ended with status 0, else what tells why."""

    status: "int | None"
    output: str
    error: str
    missing: bool = False


def call(*argv: str, limit: float) -> Said:
    """Run a program, with messages in English, for at most ``limit`` seconds."""
    pipe, env = subprocess.PIPE, {**os.environ, "LC_ALL": "C"}
    try:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env)
    except OSError as error:
        told = f"{argv[0]}: {error.strerror}"
        return Said(None, "", told, isinstance(error, FileNotFoundError))
    try:
        output, errors = (text.decode("utf-8", "replace") for text in child.communicate(timeout=limit))
    except subprocess.TimeoutExpired:
        child.kill()  # and not waited for: in a hung driver it never ends
        return Said(None, "", f"{argv[0]} has not answered for {limit:.0f} s")
    told = errors.strip() or output.strip() or f"{argv[0]} ended with status {child.returncode}"
    return Said(child.returncode, output, told[:LONGEST] if child.returncode else "")


def at_once(*questions: "Callable[[], Any]") -> "list[Any]":
    """The answers in the questions' order; raises what the first of those that failed raised."""
    answers: list[Any] = [None] * len(questions)
    errors: dict[int, Exception] = {}

    def ask(index: int) -> None:
        try:
            answers[index] = questions[index]()
        except Exception as error:  # noqa: BLE001  it is raised below, in the thread that waits
            errors[index] = error

    threads = [threading.Thread(target=ask, args=(index,), daemon=True) for index in range(len(questions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return answers
