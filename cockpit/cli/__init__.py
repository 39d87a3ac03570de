"""The command line: one function a verb, no logic of its own."""
