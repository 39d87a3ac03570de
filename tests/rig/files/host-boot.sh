#!/bin/sh
# A host's start-up, run by its PID 1 (tini): memory figures, the user, sshd, Docker.
set -eu
python3 -IS /run/rig/memory.py /run/rig/meminfo &
# The first figures must stand before anything can ask for them.
while [ ! -e /run/rig/memory-ready ]; do sleep 0.02; done
mount --bind /run/rig/meminfo /proc/meminfo

getent group docker >/dev/null || groupadd -r docker
if ! id aurora >/dev/null 2>&1; then
    useradd -m -s /bin/bash -G docker aurora
    # No password, yet not locked: sshd without PAM refuses a locked account.
    usermod -p '*' aurora
fi
install -d -m 700 -o aurora -g aurora /home/aurora/.ssh
install -m 600 -o aurora -g aurora /run/rig/key.pub /home/aurora/.ssh/authorized_keys
mkdir -p /run/sshd
/usr/sbin/sshd -D -e -f /dev/null -o HostKey=/etc/ssh/ssh_host_ed25519_key -o PasswordAuthentication=no \
    -o PermitRootLogin=no -o UseDNS=no -o MaxStartups=50 -o Subsystem='sftp internal-sftp' &
if [ "$RIG_DOCKER" = 1 ]; then
    # dockerd offers --gpus only when it finds nvidia-container-runtime-hook at its start.
    dockerd --storage-driver overlay2 --userland-proxy=false &
fi
wait
