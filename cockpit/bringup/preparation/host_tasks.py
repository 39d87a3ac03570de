"""What is done on one host alone: missing folders are made, the page cache is dropped."""

from __future__ import annotations

from dataclasses import dataclass

from cockpit.bringup.errors import StepFailed
from cockpit.bringup.preparation.task import Kind, Task, Tell
from cockpit.bringup.session import Session
from cockpit.model.command import script
from cockpit.probes.asked import Asked
from cockpit.probes.checks_machine import DROP, cache_in_the_way
from cockpit.runtime.prelude import home_path

GIB = 1024**3

_DROP = """\
before=$(awk '/^MemFree:/ {print $2}' /proc/meminfo)
sync
if [ "$(id -u)" = 0 ]; then echo 3 >/proc/sys/vm/drop_caches || exit
else echo 3 | sudo -n tee /proc/sys/vm/drop_caches >/dev/null || exit
fi
after=$(awk '/^MemFree:/ {print $2}' /proc/meminfo)
echo "$((before / 1024)) MiB were free, $((after / 1024)) MiB are now"
"""


def folder_tasks(asked: Asked) -> list[Task]:
    """The folders that the profile mounts and a host lacks."""
    tasks = []
    for name, facts in asked.hosts.items():
        if facts.missing:
            told = " ".join(facts.missing)
            text = "\n".join(f"mkdir -p {home_path(path)} || exit" for path in facts.missing)
            command = script(name, text, f"make {told}")
            tasks.append(
                Task(Kind.FOLDERS, name, f"make the folders {told}, which the profile mounts", (command,))
            )
    return tasks


@dataclass(frozen=True, slots=True)
class DropCache(Task):
    """Needs root: what no password-less sudo gives is the operator's to do."""

    async def run(self, session: Session, tell: Tell) -> str:
        """Drop it, and tell what is free now."""
        if self.by_hand:
            raise StepFailed(session.step, f"{self.host}: {self.by_hand}", host=self.host)
        # By its name: a dataclass with slots is another class than the one ``super()`` would mean.
        return await Task.run(self, session, tell)


def cache_tasks(asked: Asked, *, wanted: bool) -> list[Task]:
    """The hosts on which the page cache is in the way of a start; every host where it was ``wanted``."""
    tasks: list[Task] = []
    for name, facts in asked.machines.items():
        if wanted or cache_in_the_way(asked, name):
            title = f"drop the page cache ({facts.page_cache / GIB:.1f} GiB of {facts.total / GIB:.1f})"
            by_hand = "" if facts.sudo else f"sudo asks for a password there. In a terminal of its own: {DROP}"
            command = script(name, _DROP, "drop the page cache", limit=120)
            tasks.append(DropCache(Kind.CACHE, name, title, (command,), by_hand=by_hand))
    return tasks
