"""One command of a session: a process with its pipes, or its terminal, tied to an SSH channel.

It behaves as sshd does: the command leads a session of its own; a channel that is closed closes the pipes,
and hangs up only where there is a terminal; output ends when the last writer has closed it.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping
from typing import Protocol

CHUNK = 64 * 1024


class Output(Protocol):
    """Where a command's output and its end go: an SSH channel."""

    def output(self, data: bytes, *, error: bool) -> None:
        """Standard output, or standard error."""

    def hold_input(self, hold: bool) -> None:
        """Stop, or go on, giving input: the command reads more slowly than it comes."""

    def ended(self, status: int) -> None:
        """The command has ended and all its output was given; ``status`` as ``subprocess`` counts it."""


class Child:
    """A running command."""

    def __init__(self, argv: tuple[str, ...], env: Mapping[str, str], cwd: str, output: Output) -> None:
        self._loop = asyncio.get_running_loop()
        self._argv, self._env, self._cwd, self._output = argv, dict(env), cwd, output
        self._readers: dict[int, bool] = {}
        self._paused = False
        self._input: int | None = None
        self._waiting = bytearray()
        self._input_ends = False
        self._held = False
        self._status: int | None = None
        self._gone = False
        self.terminal = False
        self.pid = 0

    def start(self) -> None:
        """Start it with pipes."""
        process = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._env,
            cwd=self._cwd,
            start_new_session=True,
        )
        assert process.stdin and process.stdout and process.stderr
        self._attach(
            process, process.stdin.fileno(), {process.stdout.fileno(): False, process.stderr.fileno(): True}
        )

    def start_in_terminal(self, size: tuple[int, int]) -> None:
        """Start it in a terminal of ``size`` (columns, lines)."""
        master, slave = pty.openpty()
        self.terminal = True
        _resize(slave, size)
        process = subprocess.Popen(
            self._argv, env=self._env, cwd=self._cwd, close_fds=True, preexec_fn=lambda: os.login_tty(slave)
        )
        os.close(slave)
        self._attach(process, os.dup(master), {master: False})

    def _attach(self, process: subprocess.Popen[bytes], stdin: int, outputs: dict[int, bool]) -> None:
        # The server reaps every child itself, adopted ones too, so Popen must not wait for this one.
        self.pid, process.returncode = process.pid, 0
        self._input = _own(process.stdin, stdin)
        pipes = {p.fileno(): p for p in (process.stdout, process.stderr) if p}
        for descriptor, error in outputs.items():
            own = _own(pipes.get(descriptor), descriptor)
            self._readers[own] = error
            self._loop.add_reader(own, self._read, own)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal's end that nobody holds open any more
                raise
            data = b""
        if data:
            self._output.output(data, error=self._readers[descriptor])
            return
        self._loop.remove_reader(descriptor)
        del self._readers[descriptor]
        os.close(descriptor)
        self._finish()

    def pause(self, paused: bool) -> None:
        """Stop, or go on, reading its output: the channel takes no more, or takes more again."""
        self._paused = paused
        for descriptor in self._readers:
            if paused:
                self._loop.remove_reader(descriptor)
            else:
                self._loop.add_reader(descriptor, self._read, descriptor)

    def write(self, data: bytes) -> None:
        """Give it input."""
        if self._input is None:
            return
        self._waiting += data
        self._flush()

    def end_input(self) -> None:
        """Close its standard input once what was given has been read."""
        self._input_ends = True
        if self.terminal:
            self._waiting += b"\x04"
        self._flush()

    def _flush(self) -> None:
        if self._input is None:
            return
        try:
            while self._waiting:
                written = os.write(self._input, self._waiting[:CHUNK])
                del self._waiting[:written]
        except BlockingIOError:
            self._loop.add_writer(self._input, self._flush)
            self._hold(True)
            return
        except OSError:  # it reads no more; sshd drops the rest too
            self._close_input()
            self._hold(False)
            return
        self._loop.remove_writer(self._input)
        if self._input_ends and not self.terminal:
            self._close_input()
        self._hold(False)

    def _hold(self, hold: bool) -> None:
        """Tell the channel; going on may give more input at once, so that comes after what is under way."""
        if hold and not self._held:
            self._output.hold_input(True)
        elif self._held and not hold:
            self._loop.call_soon(self._output.hold_input, False)
        self._held = hold

    def _close_input(self) -> None:
        if self._input is not None:
            self._loop.remove_writer(self._input)
            os.close(self._input)
            self._input = None
            self._waiting.clear()

    def send_signal(self, name: str) -> None:
        """Send the signal ``name`` (``INT``) to the command's whole group."""
        number = getattr(signal, f"SIG{name}", None)
        if isinstance(number, signal.Signals) and self._status is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return

    def resize(self, size: tuple[int, int]) -> None:
        """The terminal's size has changed."""
        if self.terminal and self._input is not None:
            _resize(self._input, size)

    def reaped(self, status: int) -> None:
        """The server has reaped it; ``status`` is negative for a signal."""
        self._status = status
        self._finish()

    def _finish(self) -> None:
        if self._status is None or self._readers or self._gone:
            return
        self._gone = True
        self._close_input()
        self._output.ended(self._status)

    def abandon(self) -> None:
        """The channel is gone: close all ends. A terminal hangs up by that; a piped command lives on."""
        self._gone = True
        self._close_input()
        for descriptor in self._readers:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        self._readers.clear()


def _own(pipe: object, descriptor: int) -> int:
    """A non-blocking descriptor of our own; Popen's file object is closed."""
    own = descriptor
    close: Callable[[], None] | None = getattr(pipe, "close", None)
    if close is not None:
        own = os.dup(descriptor)
        close()
    os.set_blocking(own, False)
    return own


def _resize(descriptor: int, size: tuple[int, int]) -> None:
    columns, lines = size
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
