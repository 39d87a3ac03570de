"""The rig: real hosts on one Linux machine, for the tests.

Each host has its own network, file system, PID 1, host name and control group, its own sshd and, on wish,
its own Docker engine. ``Rig.start()`` boots them, ``rig.stop()`` takes them away; when the test process
dies first, a supervisor does that. Several rigs stand side by side.

Real: kernel namespaces, SSH, Docker, the network between the hosts. Stand-ins, and labelled so: nvidia-smi,
the GPU hook of Docker, the size of memory in /proc/meminfo. Root is needed.
"""

from tests.rig.host import Host
from tests.rig.layout import FABRIC, MANAGEMENT
from tests.rig.rig import Rig
from tests.rig.shell import RigError

__all__ = ["FABRIC", "MANAGEMENT", "Host", "Rig", "RigError"]
