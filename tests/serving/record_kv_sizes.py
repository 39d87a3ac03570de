"""Records how much KV cache the real vLLM says that models of several architectures take.

    VENV/bin/python tests/serving/record_kv_sizes.py TOKENIZER [NAME...] [--out FILE]

Run by the python of an environment with vLLM (the lab's); TOKENIZER is a folder with a tokenizer, such as the
lab's model. The models are configurations alone, of ``tests/data/flags/kv_models.json``: their weights are made
up by vLLM (``--load-format dummy``). Each is served as ``record_verdicts.py`` does, with 1 GiB of KV cache, and
vLLM's line on the cache's size is kept: tokens, and how many requests of the whole length it holds. A model that
this vLLM can't serve here is kept with its words.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import record_verdicts as serve  # type: ignore[import-not-found]

DATA = Path(__file__).resolve().parents[1] / "data" / "flags"
LENGTH = 4096
BATCH = 1024
LINE = re.compile(
    r"KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x"
)
BLOCK = re.compile(r"kv lcm block sizes (\d+)|[Ss]etting attention block size to (\d+)")


def record(config: dict[str, Any], tokenizer: str, limit: float) -> dict[str, Any]:
    """What vLLM says of one configuration."""
    with tempfile.TemporaryDirectory() as place:
        folder, log = Path(place) / "model", Path(place) / "log"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        argv = ["vllm", "serve", str(folder), "--load-format", "dummy", "--tokenizer", tokenizer]
        argv += ["--enforce-eager", "--max-num-seqs", "4", "--max-model-len", str(LENGTH)]
        argv += [
            "--max-num-batched-tokens",
            str(BATCH),
            "--host",
            "127.0.0.1",
            "--port",
            str(serve.free_port()),
        ]
        pid = serve.start(argv, log, program=False, env={})
        try:
            serve.watch(pid, log, limit)
        except TimeoutError:
            # The line on the cache comes before the server is ready.
            print("not ready in time", file=sys.stderr)
        finally:
            serve.stop(pid)
        text = log.read_text(errors="replace")
        found = LINE.search(text)
        if found is None:
            return {"words": serve.words(log)[:300].replace(str(folder), "{model}")}
        blocks = [int(one or other) for one, other in BLOCK.findall(text)]
        return {"tokens": int(found[1].replace(",", "")), "requests": float(found[3]), "blocks": blocks}


def main() -> None:
    """Record all models, or the named ones."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tokenizer")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=DATA / "kv_sizes.json")
    parser.add_argument("--limit", type=float, default=120.0)
    asked = parser.parse_args()
    models = json.loads((DATA / "kv_models.json").read_text())
    os.environ.update(serve.ENVIRONMENT)
    serve.preload()
    from importlib.metadata import version

    kept = json.loads(asked.out.read_text())["models"] if asked.names and asked.out.exists() else {}
    for name in asked.names or models:
        kept[name] = record(models[name], asked.tokenizer, asked.limit)
        print(name, kept[name], file=sys.stderr, flush=True)
        told = {"vllm": version("vllm"), "length": LENGTH, "batch": BATCH, "memory": 1 << 30, "models": kept}
        asked.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
