"""A profile's YAML, made of a shipped one and the hosts of the set-up. Pure: texts and facts in, a text out.

The shipped profile's comments stay where they hold: what was marked CHANGE and is filled in now is marked no more,
and what was said of another model, another interface, or the shipped file itself goes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any, Final

from cockpit.model.profile import Role
from cockpit.tui.setup_profile import Candidate, End, fabric, host_name

MARK: Final = "CHANGE"
"""Marks in a shipped profile the lines that each operator has to look at."""
OF_THE_FILE: Final = "copy this file"
"""Told in comments of the shipped file alone."""
OF_THE_MODEL: Final = "# The model "
"""Begins a comment on the shipped profile's own model."""
_PART: Final = re.compile(r"(hosts|runtime|ray|serve|prompt):")
_CABLED: Final = re.compile(r"enp1s0f([01])np[01]")
"""The ConnectX's ports on a Spark."""


def propose(base: str, name: str, candidates: Sequence[Candidate], runtime: str, model: str) -> str:
    """The profile's YAML: ``base``, a shipped profile's text, with these hosts; the first is the head.
    ``runtime`` is an image, or the folder of a virtual environment (it begins with / or ~); "" leaves the
    base's, as does an empty ``model``."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    data = yaml.load(base)
    shipped = str(data["name"])
    data["name"] = name
    _hosts(data, candidates)
    if runtime.startswith(("/", "~")):
        data["runtime"] = {"kind": "native", "venv": runtime}
    elif runtime:
        data["runtime"]["image"] = runtime
        _filled_in(data["runtime"], "image")
    other_model = bool(model) and model != data["serve"]["model"]
    if other_model:
        _other_model(data, model, shipped)
    out = io.StringIO()
    yaml.dump(data, out)
    return _own(out.getvalue(), shipped, name, other_model=other_model)


def _own(text: str, shipped: str, name: str, *, other_model: bool) -> str:
    """The text without what was said of the shipped file and its model, its commands with the new name, and a
    blank line before each part."""
    lines = text.split("\n")
    marked = any(MARK in line and not line.startswith("#") for line in lines)
    gone = (OF_THE_FILE,) if marked else (OF_THE_FILE, MARK)
    kept: list[str] = []
    for line in lines:
        comment = line.startswith("#")
        if comment and any(word in line for word in gone):
            continue
        if other_model and line.lstrip().startswith(OF_THE_MODEL):
            continue
        if comment:
            line = re.sub(rf"(spark-cockpit [a-z]+) {re.escape(shipped)}\b", rf"\1 {name}", line)
        if _PART.match(line) and kept and kept[-1] and not kept[-1].startswith("#"):
            kept.append("")
        if kept and not kept[-1] and line.startswith("    fabric:"):
            # It was added where the next part's blank line stood.
            kept.pop()
        kept.append(re.sub(r"^( +(?:address|image): \S+) +#", r"\1 #", line))
    return "\n".join(kept).replace("#\nname:", "name:", 1)


def _hosts(data: Any, candidates: Sequence[Candidate]) -> None:
    """The base's hosts with these in their places; those it lacks are added, those left over taken out."""
    ends = fabric(candidates)
    hosts, names = data["hosts"], list[str]()
    del hosts[len(candidates) :]
    for number, candidate in enumerate(candidates):
        if number == len(hosts):
            hosts.append({})
        name = host_name(candidate, names)
        names.append(name)
        _host(hosts[number], name, candidate, ends[number] if ends else None, head=number == 0)
    if len(candidates) < 2:
        _silent_about_the_cable(hosts)


def _host(host: Any, name: str, candidate: Candidate, end: End | None, *, head: bool) -> None:
    address = candidate.reached
    host["name"] = name
    host["address"] = address.place
    _filled_in(host, "address")
    after = list(host).index("address") + 1 if hasattr(host, "insert") else 0
    for key, value in (("user", address.user), ("port", address.port)):
        if value and after:
            host.insert(after, key, value)
            after += 1
        elif value:
            host[key] = value
    host["role"] = (Role.HEAD if head else Role.WORKER).value
    before = host.get("fabric") or {}
    if end is None:
        host.pop("fabric", None)
    elif "fabric" in host:
        before = dict(before)
        host["fabric"]["address"], host["fabric"]["interface"] = end.address, end.interface
        _filled_in(host, "fabric")
    else:
        host["fabric"] = {"address": end.address, "interface": end.interface}
    if "env" in host and not _same_port(host["env"], before.get("interface"), end):
        del host["env"]
        _quiet(host, "fabric")


def _same_port(env: Any, before: str | None, end: End | None) -> bool:
    """Whether the base's environment holds for ``end``; the other port of a Spark has other devices."""
    found = _CABLED.fullmatch(end.interface) if end else None
    if end is None or before is None or (end.interface != before and found is None):
        return False
    if found is not None:
        for key, value in env.items():
            env[key] = re.sub(r"(?<=p1s0f)[01]", found[1], str(value))
    return True


def _silent_about_the_cable(hosts: Any) -> None:
    for host in hosts:
        _quiet(host, "role")


def _comment(node: Any, key: str) -> Any:
    """The comment after a key's value: the rest of its line, and the full lines below."""
    tokens = node.ca.items.get(key) if hasattr(node, "ca") else None
    return tokens[2] if tokens and len(tokens) > 2 else None


def _filled_in(node: Any, key: str) -> None:
    """Take the mark off a value that was filled in; what is explained beside it stays."""
    token = _comment(node, key)
    if token is None:
        return
    first, newline, rest = token.value.partition("\n")
    if MARK not in first:
        return
    explained = first.partition(f"{MARK}:")[2].strip()
    token.value = (f"# {explained}" if explained else "") + newline + rest
    if not token.value.strip():
        del node.ca.items[key]


def _quiet(node: Any, key: str) -> None:
    """Take out the full lines of comment that follow a value."""
    token = _comment(node, key)
    if token is None:
        return
    first, newline, _ = token.value.partition("\n")
    token.value = first + newline
    if not token.value.strip():
        del node.ca.items[key]


def _other_model(data: Any, model: str, shipped: str) -> None:
    """Another model with the same flags: its own name, and nothing that was said of the shipped one."""
    serve = data["serve"]
    serve["model"] = model
    serve.pop("served_name", None)
    data["description"] = f"{model}, with the flags of {shipped}"
    head = data.ca.comment[1] if data.ca.comment else None
    if head:
        head[0].value = f"# {model}, with the flags of the shipped profile {shipped}.\n"
        del head[1:]
