"""What tells one installed vLLM from another. Its text stands in front of other scripts; imports no vLLM."""

import hashlib
import json
import sys
from importlib import metadata
from pathlib import Path


def identity() -> "dict[str, str]":
    """The version, and a digest that changes when another vLLM is installed in its place."""
    found = metadata.distribution("vllm")
    facts = [sys.prefix, found.version, found.read_text("RECORD") or ""]
    for name in ("vllm/engine/arg_utils.py", "vllm/version.py", "vllm/_version.py"):
        path = Path(str(found.locate_file(name)))
        if path.exists():
            facts += [str(path.stat().st_size), str(path.stat().st_mtime_ns)]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
    return {"version": found.version, "digest": digest}
