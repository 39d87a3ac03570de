"""Every module can be imported by itself, in a process of its own making."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

EACH = """\
import importlib, subprocess, sys
for name in sys.argv[1:]:
    pid = __import__("os").fork()
    if pid == 0:
        importlib.import_module(name)
        __import__("os")._exit(0)
    if __import__("os").waitpid(pid, 0)[1]:
        sys.exit(name)
"""


def test_every_module_can_be_imported_first() -> None:
    files = sorted(path.relative_to(ROOT) for path in (ROOT / "cockpit").rglob("*.py"))
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files]
    # Programs, and what runs where vLLM lives.
    apart = ("_data", "__main__", "diagnosis.__main__", "lab.gpu_", "lab.tiny_", "logs.remote_")
    texts = tuple(f"cockpit.{name}" for name in apart)
    wanted = [
        name
        for name in names
        if not name.startswith(texts) and ".scripts." not in name and ".remote." not in name
    ]
    done = subprocess.run(
        [sys.executable, "-c", EACH, *wanted], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert len(wanted) > 100
