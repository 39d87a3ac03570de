"""The image: from the host that has it, over the fabric; else pulled, on each host that lacks it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field

from cockpit.bringup.errors import StepFailed
from cockpit.bringup.preparation import pipe
from cockpit.bringup.preparation.files import listed
from cockpit.bringup.preparation.moving import Move, knock_command, move
from cockpit.bringup.preparation.pace import Pace
from cockpit.bringup.preparation.task import Kind, Task, TaskProgress, Tell
from cockpit.bringup.session import Session
from cockpit.hosts.errors import HostError
from cockpit.model.command import Command, script, streaming
from cockpit.model.profile import HostSpec
from cockpit.probes.answers import HostFacts, ImageFacts, parse_host
from cockpit.probes.asked import Asked
from cockpit.probes.checks_host import same_image
from cockpit.probes.preflight import host_command
from cockpit.runtime.script_text import script_text

IMAGES = "/var/lib/docker"


@dataclass(frozen=True, slots=True)
class ImageLoad(Task):
    """``docker save`` on one host into ``docker load`` on the other; ``wanted`` is the source's image."""

    how: Move | None = None
    wanted: ImageFacts = field(default_factory=ImageFacts)

    async def run(self, session: Session, tell: Tell) -> str:
        """Bring it over, and see that it is the same."""
        if self.how is None:
            raise StepFailed(session.step, f"{self.host}: {self.by_hand}", host=self.host)
        await move(session, self, self.how, tell)
        found = await image_of(session, session.profile.host(self.host))
        if not same_image((self.wanted, found)):
            raise StepFailed(
                session.step,
                f"{self.host}: what was loaded is not {self.source}'s image ({found.id or found.error}).",
                host=self.host,
                remedy=f"Pull the same tag on both: docker pull {shlex.quote(reference(session))}",
            )
        return f"the same image as on {self.source} ({found.id.removeprefix('sha256:')[:12]})"


@dataclass(frozen=True, slots=True)
class ImagePull(Task):
    """``docker pull``: the operator's own log-in to a registry is Docker's business."""

    async def run(self, session: Session, tell: Tell) -> str:
        """Pull, telling the layers that are there."""
        (command,) = self.commands
        pulled, pace, rest = Pulled(), Pace(), b""
        try:
            async with session.hosts[self.host].open(command) as stream:
                while data := await stream.read():
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        if pulled.hear(line):
                            rate, eta = pace.at(pulled.received, None)
                            tell(
                                TaskProgress(
                                    *(self, pulled.received, None),
                                    rate=rate,
                                    eta=eta,
                                    doing=f"{pulled.layers_done} of {pulled.layers} layers are there",
                                )
                            )
                said = stream.error_text
        except HostError as error:
            raise session.failure(error, command) from error
        if pulled.status != 0:
            lines_ = [line for line in (pulled.said or said).splitlines() if line.strip()]
            raise StepFailed(
                session.step,
                f"{self.host}: could not pull {reference(session)}.",
                host=self.host,
                command=f"docker pull {reference(session)}",
                line=lines_[-1] if lines_ else "",
                remedy="A private image needs `docker login` there; run again, Docker goes on with what it has.",
            )
        found = await image_of(session, session.profile.host(self.host))
        return f"pulled ({found.id.removeprefix('sha256:')[:12]})"


class Pulled:
    """What the pulling script has said. ``received`` are bytes that came by the network meanwhile."""

    def __init__(self) -> None:
        self.layers = 0
        self.layers_done = 0
        self.received = 0
        self.status: int | None = None
        self.said = ""

    def hear(self, line: bytes) -> bool:
        """Read a line; whether it said something."""
        try:
            told = json.loads(line)
            self.layers, self.layers_done = int(told["layers"]), int(told["there"])
            self.received = int(told["received"])
            if told.get("status") is not None:
                self.status, self.said = int(told["status"]), str(told.get("said", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        return True


def reference(session: Session) -> str:
    """The image as the profile names it."""
    runtime = session.profile.runtime
    return getattr(runtime, "image", "")


async def image_of(session: Session, host: HostSpec) -> ImageFacts:
    """The image on a host, as preflight sees it."""
    completed = await session.ask(host_command(session.profile, session.runtime, host))
    if completed.status != 0:
        raise session.failed(completed)
    return parse_host(completed.stdout).image or ImageFacts()


async def image_tasks(session: Session, asked: Asked) -> tuple[list[Task], list[str]]:
    """A load or a pull for each host whose image is missing or another; and in words what can't be done."""
    if asked.docker is None:
        return [], []
    answering = {
        name: facts
        for name, facts in asked.hosts.items()
        if facts.image is not None and not (facts.docker_missing or facts.docker_error)
    }
    notes = [f"{name}: Docker does not answer." for name in asked.hosts if name not in answering]
    having = [name for name, facts in answering.items() if facts.image and facts.image.id]
    if not having:
        return [_pull(asked, name) for name in answering], notes
    source = having[0]
    tasks: list[Task] = []
    for name, facts in answering.items():
        if name != source and not _same(answering[source], facts):
            # A digest is known to a registry only: an image loaded from an archive has none.
            pulled = "@" in asked.docker.image
            tasks.append(_pull(asked, name) if pulled else await _load(session, asked, source, name))
    return tasks, notes


def _same(one: HostFacts, other: HostFacts) -> bool:
    images = (one.image, other.image)
    return all(image and image.id for image in images) and same_image(tuple(i for i in images if i))


def _pull(asked: Asked, name: str) -> ImagePull:
    image = asked.docker.image if asked.docker else ""
    return ImagePull(Kind.IMAGE, name, f"pull {image}", (pull_command(asked.profile.host(name), image),))


def pull_command(host: HostSpec, image: str) -> Command:
    """``docker pull``, with what it says made countable."""
    text = script_text("cockpit.bringup.preparation.scripts", "pull")
    line = f"exec python3 -I -S -c {shlex.quote(text)} docker pull {shlex.quote(image)}\n"
    return streaming(script(host.name, line, f"pull {image}"))


def _no_room(asked: Asked, name: str, size: int) -> str:
    """Why the image can't be put there, "" where it can, as far as is known: where Docker keeps images by default."""
    free = asked.machines[name].free_at(IMAGES) if name in asked.machines else None
    if free is None or free >= size:
        return ""
    return (
        f"{size / 1e9:.1f} GB are to come, and {free / 1e9:.1f} GB are free at {IMAGES}. See what can go: "
        "docker system df ; docker image prune"
    )


async def _load(session: Session, asked: Asked, source: str, name: str) -> ImageLoad:
    image, size = reference(session), 0
    one, other = session.profile.host(source), session.profile.host(name)
    found = asked.hosts[source].image or ImageFacts()
    size = found.size
    port = (await listed(session, one, "~/.docker")).port
    give = pipe.give_command(
        one, other, port, ("docker", "save", image), f"offer {image} to {name} over the fabric"
    )
    take = pipe.take_command(other, one, port, ("docker", "load", "--quiet"), f"load {image} from {source}")
    before = asked.hosts[name].image
    instead = f" in place of {before.id.removeprefix('sha256:')[:12]}" if before and before.id else ""
    title = f"load {image} from {source}{instead}"
    by_hand = _no_room(asked, name, size)
    if not (port or by_hand):
        by_hand = f"{source}'s fabric address is not there: see `spark-cockpit check`."
    how = Move(give, take, knock_command(other, one, port), pipe.parse, size or None)
    return ImageLoad(Kind.IMAGE, name, title, (give, take), size or None, source, by_hand, 0, how, found)
