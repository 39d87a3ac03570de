"""Where huggingface_hub keeps models. Runs with the standard library of Python 3.10."""

from pathlib import Path


def cache(env: "dict[str, str]") -> Path:
    """The hub's cache, as huggingface_hub finds it (constants.py, 1.x)."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if env.get(name):
            return Path(env[name]).expanduser()
    if env.get("HF_HOME"):
        return Path(env["HF_HOME"]).expanduser() / "hub"
    return Path(env.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface" / "hub"


def model_folder(name: str, env: "dict[str, str]") -> Path:
    """The folder of a model of the hub in the cache, whether it is there or not."""
    return cache(env) / ("models--" + name.replace("/", "--"))


def snapshot(folder: Path, revision: str) -> "Path | None":
    """The folder of a revision (a commit, a branch or a tag) in a model's folder, None where it is not there."""
    if (folder / "snapshots" / revision).is_dir():
        return folder / "snapshots" / revision
    try:
        commit = (folder / "refs" / revision).read_text().strip()
    except OSError:
        return None
    found = folder / "snapshots" / commit
    return found if commit and found.is_dir() else None
