"""The tests, as a package."""
