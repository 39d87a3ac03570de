"""Drives the command line as its user does: a process of its own, its JSON read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a call left: exit status, standard output, standard error."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object."""
        found: dict[str, Any] = json.loads(self.out)
        assert found["schema"] == 1
        return found

    @property
    def events(self) -> list[Event]:
        """The JSON lines of ``up`` and ``down``."""
        return [json.loads(line) for line in self.out.splitlines()]

    def step(self, name: str) -> Event:
        """The last thing told of a step."""
        return [event for event in self.events if event["event"] == "step" and event["step"] == name][-1]

    @property
    def outcome(self) -> str:
        """The last event's outcome."""
        last = self.events[-1]
        assert last["event"] == "end", self.out + self.err
        return str(last["outcome"])

    @property
    def findings(self) -> list[Event]:
        """The findings told."""
        return [event for event in self.events if event["event"] == "finding"]


@dataclass
class Running:
    """A call in progress."""

    process: subprocess.Popen[str]
    seen: list[Event] = field(default_factory=list)

    def lines(self) -> Iterator[Event]:
        """The events as they come."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.seen.append(event)
            yield event

    def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Wait for an event."""
        for event in self.lines():
            if wanted(event):
                return event
        raise AssertionError(f"it ended first: {self.seen}")

    def until_step(self, name: str, state: str = "running") -> Event:
        """Wait for a step's state."""
        return self.until(lambda e: e["event"] == "step" and e["step"] == name and e["state"] == state)

    def kill(self) -> None:
        """End the cockpit as a power cut would."""
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> int:
        """Ctrl+C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        for _event in self.lines():
            pass
        return self.process.wait(timeout=30)

    @property
    def last(self) -> str:
        """The outcome that the last event tells."""
        return str(self.seen[-1].get("outcome"))


class Cockpit:
    """The command line with folders of its own; the caches stay the user's."""

    name = ""

    def __init__(self, folder: Path, **env: str) -> None:
        self.env = {
            **os.environ,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONUNBUFFERED": "1",
            **env,
        }

    def argv(self, *words: object) -> list[str]:
        """The words of a call."""
        return [sys.executable, "-m", "cockpit", *(str(word) for word in words)]

    def __call__(self, *words: object, timeout: float = 300) -> Answer:
        """A call, to its end."""
        done = subprocess.run(
            self.argv(*words),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def start(self, *words: object) -> Running:
        """A call that is watched while it runs."""
        return Running(
            subprocess.Popen(
                self.argv(*words),
                env=self.env,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        )


def wait_for(condition: Callable[[], object], *, limit: float, what: str) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"not within {limit} s: {what}"
        time.sleep(0.3)
