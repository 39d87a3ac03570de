"""Reaching a machine, tried on real OpenSSH servers."""
