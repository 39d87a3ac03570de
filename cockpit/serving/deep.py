"""The commands that ask vLLM about a profile's flags in its own runtime: once, or through a warm helper.

The helper is a process on the head with vLLM loaded, in ``$STATE/flags``: its Unix socket, its log, the
scripts it runs. It answers in a fraction of a second, holds about half a GB, and ends by itself when nobody
has asked for a while; before a launch it is ended by ``helper_stop_command``.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from cockpit.model.command import Command
from cockpit.model.profile import EMPTY, Profile
from cockpit.runtime import detached
from cockpit.runtime.docker import DockerEnvironment
from cockpit.runtime.prelude import heredoc
from cockpit.runtime.runtime import Runtime
from cockpit.runtime.script_text import script_text
from cockpit.serving.arguments import value_of

UNIT = "flags"
"""The helper's folder, below ``$STATE``."""

IDLE = 600
"""Seconds without a question after which the helper ends by itself."""

LIMIT = 240.0
"""Seconds a question may take; vLLM's import alone takes 7 to 15, and on a busy host a minute, as may the first
answer."""

ANSWER = 60
"""Seconds that vLLM may take for one answer once it is loaded."""


SCRIPTS = ("identity.py", "flag_schema.py", "part_checks.py", "late_checks.py", "parser_verdict.py")
"""The parts of the script that judges, in this order."""


def question(
    pieces: Sequence[Sequence[str]] = (),
    *,
    lines: Sequence[Sequence[str]] = (),
    deep: bool = False,
    schema: bool = False,
) -> dict[str, Any]:
    """A question to vLLM. ``lines`` are whole command lines; ``pieces`` is one in parts, its head and then a
    part a flag, and goes before the others."""
    asked = {"lines": [list(argv) for argv in lines], "deep": deep, "schema": schema}
    return {**asked, "pieces": [list(piece) for piece in pieces]}


def judge_command(
    profile: Profile,
    runtime: Runtime,
    asked: Mapping[str, Any],
    environment: Mapping[str, str] = EMPTY,
    *,
    keep: bool = False,
    idle: int = IDLE,
    secrets: tuple[str, ...] = (),
) -> Command:
    """Ask vLLM in the runtime on the head. A helper that runs is asked; where none does, one is started with
    ``keep``, else vLLM is loaded for this question alone. ``secrets`` are those of the serve's that vLLM needs
    to read the model's configuration from the hub. ``parser_check.read_verdicts`` reads the output."""
    return runtime.script(
        profile.head,
        _exported(secrets) + judge_text(asked, environment, keep=keep, idle=idle),
        "ask vLLM itself about the flags" + (", in a helper that stays loaded for a while" if keep else ""),
        env=environment,
        secrets=secrets,
        limit=LIMIT,
    )


def once_command(
    profile: Profile,
    runtime: DockerEnvironment,
    asked: Mapping[str, Any],
    environment: Mapping[str, str] = EMPTY,
    *,
    secrets: tuple[str, ...] = (),
) -> Command:
    """The same in a throw-away container, where none of ours runs: with the environment of a launch, or vLLM
    would judge another."""
    return runtime.image_script(
        profile.head,
        _exported(secrets) + once_text(asked),
        "ask the image's vLLM about the flags",
        env=environment,
        secrets=secrets,
        limit=LIMIT,
    )


def _exported(secrets: tuple[str, ...]) -> str:
    """sh text that exports secrets, whose values come in on the way to the host."""
    text = ""
    for name in secrets:
        word, body = heredoc(f"${{{name}}}")
        text += f"{name}=$(cat {word}\n{body})\nexport {name}\n"
    return text


def once_text(asked: Mapping[str, Any]) -> str:
    """The sh text that loads vLLM for this question alone."""
    word, body = heredoc(judge_source())
    return f"python - {shlex.quote(json.dumps(asked))} {word}\n{body}"


