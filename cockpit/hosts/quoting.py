"""The one place where an argv list becomes a shell line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def quote(word: str) -> str:
    """``word`` as one word of a POSIX shell line. A word with ``=`` is quoted too: at the head of a line it
    would be an assignment, and zsh expands a leading ``=``."""
    quoted = shlex.quote(word)
    return f"'{word}'" if quoted == word and "=" in word else quoted


def join(argv: Sequence[str]) -> str:
    """``argv`` as a shell line that a POSIX login shell (bash, dash, zsh) splits into the same words.

    Raises ``ValueError`` for an empty list and for a NUL, which no process can be given.
    """
    if not argv:
        raise ValueError("a command needs at least one word")
    if any("\0" in word for word in argv):
        raise ValueError("a command's words cannot hold a NUL")
    return " ".join(quote(word) for word in argv)


def remote_line(argv: Sequence[str]) -> bytes:
    """The bytes to hand to a host's login shell. ``exec`` makes the command itself the leader of the
    session's process group: signals that sshd delivers reach it and all its children."""
    return f"exec {join(argv)}".encode("utf-8", "surrogateescape")


# The leader of a stream: runs "$@" with the stream's standard input and ends with its status. When sshd's
# process for the connection ends, the kernel sends it HUP, and it kills its whole process group. SIGTERM,
# which sshd sends to the group, is left to the command; what outlives the command then is killed.
# The input is handed over by number: a background command of sh would read /dev/null.
_LEADER = """\
trap 'kill -KILL 0' HUP
trap 'ending=1' TERM
exec 3<&0 </dev/null
"$@" <&3 3<&- &
exec 3<&-
while :; do
  wait "$!"
  status=$?
  kill -0 "$!" 2>/dev/null && continue
  test -z "$ending" || kill -KILL 0
  exit "$status"
done
"""


def stream_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """``argv`` as a stream is run: it ends, with all of its process group, when its connection ends.

    Needs ``setpriv`` (util-linux) on the host. The command has SIGINT and SIGQUIT ignored, as every
    background command of a POSIX sh.
    """
    return ("setpriv", "--pdeathsig", "HUP", "sh", "-c", _LEADER, "stream", *argv)
