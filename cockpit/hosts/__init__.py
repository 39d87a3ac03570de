"""Reaching a machine: the Host protocol, SSH and this machine itself."""
