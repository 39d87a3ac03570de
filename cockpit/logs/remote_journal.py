"""Runs on the host, as ``python3 -c``: follows a source that has a cursor instead of offsets.

Writes frames (see ``remote_follow``), with two more: ``K 1`` says that the cursor it was given still holds
(what comes follows it directly), ``K 0`` that it starts from the beginning; ``C TEXT`` is the cursor after all
bytes so far. Arguments: ``journal``, ``kmsg`` or ``container``; the container's id; the cursor, or "-"; seconds
to live. Python 3.8 or later, standard library alone.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HEARTBEAT = 3.0


class Out:
    """Frames to standard output; ends the process when its time is up."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.said = 0.0
        self.at_end = False

    def say(self, line: str, data: bytes = b"") -> None:
        view = memoryview(line.encode() + b"\n" + data)
        while view:
            view = view[os.write(1, view) :]
        self.said = time.monotonic()

    def lines(self, lines: list[bytes], cursor: str) -> None:
        data = b"".join(lines)
        if data:
            self.say(f"D {len(data)}", data)
            self.say(f"C {cursor}")
            self.at_end = False

    def end(self) -> None:
        """All that is there at present was sent."""
        if not self.at_end:
            self.say("E")
            self.at_end = True

    def idle(self) -> None:
        self.end()
        if time.monotonic() - self.said > HEARTBEAT:
            self.say("H")
        if time.monotonic() > self.until:
            self.say("L")
            raise SystemExit


def stamp(microseconds: int) -> str:
    """A time as the host's clock has it."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(seconds))}.{rest:06d}"


def boot_id() -> str:
    """Tells one boot of the host from another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def kmsg(out: Out, cursor: str) -> None:
    """The kernel's ring buffer; the cursor is the boot and the last sequence number."""
    boot = boot_id()
    last_boot, _, last = cursor.partition(":")
    expected = int(last) + 1 if last_boot == boot else None
    booted = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    out.say("K 1" if last_boot == boot else "K 0")
    if cursor != "-" and last_boot != boot:
        out.say("G gone 0 0")
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    while True:
        lines: list[bytes] = []
        seen = ""
        while len(lines) < 1000:
            try:
                record = os.read(fd, 16384)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue
            head, _, text = record.partition(b";")
            fields = head.split(b",")
            number = int(fields[1])
            if expected is not None and number < expected:
                continue
            if expected is not None and number > expected:
                out.lines(lines, seen or cursor)
                lines = []
                out.say("G gone 0 0")
            expected = number + 1
            at = stamp(int(booted * 1_000_000) + int(fields[2])).encode()
            lines.append(at + b" kernel: " + text.split(b"\n", 1)[0] + b"\n")
            seen = f"{boot}:{number}"
        out.lines(lines, seen)
        if not lines:
            out.idle()
            select.select([fd], [], [], 0.5)


def follow(out: Out, command: list[str], take: Callable[[bytes], tuple[bytes | None, str]]) -> None:
    """Run ``command`` and hand its lines to ``take``, which gives the line to send and the cursor after it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0) as process:
        assert process.stdout is not None
        fd, left = process.stdout.fileno(), b""
        os.set_blocking(fd, False)
        try:
            while True:
                ready, _, _ = select.select([fd], [], [], 0.5)
                data = os.read(fd, 256 * 1024) if ready else b""
                if ready and not data:
                    return
                *whole, left = (left + data).split(b"\n")
                lines: list[bytes] = []
                cursor = ""
                for raw in whole:
                    line, after = take(raw)
                    if line is not None:
                        lines.append(line)
                        cursor = after
                out.lines(lines, cursor)
                if not lines:
                    out.idle()
                elif not select.select([fd], [], [], 0)[0]:
                    out.end()
        finally:
            process.kill()


def journal(out: Out, cursor: str) -> None:
    """The kernel's messages in systemd's journal; the cursor is the journal's own."""
    command = ["journalctl", "-q", "-o", "json", "--no-pager", "-f"]
    if cursor == "-":
        out.say("K 0")
        command += ["-k", "-n", "all"]
    else:
        asked = ["journalctl", "-q", "-o", "json", "--no-pager", "-n", "1", f"--cursor={cursor}"]
        found = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        out.say("K 1")
        if not found.strip() or json.loads(found.splitlines()[0]).get("__CURSOR") != cursor:
            out.say("G gone 0 0")
        command += ["_TRANSPORT=kernel", "-n", "all", f"--after-cursor={cursor}"]

    def take(raw: bytes) -> tuple[bytes | None, str]:
        try:
            entry = json.loads(raw)
            message = entry.get("MESSAGE", "")
            text = bytes(message) if isinstance(message, list) else str(message).encode()
            at = stamp(int(entry["__REALTIME_TIMESTAMP"])).encode()
            return at + b" kernel: " + text.replace(b"\n", b"\n\t") + b"\n", entry["__CURSOR"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return None, ""

    follow(out, command, take)


def container(out: Out, name: str, cursor: str) -> None:
    """A container's log with its times; the cursor is the container's id, the last time and how many lines had
    it."""
    asked = ["docker", "inspect", "--format", "{{.Id}}", name]
    found = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    answer = found.stdout.strip()
    if found.returncode:
        out.say(f"X {len(answer)}", answer)
        return
    full = answer.decode()
    parts = cursor.split("/")
    same = len(parts) == 3 and parts[0] == full
    command = ["docker", "logs", "--timestamps", "--follow"]
    if same:
        command += ["--since", parts[1]]
    out.say("K 1" if same else "K 0")
    if cursor != "-" and not same:
        out.say("G remade 0 0")
    skip, skipped_at = (int(parts[2]), parts[1]) if same else (0, "")
    last, count = skipped_at, 0

    def take(raw: bytes) -> tuple[bytes | None, str]:
        nonlocal last, count
        at = raw.split(b" ", 1)[0].decode("ascii", "replace")
        count = count + 1 if at == last else 1
        last = at
        if same and at == skipped_at and count <= skip:
            return None, ""
        return raw + b"\n", f"{full}/{at}/{count}"

    follow(out, [*command, full], take)
    while True:
        asked = ["docker", "inspect", "--format", "{{.State.Running}}", full]
        found = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if found.returncode:
            text = f"the container {full[:12]} was removed".encode()
            out.say(f"X {len(text)}", text)
            return
        if found.stdout.strip() == b"true":
            out.say("L")
            return
        out.idle()
        time.sleep(1)


def main() -> None:
    """Follow until the reader is gone, the source ends or the time is up."""
    kind, name, cursor, seconds = sys.argv[1:5]
    # A reader that stays away without closing leaves a write blocked: the alarm ends that too.
    signal.alarm(int(float(seconds)) + 60)
    out = Out(float(seconds))
    try:
        if kind == "container":
            container(out, name, cursor)
        else:
            (kmsg if kind == "kmsg" else journal)(out, cursor)
    except BrokenPipeError:
        os._exit(0)
    except OSError as error:
        text = f"{kind}: {error.strerror or error}".encode()
        out.say(f"X {len(text)}", text)


main()
