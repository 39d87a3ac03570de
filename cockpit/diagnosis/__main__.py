"""``python -m cockpit.diagnosis [--json] PATH...``: explains logs without the rest of the cockpit."""

from __future__ import annotations

import json
import sys

from cockpit.diagnosis.engine import explain
from cockpit.diagnosis.sources import collect
from cockpit.model.errors import CockpitError


def main(arguments: list[str]) -> int:
    """Prints the explanation as JSON."""
    paths = [argument for argument in arguments if argument != "--json"]
    try:
        told = explain(collect(paths)).to_json()
    except CockpitError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps({"schema": 1, **told}, ensure_ascii=False, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