def judge_text(
    asked: Mapping[str, Any], environment: Mapping[str, str], *, keep: bool = False, idle: int = IDLE
) -> str:
    """The sh text of ``judge_command``."""
    client_word, client = heredoc(_source("helper_client.py"))
    ask = f'cd "$F" && exec python - {shlex.quote(json.dumps(asked))} {LIMIT - 10:g} {client_word}\n{client}'
    here = (
        f'F="$STATE"/{UNIT}\nKEY={_key(environment)}\n'
        f"helper() {{\n{detached.state(UNIT)}}}\n"
        'ready() {\n  case "$(helper)" in running*) [ "$(cat "$F/key" 2>/dev/null)" = "$KEY" ] ;; '
        "*) false ;; esac\n}\n"
    )
    if keep:
        return f"{here}ready || {{\n{_start(idle)}}}\n{ask}"
    return f"{here}if ready; then\n{ask}fi\n{once_text(asked)}"


def helper_stop_command(profile: Profile, runtime: Runtime) -> Command:
    """End the warm helper; does nothing where none runs."""
    text = f'[ -e "$STATE/{UNIT}/pid" ] || {{ echo "no helper runs"; exit 0; }}\n'
    stop = detached.stop(UNIT, signal="TERM", grace=3)
    return runtime.script(
        profile.head, text + stop, "end the helper that judges flags, if one is loaded", limit=30
    )


def helper_state_command(profile: Profile, runtime: Runtime) -> Command:
    """Whether the warm helper runs; ``detached.parse_state`` reads the output."""
    return runtime.script(profile.head, detached.state(UNIT), "see whether the helper runs", limit=15)


def identity_command(profile: Profile, runtime: Runtime) -> Command:
    """What tells the runtime's vLLM from another, without loading it; ``parse_identity`` reads the output."""
    word, body = heredoc(_source("identity.py") + "\n\nprint(json.dumps(identity()))\n")
    return runtime.script(profile.head, f"python - {word}\n{body}", "see which vLLM is installed", limit=30)


def parse_identity(output: bytes) -> str:
    """The digest; "" where the answer is none, such as that of a runtime without vLLM."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    try:
        return str(json.loads(lines[-1])["digest"]) if lines else ""
    except (ValueError, KeyError, TypeError):
        return ""


def model_command(profile: Profile, runtime: Runtime, environment: Mapping[str, str] = EMPTY) -> Command:
    """Weigh the model on the head, as the runtime sees it; ``memory_fit.parse_model_facts`` reads the output."""
    word, body = heredoc(_source("model_facts.py"))
    revision = value_of(profile.serve.flags, "revision")
    asked = {"model": profile.serve.model, "revision": revision if isinstance(revision, str) else ""}
    quoted = shlex.quote(json.dumps({**asked, "env": dict(profile.serve.env)}))
    return runtime.script(
        profile.head, f"python - {quoted} {word}\n{body}", "weigh the model", env=environment, limit=60
    )


def judge_source() -> str:
    """The text of the script that judges: the identity, the list of flags and the verdicts in one."""
    return "\n\n".join(_source(name) for name in SCRIPTS)


def _start(idle: int) -> str:
    """sh text that ends another helper, writes the scripts and starts this one."""
    text = (
        '(umask 077; mkdir -p "$F") || exit\n'
        f"(\n{detached.stop(UNIT, signal='TERM', grace=3)}) >&2\n"
        'rm -f "$F/socket" "$F/log"\n'
    )
    for name, source in (("judge.py", judge_source()), ("helper.py", _source("warm_helper.py"))):
        word, body = heredoc(source)
        text += f'(umask 077; cat >"$F/{name}") {word} || exit\n{body}'
    program = f'HERE=$PWD; cd "$STATE/{UNIT}" && exec python helper.py {idle} {ANSWER} "$HERE"'
    start = detached.start(UNIT, ["sh", "-c", program])
    return f'{text}echo "$KEY" >"$F/key"\n(\n{start}) >&2 || exit\n'


def _key(environment: Mapping[str, str]) -> str:
    """Changes with the scripts and with the environment that the helper was started in."""
    parts = [judge_source(), _source("warm_helper.py"), json.dumps(sorted(environment.items()))]
    return sha256("\0".join(parts).encode()).hexdigest()[:16]


def _source(name: str) -> str:
    return script_text("cockpit.serving.scripts", name.removesuffix(".py"))
