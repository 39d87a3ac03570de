"""Ray's processes on the hosts: commands that start, watch and stop them.

Ray runs on each host as the detached process ``$STATE/ray``: ``ray start --block``, which ends every process
of its node when it is told to, and itself when one of them dies. Nothing else is ever stopped: ``ray stop``
would end the user's other Ray too.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from cockpit.cluster.arguments import declared_flags, ray_start, temp_dir
from cockpit.cluster.environment import TOKEN, environment_for, ray_address
from cockpit.cluster.texts import python
from cockpit.model.command import Command
from cockpit.model.profile import HostSpec, Profile, Role
from cockpit.runtime import detached
from cockpit.runtime.prelude import CONTAINER_STATE, heredoc
from cockpit.runtime.runtime import Runtime

FOLDER = "ray"
"""Ray's folder below ``$STATE``; its output is in ``ray/log``."""

SECRET = "RAY_TOKEN"
"""The name under which the cluster's token travels from the head to the workers."""

START_LIMIT = 150.0
"""Seconds for ``ray start``: 5 to 8 on a quiet host, 49 on two cores with a load of 16 (measured, Ray 2.60)."""


def head_command(profile: Profile, runtime: Runtime) -> Command:
    """Start Ray's head, or find that it runs; returns when its GCS and its dashboard answer.

    Makes the cluster's token where there is none. Ends with 1 and the reason when a port is taken, which is
    then left alone, and with the end of Ray's output when it doesn't come up.
    """
    ports = (profile.ray.port, profile.ray.dashboard_port)
    return _start(profile, runtime, profile.head, "start Ray's head", _MAKE_TOKEN + _free(profile.head, *ports))


def worker_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """Start Ray on the worker ``host``, or find that it runs; returns when it has joined the head.

    Needs the secret ``RAY_TOKEN``. The head is tried first, for 5 s: ``ray start`` would wait for a dead one.
    """
    word, body = heredoc(f"${{{SECRET}}}")
    token = f'mkdir -p "$STATE/{FOLDER}"\n(umask 077; tr -d "\\n" >"$STATE/{TOKEN}") {word}\n{body}'
    text = token + _reachable(profile, host)
    command = _start(profile, runtime, host, f"join {host.name} to Ray's head", text)
    return replace(command, secrets=(SECRET,))


def token_command(profile: Profile, runtime: Runtime) -> Command:
    """Read the cluster's token on the head; its output is the secret ``RAY_TOKEN``."""
    command = runtime.script(profile.head, f'cat "$STATE/{TOKEN}"\n', "read the cluster's token", limit=15)
    return replace(command, gives=SECRET)


@dataclass(frozen=True, slots=True)
class RayProcess:
    """Ray of this cluster on a host. ``up`` when it runs and has started: a worker has joined then, and the
    head's dashboard answers."""

    process: detached.Process
    up: bool = False


def state_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """Whether Ray of this cluster runs on ``host``; ``parse_state`` reads the answer."""
    text = (
        f"ray_state() (\n{detached.state(FOLDER)})\nFOUND=$(ray_state) || exit\n"
        + 'echo "$FOUND"\n'
        + _started(profile, host)
        + 'case "$FOUND" in running*) if started 2>/dev/null; then echo up; fi ;; esac\n'
    )
    return runtime.script(host, text, "see whether the cluster's Ray runs", limit=15)


def parse_state(output: str) -> RayProcess:
    """Read what ``state_command`` printed; raises ``ValueError`` on anything else."""
    first, _, rest = output.partition("\n")
    return RayProcess(detached.parse_state(first + "\n"), rest == "up\n")


def stop_commands(profile: Profile, runtime: Runtime) -> tuple[Command, ...]:
    """Stop Ray on every host, the workers first, the head last; each verifies that nothing of it is left."""
    return tuple(stop_command(profile, runtime, host) for host in (*reversed(profile.workers), profile.head))


def stop_command(profile: Profile, runtime: Runtime, host: HostSpec) -> Command:
    """Stop this cluster's Ray on ``host``, and take its token away; fails while anything of it runs.

    What the process left of itself goes too: Ray that was stopped is absent, not one that has died.
    """
    # To `ray start` alone: it ends the others in their order. After a signal to all, the raylet waits on.
    left = " ".join(f'"$STATE/{FOLDER}/{name}"' for name in ("token", "pid", "program", "exit-status"))
    ended = detached.stop(FOLDER, signal="TERM", grace=12, group=False)
    text = f"(\n{ended}) || exit\nrm -f {left}\n"
    return runtime.script(host, text, f"stop the cluster's Ray on {host.name}", limit=40)


_MAKE_TOKEN = (
    f'mkdir -p "$STATE/{FOLDER}"\n'
    f'if [ ! -s "$STATE/{TOKEN}" ]; then\n'
    "  (umask 077; python3 -I -c 'import secrets; print(secrets.token_hex(32), end=\"\")' "
    f'>"$STATE/{TOKEN}.new") || exit\n'
    f'  mv "$STATE/{TOKEN}.new" "$STATE/{TOKEN}" || exit\n'
    "fi\n"
)


