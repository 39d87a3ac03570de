"""Scripts that run on the hosts: standard library only, Python 3.10 and later, nothing of the cockpit's."""
