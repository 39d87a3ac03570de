"""What all tests share."""

from __future__ import annotations

import signal

import pytest

pytest_plugins = ["tests.rig.fixtures", "tests.lab.fixtures"]

# Under nohup SIGHUP is ignored, in a shell's background SIGINT; the programs that the tests start and send these
# would inherit it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that need a rig or a lab first, those of whole bring-ups before all: with several workers
    the long ones may not be begun last. Within a file the order stays."""
    long = {item.path for item in items if item.get_closest_marker("rig") or item.get_closest_marker("lab")}
    items.sort(key=lambda item: (item.path not in long, "e2e" not in item.path.parts))
