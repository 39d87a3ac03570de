"""The model's files, copied from the host that has them over the fabric and compared with it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cockpit.bringup.errors import StepError, StepFailed
from cockpit.bringup.preparation import pipe, rsync
from cockpit.bringup.preparation.files import (
    Compared,
    Entry,
    Listed,
    compare_command,
    lacking,
    listed,
    parse_compared,
)
from cockpit.bringup.preparation.moving import Move, knock_command, move
from cockpit.bringup.preparation.pace import Pace
from cockpit.bringup.preparation.task import Kind, Task, TaskProgress, Tell
from cockpit.bringup.session import Session
from cockpit.hosts.errors import HostError
from cockpit.model.profile import HostSpec
from cockpit.probes.answers import ModelFacts, parse_environment
from cockpit.probes.asked import Asked
from cockpit.probes.download import download, expected_bytes, host_path, mounted
from cockpit.probes.preflight import environment_command
from cockpit.runtime.prelude import heredoc

SUM_RATE = 100e6
"""Bytes a second that are read and summed even on a slow disk: the comparison's time limit comes from it."""

ROOM = 1 << 30
"""Bytes that must stay free beside the copy."""


@dataclass(frozen=True, slots=True)
class ModelCopy(Task):
    """Copies and compares. ``entries`` are the source's files; ``folder`` the target's."""

    how: Move | None = None
    entries: tuple[Entry, ...] = ()
    folder: str = ""
    again: Move | None = None
    """The same, comparing every byte: for files that look right and are not."""

    async def run(self, session: Session, tell: Tell) -> str:
        """Copy, compare; where a file is not what the hub says, copy once more by its contents; then ask the
        environment whether the model is complete there."""
        if self.how is None:
            raise StepFailed(session.step, f"{self.host}: {self.by_hand}", host=self.host)
        await move(session, self, self.how, tell)
        found = await self._compare(session, tell)
        if not found.same and self.again is not None:
            await move(session, self, self.again, tell)
            found = await self._compare(session, tell)
        if not found.same:
            names = ", ".join((*found.missing, *found.differs)[:5])
            raise StepFailed(
                session.step,
                f"{self.host}: {len(found.missing)} files are missing and {len(found.differs)} are not what they "
                f"should be: {names}.",
                host=self.host,
                remedy=f"Where {self.source} has the same: get the model anew there (hf download).",
            )
        seen = await self._complete(session)
        summed = f", {found.summed} by the hub's sums" if found.summed else ""
        return f"{len(self.entries)} files are the same as on {self.source}{summed}{seen}"

    async def _compare(self, session: Session, tell: Tell) -> Compared:
        spec = session.profile.host(self.host)
        limit = 120 + sum(size for _, size, _, _ in self.entries) / SUM_RATE
        command = compare_command(session.runtime, spec, self.folder, self.entries, limit)
        pace, found, rest = Pace(), None, b""
        try:
            async with session.hosts[self.host].open(command) as stream:
                while data := await stream.read():
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        told = parse_compared(line)
                        if isinstance(told, Compared):
                            found = told
                        elif told is not None:
                            rate, eta = pace.at(*told)
                            tell(TaskProgress(self, *told, rate=rate, eta=eta, doing="comparing"))
                said = stream.error_text
        except HostError as error:
            raise session.failure(error, command) from error
        if found is None:
            lines_ = [line for line in said.splitlines() if line.strip()] or ["no answer"]
            raise StepFailed(
                session.step, f"{self.host}: the copy could not be compared.", host=self.host, line=lines_[-1]
            )
        return found

    async def _complete(self, session: Session) -> str:
        """What the runtime itself sees there decides; in words where it could not be asked."""
        spec = session.profile.host(self.host)
        completed = await session.ask(environment_command(session.profile, session.runtime, spec))
        try:
            model = parse_environment(completed.stdout).model
        except ValueError:
            return "; whether they are complete for vLLM could not be asked there: see `spark-cockpit check`"
        if not model.complete:
            raise StepFailed(
                session.step,
                f"{self.host}: the files are the same as on {self.source}, and not complete for vLLM.",
                host=self.host,
                line=", ".join(model.names),
                remedy=f"See `spark-cockpit check {session.profile.word}`.",
            )
        return ""


async def model_tasks(session: Session, asked: Asked) -> tuple[list[Task], list[str]]:
    """A copy for each host that lacks files which another has all of; and in words what can't be done."""
    found = {name: facts.model for name, facts in asked.environments.items()}
    having = next((name for name, model in found.items() if model.complete), "")
    wanting = [name for name, model in found.items() if not model.complete and model.kind != "url"]
    if not wanting:
        return [], []
    if unmounted := [name for name in wanting if asked.docker and not mounted(asked, found[name].path)]:
        return [], [
            f"{name}: no mount holds {found[name].path}, where the runtime looks for the model; "
            f"`spark-cockpit check {asked.profile.word}` names it."
            for name in unmounted
        ]
    if not having:
        return [_download(asked, wanting[0], found[wanting[0]])], []
    if found[having].file:
        return [], [f"{asked.profile.serve.model} is a single file: copy it by hand."]
    tasks: list[Task] = []
    notes = [
        f"{name}: the runtime can't be entered there yet, to look for the model." for name in asked.failures
    ]
    source = await listed(session, session.profile.host(having), _folder(asked, found[having].path))
    for name in wanting:
        try:
            tasks.append(await _task(session, having, source, name, _folder(asked, found[name].path)))
        except (StepError, ValueError) as error:
            notes.append(f"{name}: the model can't be copied there: {error}")
    return tasks, notes


