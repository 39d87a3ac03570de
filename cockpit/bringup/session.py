"""A session: the profile, its hosts' connections, and the runner's watchers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cockpit.bringup.errors import StepFailed, StepUnreachable
from cockpit.bringup.events import CommandEnded, CommandStarted, Event, StepName
from cockpit.hosts.errors import CommandFailed, ConnectionLost, HostError, TimedOut, Unreachable
from cockpit.hosts.host import Host
from cockpit.hosts.quoting import command_line
from cockpit.model.command import Command, Completed
from cockpit.model.profile import HostSpec, Profile
from cockpit.runtime.runtime import Runtime

T = TypeVar("T")


def _nobody(_event: Event) -> None:
    """A watcher for when nobody watches."""


@dataclass(slots=True)
class Session:
    """What the steps work with. ``emit`` tells the watchers; ``forced`` lets a launch pass refused flags.

    ``step`` is the step at work: its name stands in the events of its commands. ``secrets`` are values that
    commands gave; together with the operator's environment they are put into commands on the way out.
    """

    profile: Profile
    hosts: Mapping[str, Host]
    runtime: Runtime
    emit: Callable[[Event], None] = _nobody
    forced: bool = False
    step: StepName = StepName.CONNECT
    notes: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> Host:
        """The head's connection."""
        return self.hosts[self.profile.head.name]

    async def connect(self) -> None:
        """Connect to every host at once; the first that can't be reached is raised as ``HostError``."""
        await self.each(self.profile.hosts, lambda spec: self.hosts[spec.name].connect())

    async def ask(self, command: Command) -> Completed:
        """Run a read-only question, whatever its exit status, unseen by the watchers."""
        try:
            return await self.hosts[command.host].run(command, check=False)
        except HostError as error:
            raise self.failure(error, command) from error

    async def run(self, command: Command, *, check: bool = True) -> Completed:
        """Run a command of a plan, shown to the watchers; a status other than 0 raises ``StepFailed``."""
        self.emit(CommandStarted(self.step, command))
        try:
            completed = await self.hosts[command.host].run(command, check=False)
        except HostError as error:
            raise self.failure(error, command) from error
        if command.gives and completed.status == 0:
            self.secrets[command.gives] = completed.text.rstrip("\n")
            completed = replace(completed, stdout=f"<{command.gives}>\n".encode())
        self.emit(CommandEnded(self.step, completed))
        if check and completed.status != 0:
            raise self.failed(completed)
        return completed

    def failed(self, completed: Completed, message: str = "", remedy: str = "") -> StepFailed:
        """The error for a command that ended badly, with the line that matters."""
        command = completed.command
        return StepFailed(
            self.step,
            message or f"{command.host}: could not {command.why} (exit status {completed.status}).",
            host=command.host,
            command=command_line(command),
            line=decisive_line(completed),
            remedy=remedy,
        )

    def failure(self, error: HostError, command: Command) -> StepFailed | StepUnreachable:
        """A host's error as this step's."""
        lost = isinstance(error, ConnectionLost | Unreachable | TimedOut) and not isinstance(
            error, CommandFailed
        )
        kind = StepUnreachable if lost else StepFailed
        return kind(
            self.step,
            error.message,
            host=command.host,
            command=command_line(command),
            remedy=error.remedy,
        )

    async def each(self, specs: Iterable[HostSpec], work: Callable[[HostSpec], Awaitable[T]]) -> dict[str, T]:
        """``work`` on several hosts at once; the first error is raised when all have ended."""
        specs = tuple(specs)
        results = await asyncio.gather(*(work(spec) for spec in specs), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return {spec.name: value for spec, value in zip(specs, results, strict=True)}  # type: ignore[misc]


def decisive_line(completed: Completed) -> str:
    """The line of a failed command's output that says most: the last of standard error, else of the output."""
    for text in (completed.error_text, completed.text):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return ""
