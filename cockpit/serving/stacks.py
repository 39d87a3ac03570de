"""The Python stacks of a run's processes: what every rank is doing right now, where py-spy may look.

Nothing is installed: py-spy is taken where the environment that holds vLLM has it (Ray's dashboard brings it), and
its absence is said. It needs the right to trace: the same user with ptrace allowed, or, in a container, root with
``--cap-add=SYS_PTRACE``.
"""

from __future__ import annotations

from shlex import quote

from cockpit.model.command import Command, script
from cockpit.model.profile import HostSpec, Profile
from cockpit.runtime.prelude import heredoc, state_folder
from cockpit.runtime.runtime import Runtime
from cockpit.runtime.script_text import script_text
from cockpit.serving.launch import CURRENT

FOLDER = "stacks"
"""In a run's folder on the head: a file a host."""

LIMIT = 90.0
"""Seconds for a host; the script gives its processes sixty in all."""

MOST = 1 << 20
"""Bytes of a host's stacks that are kept."""

YOUNG = 15
"""Minutes for which kept stacks say something about what the run does now."""

_RAY = "ray"


def stacks_command(runtime: Runtime, host: HostSpec) -> Command:
    """Take the stacks of this profile's processes on ``host``; what it prints is kept as it is."""
    word, body = heredoc(script_text("cockpit.serving.scripts", "stacks"))
    text = f"exec python3 -I -S - {quote(CURRENT)} {quote(_RAY)} {word}\n{body}"
    return runtime.script(host, text, "take the Python stacks of every rank (py-spy, reads only)", limit=LIMIT)


def keep_command(profile: Profile, run: str, host: HostSpec, taken: bytes) -> Command:
    """Keep what was taken on ``host`` in the run's folder on the head."""
    word, body = heredoc(taken[:MOST].decode("utf-8", "replace").replace("\0", ""))
    folder = f'"$STATE"/runs/{quote(run)}/{FOLDER}'
    text = (
        f"{state_folder(profile)}mkdir -p {folder} || exit\ncat >{folder}/{quote(host.name)}.txt {word}\n{body}"
    )
    return script(profile.head.name, text, f"keep the stacks of {host.name} in the run's folder", limit=30)


def kept_command(profile: Profile, run: str) -> Command:
    """The stacks that were kept of a run and are still young, each behind a line ``## host NAME``."""
    folder = f'"$STATE"/runs/{quote(run)}/{FOLDER}'
    text = (
        f"{state_folder(profile)}cd {folder} 2>/dev/null || exit 0\n"
        f'for file in $(find . -name "*.txt" -mmin -{YOUNG} | sort); do\n'
        "  name=${file#./}\n"
        '  [ -s "$file" ] && printf "## host %s\\n" "${name%.txt}" &&'
        f' head -c {MOST} "$file"\ndone\n'
        "exit 0"
    )
    return script(profile.head.name, text, "read the stacks that were taken", limit=30)


def parse_kept(output: bytes) -> dict[str, bytes]:
    """The stacks by host, as ``kept_command`` prints them."""
    found: dict[str, bytes] = {}
    name = ""
    for line in output.splitlines(keepends=True):
        if line.startswith(b"## host "):
            name = line[8:].decode("utf-8", "replace").strip()
            found[name] = b""
        elif name:
            found[name] += line
    return found
