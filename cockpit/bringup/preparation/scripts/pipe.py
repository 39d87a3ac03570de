"""One end of a pipe between two hosts.

``give ADDRESS PORT PEER PROGRAM...`` runs the program and gives its output to the one client from PEER that knows
the secret. ``take MINE ADDRESS PORT PROGRAM...`` fetches it into the program's input, says what arrived twice a
second as JSON, and last how the program ended. The secret is $SPARK_COCKPIT_ONE_TIME.

Each end proves by HMAC-SHA256 over the other's random bytes that it knows the secret. The bytes come in frames of
a length and that many bytes; length 0 is the end, said only when the giving program ended with status 0. Without
it the taking program is killed before its input ends: it must not take a part for the whole.
"""

import contextlib
import hmac
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time

FRAME = 1 << 20
PATIENCE = 30.0
"""Seconds until the client has come, and without a byte."""

SECRET = os.environ.pop("SPARK_COCKPIT_ONE_TIME", "").encode()


def proof(side: str, nonce: bytes) -> bytes:
    """What only those can make who know the secret."""
    return hmac.digest(SECRET, side.encode() + nonce, "sha256")


def exactly(connection: socket.socket, size: int) -> bytes:
    """``size`` bytes; raises ``EOFError``."""
    found = b""
    while len(found) < size:
        data = connection.recv(size - len(found))
        if not data:
            raise EOFError("the other end closed the connection")
        found += data
    return found


def proven(connection: socket.socket, mine: str, other: str) -> bool:
    """Both prove themselves; false where the other can't. The giving side shows nothing before it has seen
    the taker's proof."""
    nonce = secrets.token_bytes(32)
    connection.sendall(nonce)
    theirs = exactly(connection, 32)
    if mine == "take":
        connection.sendall(proof(mine, theirs))
    right = hmac.compare_digest(exactly(connection, 32), proof(other, nonce))
    if mine == "give" and right:
        connection.sendall(proof(mine, theirs))
    return right


def ask_in(listening: socket.socket, peer: str) -> socket.socket:
    """The client that is meant; others are sent away."""
    until = time.monotonic() + PATIENCE
    while True:
        listening.settimeout(max(0.1, until - time.monotonic()))
        connection, address = listening.accept()
        connection.settimeout(5)
        try:
            if SECRET and address[0] == peer and proven(connection, "give", "take"):
                connection.settimeout(PATIENCE * 4)
                return connection
        except (OSError, EOFError):
            pass  # whoever that was, the right one may still come
        connection.close()


def family(address: str) -> socket.AddressFamily:
    """IPv4 or IPv6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def give(address: str, port: int, peer: str, argv: "list[str]") -> int:
    """Send a program's output; its exit status."""
    with socket.create_server((address, port), family=family(address)) as listening:
        print(json.dumps({"listening": port}), flush=True)
        connection = ask_in(listening, peer)
    program = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert program.stdout is not None
    with connection, program.stdout as output:
        try:
            while data := output.read(FRAME):
                connection.sendall(len(data).to_bytes(4, "big"))
                connection.sendall(data)
            status = program.wait()
            if status == 0:
                connection.sendall(bytes(4))
                connection.recv(1)  # the taker's word that it has everything
        except OSError:
            program.kill()
            raise
    return status


class Taken:
    """How far it is."""

    bytes = 0
    ended = False


def report(taken: Taken) -> None:
    """Twice a second, a line."""
    while not taken.ended:
        print(json.dumps({"done": taken.bytes}), flush=True)
        time.sleep(0.5)


def take(mine: str, address: str, port: int, argv: "list[str]") -> int:
    """Feed a program; its exit status, or 74 where not everything came."""
    connection = socket.create_connection((address, port), timeout=10, source_address=(mine, 0))
    connection.settimeout(PATIENCE * 4)
    if not SECRET or not proven(connection, "take", "give"):
        raise ConnectionError("who listens there does not know this copy's secret")
    program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert program.stdin is not None
    assert program.stdout is not None
    said: list[bytes] = []
    reader = threading.Thread(target=lambda: said.extend(program.stdout or ()), daemon=True)
    taken = Taken()
    reporter = threading.Thread(target=report, args=(taken,), daemon=True)
    reader.start()
    reporter.start()
    try:
        fill(connection, program.stdin, taken)
        program.stdin.close()
        status = program.wait()
        connection.sendall(b".")
    except (OSError, EOFError) as error:
        status = ended_by_itself(program, error)
        if not status:
            status = 74
            said.append(f"{error}\n".encode())
        program.kill()
        program.wait()
        with contextlib.suppress(OSError):
            program.stdin.close()
    taken.ended = True
    reader.join(5)
    text = b"".join(said[-20:]).decode("utf-8", "replace")
    print(json.dumps({"done": taken.bytes, "status": status, "said": text[-2000:]}), flush=True)
    return status


def ended_by_itself(program: "subprocess.Popen[bytes]", error: Exception) -> int:
    """The exit status of a program that would take no more, and says why itself; 0 where the bytes stopped coming."""
    if isinstance(error, BrokenPipeError):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return program.wait(2)
    return 0


def fill(connection: socket.socket, into: "object", taken: Taken) -> None:
    """Every frame, up to the one that is the end."""
    buffer = bytearray(FRAME)
    view = memoryview(buffer)
    while size := int.from_bytes(exactly(connection, 4), "big"):
        if size > FRAME:
            raise OSError(f"a frame of {size} bytes")
        have = 0
        while have < size:
            got = connection.recv_into(view[have:size])
            if not got:
                raise EOFError("the other end stopped in the middle")
            have += got
        into.write(view[:size])  # type: ignore[attr-defined]
        taken.bytes += size


if __name__ == "__main__":
    if sys.argv[1] == "give":
        sys.exit(give(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:]))
    sys.exit(take(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:]))
