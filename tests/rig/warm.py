"""``python -m tests.rig.warm``: makes what the tests keep in the user's cache, before any test's time limit runs.

The environment with vLLM and Ray, the model, and the image of the rig's hosts take minutes on a fresh machine (138, 5
and 25 s were measured on two cores that other work kept busy); the first test that asks for them would wait for all.
Ends with 0 where something can't be had, unless a skip is not accepted: the tests then tell why.
"""

from __future__ import annotations

import sys

from tests.rig import image
from tests.rig.environment import environment_for_tests
from tests.rig.models import models
from tests.rig.needs import strict, why_not
from tests.rig.shell import RigError


def main() -> int:
    """Make what is not there yet; the exit status."""
    try:
        environment = environment_for_tests(lambda text: print(text, file=sys.stderr))
        models(environment)
        if not why_not():
            image.archive(environment)
    except (ValueError, RigError) as error:
        print(error, file=sys.stderr)
        return int(strict())
    return 0


if __name__ == "__main__":
    sys.exit(main())
