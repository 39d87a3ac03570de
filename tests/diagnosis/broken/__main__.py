"""Runs breakages: ``python -m tests.diagnosis.broken [--into FOLDER] [NAME...]``; without a name, all of them."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.diagnosis.broken.bench import Preloaded, bench, run
from tests.diagnosis.broken.table import BREAKAGES

DATA = Path(__file__).parents[2] / "data" / "broken"


def main(arguments: list[str]) -> int:
    """Runs and records; the value is how many could not be run."""
    # In a shell's background job SIGINT is ignored, and what is started from here would ignore it too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    into, names = DATA, arguments
    if names[:1] == ["--into"]:
        into, names = Path(names[1]), names[2:]
    if names == ["--list"]:
        print("\n".join(f"{one.name}: {one.what}" for one in BREAKAGES.values()))
        return 0
    failed, preloaded = 0, None
    names = sorted(names or BREAKAGES, key=lambda name: not BREAKAGES[name].early)
    for name in names:
        began = time.monotonic()
        try:
            with bench() as place:
                if BREAKAGES[name].early and len(names) > 1:
                    preloaded = preloaded or Preloaded(place.venv, Path(tempfile.mkdtemp()))
                    place.preloaded = preloaded
                logs, status = run(place, BREAKAGES[name]), place.status
        except RuntimeError as error:
            print(f"{name}: {error}", flush=True)
            failed += 1
            continue
        folder = into / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if old.name != "answer.yaml":
                old.unlink()
        for file, data in logs.items():
            (folder / file).write_bytes(data)
        size = sum(map(len, logs.values()))
        print(f"{name}: status {status}, {size} bytes, {time.monotonic() - began:.0f} s", flush=True)
    if preloaded is not None:
        preloaded.end()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
