"""sh texts around the Python programs in ``remote``."""

from __future__ import annotations

import shlex
from importlib.resources import files

from cockpit.runtime.prelude import heredoc


def python(name: str, *arguments: str, isolated: bool = True) -> str:
    """sh text, one command, that runs ``remote/NAME.py`` with ``arguments``; ``isolated`` keeps PYTHONPATH and
    the user's own packages out."""
    word, body = heredoc(files("cockpit.cluster").joinpath(f"remote/{name}.py").read_text())
    return f"python3 {'-I ' if isolated else ''}- {shlex.join(arguments)} {word}\n{body}"
