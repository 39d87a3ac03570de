"""The one place where an argv list becomes a shell line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from cockpit.model.command import Command


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


def command_line(command: Command) -> str:
    """A command as its host runs it, in one line without its standard input: what plans, runbooks, the screen and
    errors show."""
    return join(command.remote_argv)


def delimiter(text: str, word: str) -> str:
    """``word``, made longer until no line of ``text`` is it: it ends a here-document that hands on ``text``."""
    lines = set(text.split("\n"))
    while word in lines:
        word += "_"
    return word


# Makes the command leader of a process group of its own, and tells its process id on standard error after a
# token that this side made up: so it can be ended from another session. sshd does not deliver signals itself
# where privilege separation is off, as for root (OpenSSH 9.2, session.c).
_ANNOUNCE = """\
read -r _ _ _ _ group _ <"/proc/$$/stat"
test "$group" = "$$" || set -- setsid "$@"
echo "$0 $$" >&2
exec "$@"
"""

# Ends group $1: SIGTERM, $2 tenths of a second, SIGKILL; status 0 when nothing of it is left.
# dash 0.5.12 knows a group only as `kill -s NAME -- -GROUP`.
_END = """\
kill -s TERM -- "-$1" 2>/dev/null || exit 0
left=$2
while kill -s 0 -- "-$1" 2>/dev/null; do
  test "$left" -gt 0 || kill -s KILL -- "-$1" 2>/dev/null
  test "$left" -gt -10 || exit 1
  left=$((left - 1))
  sleep 0.1
done
"""


def remote_line(argv: Sequence[str], token: str) -> bytes:
    """The bytes to hand to a host's login shell to run ``argv``. Its standard error begins with ``token``, a
    blank, the number of its process group, and a newline (after what the shell's own start-up files print)."""
    return f"exec {join(['sh', '-c', _ANNOUNCE, token, *argv])}".encode("utf-8", "surrogateescape")


def end_line(group: int, grace: float) -> bytes:
    """The bytes to hand to a host's login shell to end process group ``group``."""
    argv = ["timeout", f"{grace + 3:g}", "sh", "-c", _END, "end", str(group), str(round(grace * 10))]
    return f"exec {join(argv)}".encode()


# The leader of a stream: runs "$@" with the stream's standard input and ends with its status. When sshd's
# process for the connection ends, the kernel sends it HUP, and it kills its whole process group; if that
# had happened before the kernel was asked to, its parent is $0 already. SIGTERM, sent to the group, is left
# to the command; what outlives the command then is killed.
# The input is handed over by number: a background command of sh would read /dev/null.
_LEADER = """\
trap 'kill -s KILL 0' HUP
trap 'ending=1' TERM
test "$PPID" != "$0" || exit 129
exec 3<&0 </dev/null
"$@" <&3 3<&- &
exec 3<&-
while :; do
  wait "$!"
  status=$?
  kill -s 0 "$!" 2>/dev/null && continue
  test -z "$ending" || kill -s KILL 0
  exit "$status"
done
"""

INIT = 1
"""The process that orphans go to."""


def stream_argv(argv: Sequence[str], *, orphans: int = INIT) -> tuple[str, ...]:
    """``argv`` as a stream is run: it ends, with all of its process group, when its connection ends.

    Does not start where its parent is ``orphans``. Needs ``setpriv`` (util-linux) on the host. The command
    has SIGINT and SIGQUIT ignored, as every background command of a POSIX sh.
    """
    return ("setpriv", "--pdeathsig", "HUP", "sh", "-c", _LEADER, str(orphans), *argv)
