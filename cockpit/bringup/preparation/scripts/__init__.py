"""What runs on the hosts; the standard library of Python 3.10."""
