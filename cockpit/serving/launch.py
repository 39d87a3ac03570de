"""A run: one launch of ``vllm serve`` on the head, with an id, a record, a log and an exit status.

A run has a folder of its own, ``$STATE/runs/ID`` (open to the host's user, who alone can enter ``$STATE``: in a
container another user makes it), where ``runtime.detached`` keeps what the process leaves
(launch.sh, pid, serve.log, exit-status); ``record.json`` says what was started. ``$STATE/runs/current`` is
a link to the last one. The host decides the id, so that the plan shows the very text that will run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from cockpit.model.command import Command
from cockpit.model.profile import DockerRuntime, Profile
from cockpit.runtime import detached
from cockpit.runtime.prelude import exports, heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.serving.arguments import serve_argv
from cockpit.serving.guard import guard_text, shown

CURRENT = "runs/current"
"""The folder of the last run, below ``$STATE``."""

LOG = "serve.log"
"""The serve log's name in a run's folder."""

_ALREADY = "already-running"
_STARTED = "started"


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch did: the run's id, and whether it was started now or ran already."""

    run: str
    started: bool


@dataclass(frozen=True, slots=True)
class Run:
    """The last run as its host has it. ``log_size`` in bytes; ``record`` is record.json, {} where it can't
    be read."""

    id: str
    process: detached.Process
    log_size: int = 0
    record: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastRun:
    """One line of the list of runs. ``status`` is None while it runs, or when it left none."""

    id: str
    started_at: str
    status: int | None
    log_size: int


def ray_environment(profile: Profile) -> dict[str, str]:
    """What every launch over Ray needs.

    Without RAY_ADDRESS vLLM starts a Ray of its own, silently; with Ray's defaults about half of the per-rank
    lines come late or folded, and in colours (measured with vLLM 0.32.0, Ray 2.60.0).
    """
    address = profile.head.cluster_address
    bracketed = f"[{address}]" if ":" in address else address
    return {
        "RAY_ADDRESS": f"{bracketed}:{profile.ray.port}",
        "RAY_DEDUP_LOGS": "0",
        "RAY_COLOR_PREFIX": "0",
        "VLLM_HOST_IP": address,
    }


def launch_command(
    profile: Profile,
    runtime: Runtime,
    environment: Mapping[str, str],
    *,
    image_id: str = "",
    forced: str = "",
) -> Command:
    """The command that launches the profile's serve on the head, or finds that a run is running.

    ``environment`` is everything the serve needs beside what the runtime gives: the host's own, Ray's, the
    profile's. ``forced`` is what stood against the launch, for the record. ``parse_launched`` reads its output.
    """
    return runtime.script(
        profile.head,
        launch_text(profile, environment, image_id=image_id, forced=forced),
        f"launch vllm serve {profile.serve.model} ({shown(profile)})",
        secrets=profile.serve.secrets,
        limit=60,
    )


def launch_text(
    profile: Profile, environment: Mapping[str, str], *, image_id: str = "", forced: str = ""
) -> str:
    """The sh text of a launch."""
    start = detached.start(CURRENT, serve_argv(profile), log=LOG, prelude=_prelude(profile, environment))
    return f"""\
set -eu
export STATE
last_run() {{
{detached.state(CURRENT).rstrip()}
}}
mkdir -p "$STATE/runs"
exec 9>"$STATE/runs/lock"
flock -w 20 9
if [ -e "$STATE/{CURRENT}" ]; then
    case $(last_run) in *{detached.ProcessState.RUNNING.value}*)
        echo "{_ALREADY} $(basename "$(readlink "$STATE/{CURRENT}")")"
        exit 0;;
    esac
fi
run=$(date -u +%Y%m%d-%H%M%S)-$(od -An -N2 -tx1 /dev/urandom | tr -d ' \\n')
mkdir -m 755 "$STATE/runs/$run"
{_record(profile, environment, image_id, forced)}
{_secrets(profile)}\
ln -s "$run" "$STATE/runs/.current.$$"
mv -T "$STATE/runs/.current.$$" "$STATE/{CURRENT}"
{{
{start.rstrip()}
}} 9>&- >&2
{_guard(profile)}\
echo "{_STARTED} $run"
"""


def _guard(profile: Profile) -> str:
    """The sh text that starts the head's memory guard. The run goes on without one, and its log says so."""
    text = guard_text(profile, profile.head, CURRENT).rstrip()
    failed = f"Memory guard on {profile.head.name}: it could not be started; nothing watches the memory."
    return (
        f'(\nset +eu\n{text}\n) 9>&- >&2 || echo {shlex.quote(failed)} | tee -a "$STATE/{CURRENT}/{LOG}" >&2\n'
    )