def _free(host: HostSpec, *ports: int) -> str:
    return (
        "if ! problem=$(\n"
        + python("ports", "free", "-", *(str(port) for port in ports)).replace(" <<", " 2>&1 <<", 1)
        + f'); then\n  echo {host.name}": $problem" >&2\n  exit 1\nfi\n'
    )


def _reachable(profile: Profile, host: HostSpec) -> str:
    head, port = profile.head, profile.ray.port
    says = f"{host.name} can't reach {head.name}'s Ray at {ray_address(profile)}:"
    advice = "Does Ray's head run, is the fabric up on both hosts, and does a firewall let the port through?"
    return (
        "if ! problem=$(\n"
        + python("ports", "answers", head.cluster_address, str(port)).replace(" <<", " 2>&1 <<", 1)
        + f'); then\n  echo {shlex.quote(says)}" $problem. "{shlex.quote(advice)} >&2\n  exit 1\nfi\n'
    )


def _start(profile: Profile, runtime: Runtime, host: HostSpec, why: str, before: str) -> Command:
    folder = temp_dir(profile, host)
    environment = {k: v for k, v in environment_for(profile, host).items() if k != "RAY_ADDRESS"}
    text = (
        f"ray_state() (\n{detached.state(FOLDER)})\n"
        + f"launch() (\n{detached.start(FOLDER, ray_start(profile, host))})\n"
        + _started(profile, host)
        + f"wait_for_it() {{\n{_wait(host)}}}\n"
        # Somebody else's start, or one that outlived its cockpit, may still be on its way.
        + 'case "$(ray_state)" in running*) echo "already running"; TRIES=2; wait_for_it; exit ;; esac\n'
        + before
        + "unset RAY_ADDRESS\n"
        + (_own_folder(folder) if "temp-dir" not in declared_flags(profile) else "")
        + "launch || exit\nTRIES=1\nwait_for_it\n"
    )
    return runtime.script(host, text, why, env=environment, limit=START_LIMIT)


def _own_folder(path: str) -> str:
    """sh text that makes Ray's folder: the user's own in /tmp; in the state folder, which is private itself,
    one that the user of the host can read though the container's made it."""
    word = shlex.quote(path)
    mask = "022" if path.startswith(CONTAINER_STATE) else "077"
    return (
        f"(umask {mask}; mkdir -p {word})\n"
        f"if [ ! -O {word} ]; then\n"
        f"  echo {word}' belongs to another user. Set temp-dir in ray.flags to a folder of your own.' >&2\n"
        "  exit 1\n"
        "fi\n"
        # Ray never removes the folders of its sessions. The last three stay, for their logs.
        f"ls -1dt {word}/session_2* 2>/dev/null | tail -n +4 | xargs -r -d '\\n' rm -rf --\n"
    )


_TOO_SLOW = "timed out during startup"


def _started(profile: Profile, host: HostSpec) -> str:
    """sh text of ``output``, what Ray has said since it was started, and ``started``, whether it is up."""
    dashboard = python("ports", "answers", "127.0.0.1", str(profile.ray.dashboard_port))
    answers = f"answers() (\n{dashboard})\n" if host.role is Role.HEAD else "answers() { :; }\n"
    return (
        answers
        + f'LOG="$STATE/{FOLDER}/log"\n'
        + "output() {\n"
        + f'  FROM=$(cat "$STATE/{FOLDER}/output-from" 2>/dev/null || echo 0)\n'
        + '  tail -c "+$((FROM + 1))" "$LOG"\n}\n'
        + 'started() { output | grep -q "Ray runtime started" && answers; }\n'
    )


def _wait(host: HostSpec) -> str:
    """sh text that waits until Ray is up, and tells the end of its output when it does not come up; exits."""
    late = f"{host.name}: Ray is not up after {START_LIMIT - 10:g} s; it still runs."
    return (
        f"END=$(($(date +%s) + {START_LIMIT - 10:g}))\n"
        + "while :; do\n"
        + '  case "$(ray_state)" in running*) ;; *)\n'
        # Ray gives its raylet 30 s, and nothing changes that (2.60, node.py): too short on a very busy host.
        + f'    if [ "$TRIES" = 1 ] && output | grep -q "{_TOO_SLOW}"; then\n'
        + '      echo "Ray was too slow for its own limit; once more"\n'
        + "      TRIES=2\n      launch || exit\n      continue\n    fi\n"
        + f"    echo {shlex.quote(f'{host.name}: Ray ended while it started:')} >&2\n"
        + "    output | tail -n 30 >&2\n    exit 1 ;;\n  esac\n"
        + "  if started 2>/dev/null; then exit 0; fi\n"
        + '  if [ "$(date +%s)" -ge "$END" ]; then\n'
        + "    output | tail -n 30 >&2\n"
        + f"    echo {shlex.quote(late)} >&2\n"
        + "    exit 1\n  fi\n"
        + "  sleep 0.3\ndone\n"
    )
