"""The container of a cluster on a host: sh text that starts, finds and removes it, and its state."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from cockpit.model.profile import DockerRuntime, Profile
from cockpit.runtime.prelude import CONTAINER_STATE, home_path

LABEL = "org.spark-cockpit.cluster"
"""Its value is the profile's name: what carries it is ours."""

DIGEST_LABEL = "org.spark-cockpit.arguments"
"""A digest of what the container was started with."""

_INIT = 'trap "exit 0" TERM INT; while :; do sleep 86400 & wait "$!"; done'
"""The container's PID 1: reaps what is orphaned, and ends at once when the container is stopped."""


class ContainerKind(StrEnum):
    """Stopped: ours, but it has ended. Stale: ours, started from other arguments or another image.
    Foreign: not ours, but it has the name that ours would get."""

    ABSENT = "absent"
    RUNNING = "running"
    STOPPED = "stopped"
    STALE = "stale"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Container:
    """The cluster's container on a host. ``detail`` says in words what makes it stale, stopped or foreign."""

    kind: ContainerKind
    id: str = ""
    detail: str = ""


def container_name(profile: Profile) -> str:
    """The name the container gets, for people who look; the cockpit finds it by its label."""
    return f"spark-cockpit-{profile.name}"


def digest(spec: DockerRuntime) -> str:
    """A digest of everything the container is started with."""
    return sha256(run_words(spec).encode()).hexdigest()[:16]


def find(profile: Profile, status: int) -> str:
    """sh text that sets ``$CONTAINER`` to the id of our running container, or ends with ``status``."""
    name = profile.name
    return (
        f"CONTAINER=$(docker ps -q --no-trunc --filter {_label(profile)} --filter status=running) || exit\n"
        'case "$CONTAINER" in\n'
        "  *[!0-9a-f]*)\n"
        f"    echo {shlex.quote(f'More than one running container has the label {LABEL}={name}.')} >&2\n"
        "    exit 1 ;;\n"
        "  '')\n"
        f"    echo {shlex.quote(f'No container of the cluster {name} runs here.')} >&2\n"
        f"    exit {status} ;;\n"
        "esac\n"
    )


def run_words(spec: DockerRuntime) -> str:
    """The words of ``docker run`` between ``run`` and the image, as sh text.

    The profile's own ``run_flags`` come last, and take the place of ours where Docker would add up the two.
    """
    words = ["--pull=never"]
    words += [f"{name} {value}" for name, value in _DEFAULTS if not _declared(spec.run_flags, name)]
    words += [f"--ulimit {name}={value}" for name, value in _ULIMITS if not _limited(spec.run_flags, name)]
    words += [f"-v {_mount(mount)}" for mount in spec.mounts]
    words += [shlex.quote(flag) for flag in _without_no_gpus(spec.run_flags)]
    return " ".join(words)


_DEFAULTS = (("--network", "host"), ("--ipc", "host"), ("--gpus", "all"), ("--restart", "no"))

# RDMA registers memory that must be locked; the rest is what NVIDIA's own images ask for, and room for sockets.
_ULIMITS = (("memlock", "-1"), ("stack", "67108864"), ("nofile", "1048576:1048576"))


def _limited(flags: tuple[str, ...], name: str) -> bool:
    return any(word.removeprefix("--ulimit=").startswith(f"{name}=") for word in flags)


def _declared(flags: tuple[str, ...], name: str) -> bool:
    if name == "--gpus" and any("nvidia.com/gpu" in flag for flag in flags):
        return True
    same = {name, "--net"} if name == "--network" else {name}
    return any(flag.split("=", 1)[0] in same for flag in flags)


def _without_no_gpus(flags: tuple[str, ...]) -> tuple[str, ...]:
    """``--gpus=none`` (or in two words) is the cockpit's own word for a host without a GPU."""
    text = [flag for flag in flags if flag != "--gpus=none"]
    for index in range(len(text) - 1, 0, -1):
        if text[index - 1 : index + 1] == ["--gpus", "none"]:
            del text[index - 1 : index + 1]
    return tuple(text)


def _mount(mount: str) -> str:
    source, separator, rest = mount.partition(":")
    return home_path(source) + shlex.quote(separator + rest)


def mount_checks(spec: DockerRuntime) -> str:
    """sh text that sets ``$IMAGE`` and ends with status 1 where the image or a mount's folder is missing.

    Docker would make a missing folder, owned by root and empty, and pull a missing image.
    """
    lines = [f"IMAGE={shlex.quote(spec.image)}\n"]
    lines.append(
        'docker image inspect --format "" -- "$IMAGE" >/dev/null || {\n'
        '  echo "The image $IMAGE is not on this host; nothing is pulled by the cockpit." >&2\n'
        "  exit 1\n}\n"
    )
    for mount in spec.mounts:
        source = mount.partition(":")[0]
        if source.startswith(("/", "~")):
            lines.append(
                f"[ -e {home_path(source)} ] || {{\n"
                f'  echo "There is no "{home_path(source)}" here, which the profile mounts." >&2\n'
                "  exit 1\n}\n"
            )
    return "".join(lines)


