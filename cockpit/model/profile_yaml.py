"""From YAML to a ``Profile``: all mistakes are reported together, each at its place.

The README's profile reference lists the keys. What a profile may hold beyond the types: see ``profile_nodes``
(YAML) and ``profile_flags`` (flags and environments).
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePath
from types import MappingProxyType

from cockpit.model import profile_words as words
from cockpit.model.profile import (
    DockerRuntime,
    GuardSpec,
    GuardWhile,
    NativeRuntime,
    Place,
    Profile,
    PromptSpec,
    RaySpec,
    RuntimeSpec,
    ServeSpec,
)
from cockpit.model.profile_error import Mistake, ProfileError
from cockpit.model.profile_flags import RAY_ELSEWHERE, RAY_OWN, SERVE_ELSEWHERE, SHORT_FORMS
from cockpit.model.profile_hosts import PORT, read_hosts
from cockpit.model.profile_nodes import Map, Node, Scalar, compose
from cockpit.model.profile_section import Notes, Section

__all__ = ["Mistake", "ProfileError", "parse"]

_TOP = ("name", "description", "ssh", "hosts", "runtime", "ray", "serve", "prompt")
_DOCKER = ("kind", "image", "mounts", "run_flags", "env")
_NATIVE = ("kind", "venv", "env")
_SERVE = ("model", "served_name", "flags", "env", "secrets", "ready_within", "guard")
_RUN_FLAGS_OWN = re.compile(r"(--(name|detach|rm|entrypoint|interactive|tty|pull|cidfile)(=.*)?|-[dit]+)")


def parse(data: bytes, file: str) -> Profile:
    """The profile in ``data``; ``file`` is the name that messages and places give.

    Raises ``ProfileError`` with every mistake, and nothing else.
    """
    root, mistakes = compose(data, file)
    notes = Notes(file, mistakes)
    if root is None or (isinstance(root, Scalar) and root.value is None):
        notes.mistake(Place(file, 1, 1), "The profile is empty; it needs the keys hosts, runtime and serve.")
    elif not isinstance(root, Map):
        notes.mistake(root.place, f"Expected a mapping with the keys {', '.join(_TOP)}.")
    else:
        notes.record(root, ())
        profile = _profile(Section(notes, root, (), _TOP, ("hosts", "runtime", "serve")), data)
        if profile and not notes.mistakes:
            return profile
    raise ProfileError(file, notes.mistakes)


def _profile(top: Section, data: bytes) -> Profile | None:
    notes = top.notes
    name = top.text("name", check=words.name)
    if "name" not in top.map.entries:
        name = PurePath(notes.file).stem
        if words.name(name):
            place = Place(notes.file, 1, 1)
            notes.mistake(place, f"Without the key `name` the file's name is the profile's: `{name}` is none.")
    ssh = top.section("ssh", ("config",))
    ssh_config = ssh.text("config", check=words.path) if ssh else ""
    description = top.text("description", lines=True)
    hosts = read_hosts(top)
    runtime = _runtime(top)
    serve = _serve(top)
    ray = _ray(top)
    prompt = _prompt(top)
    if runtime is None or serve is None or not hosts:
        return None
    _ports(top, serve, ray, len(hosts))
    return Profile(
        name=name,
        hosts=hosts,
        runtime=runtime,
        serve=serve,
        ray=ray,
        prompt=prompt,
        description=description,
        ssh_config=ssh_config,
        file=notes.file,
        digest=hashlib.sha256(data).hexdigest(),
        places=MappingProxyType(notes.places),
    )


def _runtime(top: Section) -> RuntimeSpec | None:
    node = top.mapping("runtime")
    if node is None:
        if "runtime" in top.map.entries:
            top.notes.mistake(top.place("runtime"), "runtime: expected `kind: docker` or `kind: native`.")
        return None
    every = tuple(dict.fromkeys((*_DOCKER, *_NATIVE)))
    kind = Section(Notes(top.notes.file), node, ("runtime",), every).choice("kind", ("docker", "native"))
    keys, required = {
        "docker": (_DOCKER, ("image",)),
        "native": (_NATIVE, ("venv",)),
    }.get(kind, (every, ("kind",)))
    section = Section(top.notes, node, ("runtime",), keys, required)
    section.choice("kind", ("docker", "native"))
    if kind == "native":
        return NativeRuntime(section.text("venv", check=words.path), section.env())
    if kind != "docker":
        return None
    mounts = section.words("mounts", words.mount)
    _targets(section, mounts)
    run_flags = section.items("run_flags")
    _run_flags(section, run_flags)
    return DockerRuntime(
        image=section.text("image", check=words.image),
        mounts=mounts,
        run_flags=tuple(section.word("run_flags", item) for item in run_flags),
        env=section.env(),
    )


def _targets(section: Section, mounts: tuple[str, ...]) -> None:
    targets = [mount.split(":")[1].rstrip("/") for mount in mounts]
    for target in sorted({target for target in targets if targets.count(target) > 1}):
        section.notes.mistake(section.place("mounts"), f"runtime.mounts: two mounts on {target or '/'}.")


def _run_flags(section: Section, items: tuple[Node, ...]) -> None:
    for index, node in enumerate(items):
        text = node.text if isinstance(node, Scalar) else ""
        if _RUN_FLAGS_OWN.fullmatch(text):
            message = (
                f"runtime.run_flags[{index}]: the cockpit sets `{text.split('=')[0]}` itself: leave it out."
            )
            section.notes.mistake(node.place, message)
        elif match := re.fullmatch(r"(--?[A-Za-z][A-Za-z0-9-]*)\s+(.*)", text):
            right = (
                f"{match[1]}={match[2]}" if text.startswith("--") else f"{match[1]}, then {match[2]} as an item"
            )
            message = f"runtime.run_flags[{index}]: each item is one word of the command line."
            section.notes.mistake(node.place, message, right)


def _ray(top: Section) -> RaySpec:
    section = top.section("ray", ("port", "dashboard_port", "flags", "env"))
    default = RaySpec()
    if section is None:
        return default
    return RaySpec(
        port=section.whole("port", default.port, *PORT),
        dashboard_port=section.whole("dashboard_port", default.dashboard_port, *PORT),
        flags=section.flags("flags", RAY_ELSEWHERE, RAY_OWN, {}),
        env=section.env(),
    )


def _serve(top: Section) -> ServeSpec | None:
    section = top.section("serve", _SERVE, ("model",))
    if section is None:
        if "serve" in top.map.entries:
            top.notes.mistake(top.place("serve"), "serve: expected a mapping with the key `model`.")
        return None
    flags = section.flags("flags", SERVE_ELSEWHERE, frozenset(), SHORT_FORMS)
    if "port" in flags and (node := section.mapping("flags")):
        Section(section.notes, node, ("serve", "flags"), tuple(node.entries)).whole("port", 8000, *PORT)
    env = section.env()
    secrets = section.words("secrets", words.env_name)
    for secret in secrets:
        if secret in env:
            section.notes.mistake(
                section.place("secrets"), f"serve.secrets: {secret} is also set in serve.env."
            )
    return ServeSpec(
        model=section.text("model", check=words.model),
        served_name=section.text("served_name"),
        flags=flags,
        env=env,
        secrets=secrets,
        ready_within=section.number("ready_within", ServeSpec("").ready_within, 1, 7 * 86400),
        guard=_guard(section),
    )


def _guard(serve: Section) -> GuardSpec:
    """``while: off`` and the bare words are the same to YAML 1.2: text."""
    section = serve.section("guard", ("reserve", "while"))
    if section is None:
        return GuardSpec()
    during = section.choice("while", tuple(GuardWhile)) or GuardWhile.LOADING
    return GuardSpec(section.size("reserve", 0, 2**20, 2**40), GuardWhile(during))


def _prompt(top: Section) -> PromptSpec:
    section = top.section("prompt", ("text", "system", "max_tokens", "temperature"))
    default = PromptSpec()
    if section is None:
        return default
    return PromptSpec(
        text=section.text("text", default.text, lines=True),
        system=section.text("system", lines=True),
        max_tokens=section.whole("max_tokens", default.max_tokens, 1, 1_000_000),
        temperature=section.number("temperature", default.temperature, 0, 2),
    )


def _ports(top: Section, serve: ServeSpec, ray: RaySpec, hosts: int) -> None:
    """On the head host the API, Ray and its dashboard each need a port of their own."""
    used = {"serve.flags.port": serve.port}
    if hosts > 1:
        used |= {"ray.port": ray.port, "ray.dashboard_port": ray.dashboard_port}
    first: dict[int, str] = {}
    for key, port in used.items():
        if port in first:
            places = top.notes.places
            place = next(
                (places[path] for name in (key, first[port]) if (path := tuple(name.split("."))) in places),
                top.map.place,
            )
            top.notes.mistake(place, f"{key} and {first[port]} are both {port}: on the head host both listen.")
        first.setdefault(port, key)