def _download(asked: Asked, name: str, model: ModelFacts) -> Task:
    """Where no host has all of it: one download, by the operator; the other hosts then get it over the fabric."""
    declared = asked.profile.serve.model
    title = f"get {declared}, which no host has all of"
    if model.kind == "local":
        folder = shlex.quote(host_path(asked, model.path))
        by_hand = (
            f"On {name}: put the model into {folder}, say with: hf download OWNER/MODEL --local-dir {folder}"
        )
    else:
        by_hand = download(asked, name, model)
    if len(asked.profile.hosts) > 1:
        again = f"spark-cockpit prepare {asked.profile.word} --only model"
        by_hand += f"\nThen: {again}  (the other hosts get it over the fabric)"
    size = max(0, expected_bytes(asked, model) - model.bytes)
    return Task(Kind.MODEL, name, title, (), size or None, by_hand=by_hand)


def _folder(asked: Asked, path: str) -> str:
    """The model's folder on the host. A snapshot's links lead out of it: its model's folder."""
    return host_path(asked, path.partition("/snapshots/")[0]).rstrip("/")


async def _task(session: Session, having: str, source: Listed, name: str, folder: str) -> ModelCopy:
    one, other = session.profile.host(having), session.profile.host(name)
    target = await listed(session, other, folder)
    missing = lacking(source, target)
    size = sum(entry[1] for entry in missing)
    why_not = _why_not(having, source, target, size)
    title = f"copy {session.profile.serve.model} from {having} into {target.folder} ({len(missing)} files)"
    if why_not:
        return ModelCopy(Kind.MODEL, name, title, (), size, having, why_not)
    there = source.bytes - size
    by_rsync = source.rsync and target.rsync and rsync.usable(source.folder)
    if by_rsync:
        how = _by_rsync(one, other, source, target.folder, there)
        again = _by_rsync(one, other, source, target.folder, 0, every_byte=True)
    else:
        how, again = _by_tar(one, other, source, target.folder, missing), None
        title += "; without rsync, by tar: a file that is cut short begins anew"
    spec = session.profile.host(name)
    check = compare_command(session.runtime, spec, target.folder, source.entries, 120 + source.bytes / SUM_RATE)
    commands = (how.offer, how.take, check)
    return ModelCopy(
        Kind.MODEL, name, title, commands, size, having, "", 0, how, source.entries, target.folder, again
    )


def _why_not(having: str, source: Listed, target: Listed, size: int) -> str:
    if not source.exists:
        return f"{source.folder} is not a folder of the host {having}: it lies in its image."
    if source.outside:
        return f"Links in {source.folder} on {having} lead out of it ({source.outside[0]}): copy it by hand."
    if not target.writable:
        return f"This user may not write in {target.at}: sudo chown -R $USER {shlex.quote(target.at)}"
    if target.free < size + ROOM:
        return f"{size / 1e9:.1f} GB are to come, and {target.free / 1e9:.1f} GB are free at {target.at}."
    return "" if source.port else "Its fabric address is not there: see `spark-cockpit check`."


def _by_rsync(
    one: HostSpec, other: HostSpec, source: Listed, folder: str, there: int, *, every_byte: bool = False
) -> Move:
    offer = rsync.offer_command(one, other, source.folder, source.port)
    take = rsync.take_command(other, one, folder, source.port, every_byte=every_byte)
    knock = knock_command(other, one, source.port)

    async def whole(session: Session) -> int:
        target = await listed(session, other, folder)
        return source.bytes - sum(entry[1] for entry in lacking(source, target))

    return Move(offer, take, knock, rsync.parse, source.bytes, there, whole)


def _by_tar(one: HostSpec, other: HostSpec, source: Listed, folder: str, missing: Sequence[Entry]) -> Move:
    """Only what is missing is sent."""
    word, body = heredoc("\n".join(_names(missing)))
    argv = ("sh", "-c", f"cd {shlex.quote(source.folder)} && exec tar -cf - -T /dev/stdin {word}\n{body}")
    give = pipe.give_command(one, other, source.port, argv, f"offer {source.folder} to {other.name}")
    untar = ("tar", "-xf", "-", "-C", folder)
    before = f"mkdir -p {shlex.quote(folder)} || exit\n"
    take = pipe.take_command(
        other, one, source.port, untar, f"copy the model's files from {one.name}", before=before
    )
    knock, there = knock_command(other, one, source.port), source.bytes - sum(entry[1] for entry in missing)
    return Move(give, take, knock, pipe.parse, source.bytes, there, again=False)


def _names(entries: Iterable[Entry]) -> list[str]:
    for path, *_ in entries:
        if "\n" in path or "\\" in path:
            raise ValueError(f"a file's name has a line break or a backslash in it: {path!r}")
    return [path for path, *_ in entries]