def parse_launched(output: bytes) -> Launched:
    """Read what the launch printed; raises ``ValueError`` on anything else."""
    for line in reversed(output.decode("utf-8", "replace").splitlines()):
        word, _, run = line.partition(" ")
        if word in (_ALREADY, _STARTED) and run:
            return Launched(run.strip(), word == _STARTED)
    raise ValueError(f"not the answer of a launch: {output[-200:]!r}")


def run_state_text() -> str:
    """The sh text that tells of the last run; ``parse_run_state`` reads its output."""
    return f"""\
if [ ! -e "$STATE/{CURRENT}" ]; then echo none; exit 0; fi
echo "run $(basename "$(readlink "$STATE/{CURRENT}")")"
echo "log $(stat -L -c %s "$STATE/{CURRENT}/{LOG}" 2>/dev/null || echo 0)"
echo "record $(cat "$STATE/{CURRENT}/record.json" 2>/dev/null)"
{detached.state(CURRENT)}
"""


def run_state_command(profile: Profile, runtime: Runtime) -> Command:
    """The command that tells of the last run."""
    return runtime.script(profile.head, run_state_text(), "see whether a run is running", limit=15)


def parse_run_state(output: bytes) -> Run | None:
    """The last run, None where there never was one; raises ``ValueError`` on anything else."""
    lines = output.decode("utf-8", "replace").split("\n", 3)
    if lines[0].strip() == "none":
        return None
    if len(lines) < 4 or not (lines[0].startswith("run ") and lines[1].startswith("log ")):
        raise ValueError(f"not the state of a run: {output[:200]!r}")
    size = lines[1][4:].strip()
    return Run(
        lines[0][4:].strip(),
        detached.parse_state(lines[3]),
        int(size) if size.isdigit() else 0,
        _json_object(lines[2].removeprefix("record").strip()),
    )


def runs_text() -> str:
    """The sh text that lists all runs, the oldest first; ``parse_runs`` reads its output."""
    return f"""\
for folder in "$STATE"/runs/*/; do
    if [ ! -f "$folder/record.json" ] || [ -L "${{folder%/}}" ]; then continue; fi
    echo "$(basename "$folder") $(stat -c %s "$folder/{LOG}" 2>/dev/null || echo 0) \\
$(head -n 1 "$folder/exit-status" 2>/dev/null || echo -) $(cat "$folder/record.json")"
done
"""


def parse_runs(output: bytes) -> tuple[PastRun, ...]:
    """The runs that ``runs_text`` lists; a line that isn't one is passed over."""
    runs = []
    for line in output.decode("utf-8", "replace").splitlines():
        parts = line.split(None, 3)
        if len(parts) == 4 and parts[1].isdigit():
            started = _json_object(parts[3]).get("started_at", "")
            status = int(parts[2]) if parts[2].isdigit() else None
            runs.append(PastRun(parts[0], str(started), status, int(parts[1])))
    return tuple(runs)


def _prelude(profile: Profile, environment: Mapping[str, str]) -> str:
    """The head of launch.sh: the environment, and the secrets, whose files are gone once read."""
    text, folder = exports(environment), '"$SPARK_COCKPIT_UNIT/secrets"'
    for name in profile.serve.secrets:
        text += f"{name}=$(cat {folder}/{name})\nexport {name}\n"
    return text + (f"rm -rf {folder}\n" if profile.serve.secrets else "")


def _secrets(profile: Profile) -> str:
    """Each secret in a file of its own that only the user can read; the value comes in on standard input."""
    if not profile.serve.secrets:
        return ""
    text = 'umask 077\nmkdir "$STATE/runs/$run/secrets"\n'
    for name in profile.serve.secrets:
        word, body = heredoc(f"${{{name}}}")
        text += f'cat >"$STATE/runs/$run/secrets/{name}" {word}\n{body}'
    return text


def _record(profile: Profile, environment: Mapping[str, str], image_id: str, forced: str) -> str:
    """The sh text that writes record.json, on one line."""
    runtime = profile.runtime
    where = (
        {"kind": "docker", "image": runtime.image, "image_id": image_id}
        if isinstance(runtime, DockerRuntime)
        else {"kind": "native", "venv": runtime.venv}
    )
    declared = {
        "argv": list(serve_argv(profile)),
        "environment": dict(environment),
        "secrets": list(profile.serve.secrets),
        "runtime": where,
        "profile": {"name": profile.name, "digest": profile.digest},
        "cockpit": _own_version(),
        **({"forced": forced} if forced else {}),
    }
    rest = shlex.quote(json.dumps(declared)[1:])
    return (
        'printf \'{"schema": 1, "id": "%s", "started_at": "%s", %s\\n\' "$run" '
        f'"$(date -u +%Y-%m-%dT%H:%M:%SZ)" \\\n    {rest} > "$STATE/runs/$run/record.json"'
    )


def _own_version() -> str:
    """The cockpit's version, "" where it runs from a checkout that is not installed."""
    try:
        return version("spark-cockpit")
    except PackageNotFoundError:
        return ""


def _json_object(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
