#!/bin/sh
# The first process in a host's own namespaces: builds its root file system and hands over to tini.
#
# Takes from the environment: RIG_HOST (host name), RIG_STATE (the host's state folder, with disk/ a tmpfs),
# RIG_DISK (folder on a real file system: docker/, home/), RIG_FILES (the folder of this script), RIG_HOSTS
# (text of /etc/hosts), RIG_BINDS (lines "SOURCE TARGET", mounted read-only), RIG_CGROUPS (controllers, or
# "v2"), RIG_DOCKER (1 or 0).
set -eu
disk=$RIG_STATE/disk
new=$disk/root
hostname "$RIG_HOST"
mount --make-rprivate /

# The machine's own root below; what the host writes lies on a tmpfs that outlives a power cut. An upper
# layer on the machine's root itself would overlap with the lower one.
mkdir -p "$disk/upper" "$disk/work" "$new"
mount -t overlay overlay -o "lowerdir=/,upperdir=$disk/upper,workdir=$disk/work" "$new"

# What is not part of an operating system stays out of the host's sight. 711: the way to a mount below
# such a folder is open, its listing is not.
for folder in /*; do
    case $folder in
        /bin|/sbin|/lib*|/usr|/etc|/var|/boot|/proc|/sys|/dev|/run|/tmp) continue ;;
    esac
    if [ -d "$folder" ] && [ ! -L "$folder" ]; then mount -t tmpfs -o mode=711 masked "$new$folder"; fi
done

mount -t proc proc "$new/proc"
mount -t sysfs -o ro sysfs "$new/sys"
mount -t tmpfs -o mode=755 run "$new/run"
mount -t tmpfs -o mode=1777 tmp "$new/tmp"
mount -t tmpfs -o mode=755 dev "$new/dev"
mkdir "$new/dev/pts" "$new/dev/shm" "$new/dev/mqueue"
for node in null zero full random urandom tty; do
    : >"$new/dev/$node"
    mount --bind "/dev/$node" "$new/dev/$node"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$new/dev/pts"
mount -t tmpfs -o mode=1777 shm "$new/dev/shm"
mount -t mqueue mqueue "$new/dev/mqueue"
ln -s pts/ptmx "$new/dev/ptmx"
ln -s /proc/self/fd "$new/dev/fd"
ln -s fd/0 "$new/dev/stdin"
ln -s fd/1 "$new/dev/stdout"
ln -s fd/2 "$new/dev/stderr"

if [ "$RIG_CGROUPS" = v2 ]; then
    mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup"
    # Controllers can be passed on only from a group without processes.
    mkdir -p "$new/sys/fs/cgroup/init"
    echo $$ >"$new/sys/fs/cgroup/init/cgroup.procs"
    for controller in $(cat "$new/sys/fs/cgroup/cgroup.controllers"); do
        echo "+$controller" >"$new/sys/fs/cgroup/cgroup.subtree_control"
    done
else
    mount -t tmpfs -o mode=755 cgroup "$new/sys/fs/cgroup"
    for controllers in $RIG_CGROUPS; do
        folder=$new/sys/fs/cgroup/${controllers#name=}
        mkdir "$folder"
        case $controllers in name=*) options=none,$controllers ;; *) options=$controllers ;; esac
        mount -t cgroup -o "$options" cgroup "$folder"
    done
fi

# Docker's overlay2 needs a real file system below it; so do large files in the home folder.
mkdir -p "$RIG_DISK/docker" "$RIG_DISK/home" "$new/var/lib/docker" "$new/home"
mount --bind "$RIG_DISK/docker" "$new/var/lib/docker"
mount --bind "$RIG_DISK/home" "$new/home"
printf '%s\n' "$RIG_BINDS" | while read -r from to; do
    [ -n "$from" ] || continue
    mkdir -p "$new$to"
    mount --bind "$from" "$new$to"
    mount -o remount,bind,ro "$new$to"
done

# The machine may be a container itself; the host is none.
rm -f "$new/.dockerenv"
echo "$RIG_HOST" >"$new/etc/hostname"
printf '%s\n' "$RIG_HOSTS" >"$new/etc/hosts"
# No name server: a look-up, such as that of an image's registry, fails at once.
rm -f "$new/etc/resolv.conf"
: >"$new/etc/resolv.conf"
cat >"$new/etc/os-release" <<'RELEASE'
# A stand-in of the test rig: what follows is what a DGX Spark says.
PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
ID=ubuntu
ID_LIKE=debian
RELEASE
printf 'DGX_NAME="DGX Spark"\nDGX_PRETTY_NAME="NVIDIA DGX Spark (stand-in)"\n' >"$new/etc/dgx-release"
cp "$RIG_FILES/nvidia-smi" "$RIG_FILES/nvidia-container-runtime-hook" "$new/usr/bin/"
chmod 755 "$new/usr/bin/nvidia-smi" "$new/usr/bin/nvidia-container-runtime-hook"
rm -f "$new"/etc/ssh/ssh_host_*
install -m 600 "$RIG_STATE/host_key" "$new/etc/ssh/ssh_host_ed25519_key"
mkdir "$new/run/rig"
cp "$RIG_FILES/host-boot.sh" "$RIG_FILES/memory.py" "$RIG_STATE/../key.pub" "$new/run/rig/"
cat /proc/meminfo >"$new/run/rig/meminfo"

mkdir -p "$new/oldroot"
cd "$new"
pivot_root . oldroot
umount -l /oldroot
rmdir /oldroot 2>/dev/null || true
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    RIG_DOCKER="$RIG_DOCKER" tini -- sh /run/rig/host-boot.sh
