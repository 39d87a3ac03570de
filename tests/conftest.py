"""What all tests share."""

pytest_plugins = ["tests.rig.fixtures", "tests.lab.fixtures"]
