"""Preflight of the model's files: every rank reads them on its own host."""

from __future__ import annotations

from collections.abc import Iterable

from cockpit.model.finding import Fix
from cockpit.model.verdict import Grade, Verdict
from cockpit.probes.answers import ModelFacts
from cockpit.probes.asked import Asked, blocked, ready
from cockpit.probes.download import download, host_path, mounted, word

_EVERY = "Every rank reads the files on its own host."


def model(asked: Asked) -> Iterable[Verdict]:
    """The files are there, all that the index names, and each as long as its header says."""
    having = next((name for name, facts in asked.environments.items() if facts.model.complete), "")
    for name, facts in asked.environments.items():
        yield _judged(asked, name, facts.model, having)


def _judged(asked: Asked, name: str, found: ModelFacts, having: str) -> Verdict:
    declared = asked.profile.serve.model
    if found.kind == "url":
        observed = f"{declared} lies elsewhere and was not looked at."
        return Verdict("model", (name,), Grade.UNKNOWN, observed, "Only vLLM itself can load it.")
    if found.complete:
        size = f"{found.bytes / 1e9:.1f} GB" if found.bytes >= 50e6 else f"{found.bytes / 1e6:.1f} MB"
        files = "one file" if found.file or found.shards == 1 else f"{found.shards} weight files"
        return ready("model", name, f"{declared}: {files}, {size}, complete in {found.path}.")
    if not found.found:
        return _absent(asked, name, found, having)
    return _incomplete(asked, name, found, having)


def _absent(asked: Asked, name: str, found: ModelFacts, having: str) -> Verdict:
    declared = asked.profile.serve.model
    if elsewhere := _elsewhere(asked, name, found) or _unmounted(asked, name, found):
        return elsewhere
    observed = f"{declared} is not there (looked for {found.path})."
    remedy = _copy(asked, name, having, found.path) or _download(asked, name, found)
    if found.kind == "local":
        why = _EVERY + " vLLM takes a folder that is missing for the name of a model of the hub."
        return blocked("model", name, observed, why, remedy)
    if found.offline:
        return blocked("model", name, observed, _EVERY + " HF_HUB_OFFLINE forbids a download.", remedy)
    why = _EVERY + " vLLM will download it first, on each host by itself."
    return Verdict("model", (name,), Grade.SLOW, observed, why, remedy)


def _elsewhere(asked: Asked, name: str, found: ModelFacts) -> Verdict | None:
    """The host has the model, and the runtime looks in another place: its cache is not mounted, or is named in a file
    that only a log-in reads (bash, INVOCATION: a command by SSH runs no interactive shell)."""
    machine = asked.machines.get(name)
    there = host_path(asked, found.path) if asked.docker is None or mounted(asked, found.path) else ""
    kept = next((path for path in machine.models if path != there), "") if machine else ""
    if not kept:
        return None
    observed = f"{asked.profile.serve.model} is on this host in {kept}, and the runtime looks for {found.path}."
    why = "It would not be found there, and would be fetched once more, or not at all."
    source, target = (kept, found.path) if found.kind == "local" else (_home(kept), _home(found.path))
    if asked.docker:
        mounts = [one for one in asked.docker.mounts if one.split(":")[1].rstrip("/") != target]
        remedy = f"Mount it: in runtime.mounts, {source}:{target}"
        fix = Fix(remedy, {"set": {"runtime.mounts": [*mounts, f"{source}:{target}"]}})
    else:
        remedy = f"Name that cache in the profile: runtime.env.HF_HOME: {source}"
        fix = Fix(remedy, {"set": {"runtime.env.HF_HOME": source}})
    refused = found.offline or found.kind == "local"
    return Verdict("model", (name,), Grade.BLOCKED if refused else Grade.SLOW, observed, why, remedy, (fix,))


def _unmounted(asked: Asked, name: str, found: ModelFacts) -> Verdict | None:
    """The container has a folder of its own where the model is looked for."""
    if asked.docker is None or mounted(asked, found.path):
        return None
    target = found.path if found.kind == "local" else _home(found.path)
    source = target if found.kind == "local" else "~/.cache/huggingface"
    observed = (
        f"{asked.profile.serve.model} is not there (looked for {found.path}), and no mount holds that folder."
    )
    why = (
        _EVERY + " What the container has in a folder of its own is gone with it, and no copy can be put there."
    )
    remedy = f"On {name}: mkdir -p {word(source)} ; and mount it: in runtime.mounts, {source}:{target}"
    change = {"set": {"runtime.mounts": [*asked.docker.mounts, f"{source}:{target}"]}}
    fix = Fix(f"Mount it: in runtime.mounts, {source}:{target}", change)
    refused = found.offline or found.kind == "local"
    return Verdict("model", (name,), Grade.BLOCKED if refused else Grade.SLOW, observed, why, remedy, (fix,))


def _home(folder: str) -> str:
    """HF_HOME of a model's folder: the cache is its folder ``hub`` (huggingface_hub, constants.py)."""
    return folder.rstrip("/").rpartition("/")[0].removesuffix("/hub")


def _incomplete(asked: Asked, name: str, found: ModelFacts, having: str) -> Verdict:
    observed = f"{asked.profile.serve.model} in {found.path} is not complete: {_lack(found)}."
    remedy = _copy(asked, name, having, found.path) or _download(asked, name, found)
    if found.locked:
        why = _EVERY + " It does so as the user that vLLM runs as."
        folder = word(host_path(asked, found.path.partition("/snapshots/")[0]))
        return blocked("model", name, observed, why, f"On {name}: sudo chmod -R a+rX {folder}")
    if found.kind == "hub" and not found.offline and not (found.damaged or found.wrong):
        why = _EVERY + " vLLM will download what is missing first."
        return Verdict("model", (name,), Grade.SLOW, observed, why, remedy)
    why = _EVERY + " The load would fail, or hang, when it comes to these."
    return blocked("model", name, observed, why, remedy)


def _lack(found: ModelFacts) -> str:
    parts = []
    if not found.config:
        parts.append("config.json is missing")
    if not found.shards:
        parts.append("there are no weight files")
    if found.absent:
        parts.append(f"{found.absent} of {found.shards} weight files are missing")
    if found.damaged:
        parts.append(f"{found.damaged} are cut short or damaged")
    if found.locked:
        parts.append(f"{found.locked} may not be read by this user")
    if found.wrong:
        parts.append(f"{found.wrong} index files can't be read")
    shown = f" ({', '.join(found.names)})" if found.names else ""
    return ", ".join(parts) + shown


def _download(asked: Asked, name: str, found: ModelFacts) -> str:
    if found.kind == "local":
        folder = word(host_path(asked, found.path))
        command = f"hf download OWNER/MODEL --local-dir {folder}"
        return f"On {name}: {command}  (its name on the hub); or change serve.model"
    return download(asked, name, found)


def _copy(asked: Asked, name: str, having: str, path: str) -> str:
    """From the host that has it, over the fabric. A snapshot's links lead out of it: its model's folder."""
    if not having or having == name:
        return ""
    folder = host_path(asked, path.partition("/snapshots/")[0]).rstrip("/")
    spec = asked.profile.host(name)
    target = spec.fabric.address if spec.fabric else name
    parent = folder.rpartition("/")[0] + "/"
    prepare = f"spark-cockpit prepare {asked.profile.word} --only model"
    return f"{prepare} ; or on {having}: rsync -a --info=progress2 {word(folder)} {target}:{word(parent)}"