def start_text(profile: Profile, spec: DockerRuntime) -> str:
    """See ``DockerEnvironment.container_start``."""
    name = shlex.quote(container_name(profile))
    return (
        _functions(profile, spec)
        + "look\n"
        + 'case "$KIND" in\n'
        + '  running) echo "$CONTAINER"; exit 0 ;;\n'
        + '  stopped) docker rm "$CONTAINER" >/dev/null || exit ;;\n'
        + '  stale | foreign) echo "$DETAIL" >&2; exit 1 ;;\n'
        + "esac\n"
        + mount_checks(spec)
        + '(umask 077; mkdir -p "$STATE") || exit\n'
        + f"exec docker run -d --name {name} --label {shlex.quote(f'{LABEL}={profile.name}')} "
        + f'--label {DIGEST_LABEL}={digest(spec)} -v "$STATE":{CONTAINER_STATE} {run_words(spec)} '
        + f'--entrypoint sh "$IMAGE" -c {shlex.quote(_INIT)}\n'
    )


def state_text(profile: Profile, spec: DockerRuntime) -> str:
    """sh text that prints one line for ``parse_container``."""
    return _functions(profile, spec) + 'look\necho "$KIND ${CONTAINER:--} $DETAIL"\n'


def parse_container(output: str) -> Container:
    """Read what ``state_text`` printed; raises ``ValueError`` on anything else."""
    kind, _, rest = output.strip("\n").partition(" ")
    identity, _, detail = rest.partition(" ")
    if "\n" in detail or not identity:
        raise ValueError(f"not the state of a container: {output[:200]!r}")
    return Container(ContainerKind(kind), "" if identity == "-" else identity, detail)


def remove_text(profile: Profile) -> str:
    """sh text that removes our containers by their ids, and looks again."""
    ours = f"docker ps -aq --no-trunc --filter {_label(profile)}"
    return (
        f"IDS=$({ours}) || exit\n"
        '[ -n "$IDS" ] || { echo "no container of ours is here"; exit 0; }\n'
        "for ID in $IDS; do\n"
        '  docker rm -f -v "$ID" >/dev/null || FAILED=yes\n'
        "done\n"
        f"LEFT=$({ours}) || exit\n"
        '[ -z "$LEFT$FAILED" ] || { echo "still here: $LEFT" >&2; exit 1; }\n'
        "echo removed $IDS\n"
    ).replace("IDS=$(", "FAILED=\nIDS=$(", 1)


def _label(profile: Profile) -> str:
    return shlex.quote(f"label={LABEL}={profile.name}")


def _functions(profile: Profile, spec: DockerRuntime) -> str:
    """sh text of ``look``: sets KIND, CONTAINER and DETAIL."""
    name = container_name(profile)
    state = f'{{{{.State.Status}}}} {{{{.Image}}}} {{{{index .Config.Labels "{DIGEST_LABEL}"}}}}'
    foreign = f"The container {name} has the name of this cluster's, and isn't ours: it is left alone."
    return (
        "look() {\n"
        "  KIND=absent DETAIL=\n"
        f"  CONTAINER=$(docker ps -aq --no-trunc --filter {_label(profile)}) || exit\n"
        '  if [ -z "$CONTAINER" ]; then\n'
        f"    CONTAINER=$(docker ps -aq --no-trunc --filter {shlex.quote(f'name=^/?{name}$')}) || exit\n"
        f'    [ -z "$CONTAINER" ] || {{ KIND=foreign DETAIL={shlex.quote(foreign)}; }}\n'
        "    return 0\n"
        "  fi\n"
        '  case "$CONTAINER" in *[!0-9a-f]*)\n'
        '    KIND=stale DETAIL="More than one container has the label of this cluster." CONTAINER=\n'
        "    return 0 ;;\n"
        "  esac\n"
        f'  STATUS=$(docker inspect --format {shlex.quote(state)} "$CONTAINER") || exit\n'
        "  DIGEST=${STATUS##* } STATUS=${STATUS% *}\n"
        "  IMAGE_ID=${STATUS##* } STATUS=${STATUS% *}\n"
        f"  CURRENT=$(docker image inspect --format '{{{{.Id}}}}' -- {shlex.quote(spec.image)} 2>/dev/null)\n"
        '  if [ "$STATUS" != running ]; then\n'
        '    KIND=stopped DETAIL="The container is $STATUS."\n'
        f'  elif [ "$DIGEST" != {digest(spec)} ]; then\n'
        '    KIND=stale DETAIL="The container was started from other mounts or flags than the profile\'s."\n'
        '  elif [ -n "$CURRENT" ] && [ "$IMAGE_ID" != "$CURRENT" ]; then\n'
        '    KIND=stale DETAIL="The container was started from another image than the profile\'s is now."\n'
        "  else KIND=running\n"
        "  fi\n"
        "}\n"
    )
