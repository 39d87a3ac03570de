"""Runs on the host, as ``python3 -c``: follows one file and writes frames to standard output.

A frame is a line, for D and X with bytes after it:

    F DEV INO OFFSET BOOT
                       the bytes that come next stand at OFFSET of this file; BOOT is another word after
                       the host, or the container that holds the file, was restarted
    D SIZE             SIZE bytes of it
    G KIND SIZE EXACT  bytes are missing here: SIZE of them, or at least SIZE where EXACT is 0
    W                  there is no such file (yet, or any more)
    E                  all that the file has at present was sent
    H                  nothing new
    X SIZE             SIZE bytes of text: why it can't be read
    L                  the time is up: start anew (a follower that lost its reader must not stay for ever)

Arguments: path, offset, size and SHA-256 of the bytes before the offset, device and inode of the file they
were read from ("-" where nothing was), seconds to live. Python 3.8 or later, standard library alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import signal
import sys
import time
from pathlib import Path

CHUNK = 256 * 1024
CONTEXT = 64
POLL = 0.1
F_SETPIPE_SZ = 1031
HEARTBEAT = 3.0


def widen(fd: int) -> None:
    """Let a pipe hold a megabyte, where it is one: fewer turns between the writer and its reader."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, F_SETPIPE_SZ, 1024 * 1024)


def boot() -> str:
    """Tells one start of this host, or of this container, from another: its kernel's, and its first process's."""
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        first = Path("/proc/1/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return f"{kernel}/{first[19]}"
    except (OSError, IndexError):
        return "-"


class Follower:
    """Follows ``path`` from ``offset`` on."""

    def __init__(self, arguments: list[str]) -> None:
        self.path = arguments[0]
        self.offset, self.size, self.digest = int(arguments[1]), int(arguments[2]), arguments[3]
        self.known: tuple[int, int] | None = None
        if arguments[5] != "-":
            self.known = (int(arguments[4]), int(arguments[5]))
        self.until = time.monotonic() + float(arguments[6])
        self.said = 0.0
        self.waiting = self.at_end = False
        self.fd = -1
        self.context = b""
        self.boot = boot()

    def say(self, line: str, data: bytes = b"") -> None:
        view = memoryview(line.encode() + b"\n" + data)
        while view:
            view = view[os.write(1, view) :]
        self.said = time.monotonic()

    def idle(self) -> None:
        if time.monotonic() - self.said > HEARTBEAT:
            self.say("H")
        if time.monotonic() > self.until:
            self.say("L")
            sys.exit(0)
        time.sleep(POLL)

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def await_file(self) -> int:
        while True:
            try:
                return self.open(self.path)
            except (FileNotFoundError, NotADirectoryError):
                if not self.waiting:
                    self.say("W")
                    self.waiting = True
                self.idle()

    def same(self, fd: int) -> bool:
        """Whether the bytes before the offset are the ones that were read."""
        before = os.pread(fd, self.size, self.offset - self.size)
        return len(before) == self.size and hashlib.sha256(before).hexdigest() == self.digest

    def siblings(self, newer_than: int) -> list[tuple[int, str, tuple[int, int]]]:
        """Files beside the path that it may have been rotated to, oldest first."""
        folder, name = os.path.split(self.path)
        here = os.fstat(self.fd) if self.fd >= 0 else None
        found = []
        for entry in os.scandir(folder or "."):
            if not entry.name.startswith(name) or entry.name == name or not entry.is_file():
                continue
            status = entry.stat()
            if here is not None and (status.st_dev, status.st_ino) == (here.st_dev, here.st_ino):
                continue
            if status.st_mtime_ns > newer_than:
                found.append((status.st_mtime_ns, entry.path, (status.st_dev, status.st_ino)))
        return sorted(found)[-50:]

    def begin(self, fd: int, offset: int) -> None:
        if self.fd >= 0 and self.fd != fd:
            os.close(self.fd)
        self.fd, self.offset, self.waiting, self.at_end = fd, offset, False, False
        size = min(CONTEXT, offset)
        self.context = os.pread(fd, size, offset - size)
        status = os.fstat(fd)
        self.known = (status.st_dev, status.st_ino)
        self.say(f"F {status.st_dev} {status.st_ino} {offset} {self.boot}")

    def start(self) -> None:
        fd = self.await_file()
        if self.known is None or self.same(fd):
            self.begin(fd, self.offset if self.known else 0)
            return
        status, known = os.fstat(fd), self.known
        for _, path, identity in reversed(self.siblings(-1)):
            other = self.open(path)
            if self.same(other):
                self.begin(other, self.offset)
                self.drain()
                self.next_file(fd, "rotated", identity == known)
                return
            os.close(other)
        short = (status.st_dev, status.st_ino) == self.known and status.st_size < self.offset
        self.say("G truncated 0 0" if short else "G replaced 0 0")
        self.begin(fd, 0)

    def next_file(self, fd: int, kind: str, exact: bool) -> None:
        """Go on with ``fd`` after the file so far, and with what was rotated away between the two."""
        last = os.fstat(self.fd).st_mtime_ns
        coming = os.fstat(fd)
        for _, path, identity in self.siblings(last):
            if identity == (coming.st_dev, coming.st_ino):
                continue
            if path.endswith((".gz", ".xz", ".zst", ".bz2")):
                exact = False
                continue
            self.say(f"G {kind} 0 1")
            self.begin(self.open(path), 0)
            self.drain()
        self.say(f"G {kind} 0 {int(exact)}")
        self.begin(fd, 0)

    def read(self) -> bool | None:
        """Send what is there; False when nothing was, None when the file is no longer the one that was read."""
        context = self.context
        data = os.pread(self.fd, len(context) + CHUNK, self.offset - len(context))
        if not data.startswith(context):
            return None
        fresh = data[len(context) :]
        if not fresh:
            return False
        self.say(f"D {len(fresh)}", fresh)
        self.offset += len(fresh)
        self.at_end = False
        self.context = data[-CONTEXT:]
        return True

    def drain(self) -> None:
        while self.read():
            pass

    def look(self) -> None:
        """At the end of the file: is it still the one that the path names?"""
        try:
            status = Path(self.path).stat()
        except OSError:
            if not self.waiting:
                self.say("W")
                self.waiting = True
            return
        if (status.st_dev, status.st_ino) != self.known:
            fd = self.await_file()
            self.drain()
            self.next_file(fd, "rotated", True)
        elif self.waiting:
            self.waiting = False
            self.say(f"F {status.st_dev} {status.st_ino} {self.offset} {self.boot}")

    def follow(self) -> None:
        self.start()
        while True:
            found = self.read()
            if found is None:
                short = os.fstat(self.fd).st_size < self.offset
                self.say("G truncated 0 0" if short else "G replaced 0 0")
                self.begin(self.fd, 0)
            elif not found:
                if not self.at_end:
                    self.say("E")
                    self.at_end = True
                self.look()
                self.idle()


def main() -> None:
    """Follow until the reader is gone, the time is up or the file can't be read."""
    follower = Follower(sys.argv[1:])
    widen(1)
    # A reader that stays away without closing leaves a write blocked: the alarm ends that too.
    signal.alarm(int(float(sys.argv[7])) + 60)
    try:
        follower.follow()
    except BrokenPipeError:
        os._exit(0)
    except OSError as error:
        text = f"{follower.path}: {error.strerror or error}".encode()
        follower.say(f"X {len(text)}", text)


main()
