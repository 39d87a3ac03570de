"""Files from host to host by rsync: its own daemon on the fabric address of one, for one copy, to the other alone."""

from __future__ import annotations

import re
import shlex

from cockpit.bringup.preparation.moving import ONE_TIME, Heard
from cockpit.model.command import Command, script, streaming
from cockpit.model.profile import HostSpec

_OFFER = """\
umask 077
D=$(mktemp -d) || exit
trap 'rm -rf "$D"' EXIT
trap 'exit 143' TERM HUP INT
printf 'cockpit:%s\\n' ${@ONE_TIME@} >"$D/secret"
cat >"$D/rsyncd.conf" <<END
use chroot = no
munge symlinks = no
reverse lookup = no
max connections = 4
lock file = $D/lock
[copy]
path = @FOLDER@
read only = yes
list = no
auth users = cockpit
secrets file = $D/secret
hosts allow = @PEER@
END
rsync --daemon --no-detach --address=@ADDRESS@ --port=@PORT@ --config="$D/rsyncd.conf" --log-file=/dev/stderr &
DAEMON=$!
TRIES=0
until python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)' @ADDRESS@ @PORT@ \\
    2>/dev/null
do
  kill -0 "$DAEMON" 2>/dev/null || exit 1
  TRIES=$((TRIES + 1)); [ "$TRIES" -lt 50 ] || exit 1
  sleep 0.2
done
echo listening
wait "$DAEMON"
"""

_TAKE = """\
mkdir -p @FOLDER@ || exit
RSYNC_PASSWORD=${@ONE_TIME@}; export RSYNC_PASSWORD
exec rsync -rltp @MORE@--partial --inplace --exclude='*.incomplete' --no-inc-recursive --info=progress2 --outbuf=N \\
  --contimeout=10 --timeout=20 --address=@MINE@ rsync://cockpit@@AT@:@PORT@/copy/ @FOLDER@/
"""


def usable(folder: str) -> bool:
    """Whether a folder's name can stand in rsync's configuration, which knows no quotes."""
    return folder == folder.strip() and not any(char in folder for char in "\n\r\\%$`") and folder.isprintable()


def offer_command(host: HostSpec, peer: HostSpec, folder: str, port: int) -> Command:
    """On the host that has the files: offer ``folder`` until the stream is closed."""
    text = _filled(_OFFER, folder=folder, address=host.cluster_address, port=port)
    text = text.replace("@PEER@", peer.cluster_address)
    return streaming(
        script(host.name, text, f"offer {folder} to {peer.name} over the fabric", secrets=(ONE_TIME,))
    )


def take_command(
    host: HostSpec, peer: HostSpec, folder: str, port: int, *, every_byte: bool = False
) -> Command:
    """On the host that lacks them: fetch what is missing; what is there in part is gone on with. ``every_byte``
    compares the contents of files that look the same, too."""
    at = peer.cluster_address
    text = _filled(_TAKE, folder=shlex.quote(folder), address=at, port=port)
    text = text.replace("@MINE@", host.cluster_address).replace("@AT@", f"[{at}]" if ":" in at else at)
    text = text.replace("@MORE@", "--ignore-times " if every_byte else "")
    return streaming(script(host.name, text, f"copy the model's files from {peer.name}", secrets=(ONE_TIME,)))


def _filled(text: str, *, folder: str, address: str, port: int) -> str:
    text = text.replace("@ONE_TIME@", ONE_TIME).replace("@ADDRESS@", address).replace("@PORT@", str(port))
    return text.replace("@FOLDER@", folder)


_PROGRESS = re.compile(rb"\s*([\d,.]+)\s+\d+%\s+\S+/s\s")


def parse(piece: bytes) -> Heard | None:
    """A piece of ``--info=progress2``: ``1,234,567  12%   80.00MB/s    0:00:10`` (rsync(1)); the separator of
    thousands is the locale's."""
    match = _PROGRESS.match(piece)
    if match is None:
        return None
    return Heard(done=int(re.sub(rb"[,.]", b"", match[1])))
