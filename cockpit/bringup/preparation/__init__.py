"""Preparation: what preflight found missing, made so: folders, image, model, page cache, leftovers.

How bytes get from host to host. Two Sparks fresh out of the box have no SSH keys for each other, and the
operator's own machine is most often behind a slower network than the cable between them. So neither an SSH
from host to host nor a relay by the cockpit is used: the host that has the bytes offers them on its fabric
address, for this one copy, to the other host's fabric address alone, to whoever knows a secret that was made
for it. The model's files go by rsync's own daemon (resumable, each file compared after its transfer); an image,
and files where a host has no rsync, by a pipe. Both ends hang on the cockpit's SSH connection and end with it.
What passes is not encrypted, as NCCL's own traffic on the same cable is not.

An ephemeral SSH key was the other way; it would stand in an authorized_keys file when the power fails, and an
agent that is forwarded can be used by whoever is root on the host.
"""
