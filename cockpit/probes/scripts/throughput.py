"""One end of a TCP measurement between two hosts; the standard library of Python 3.10.

``serve ADDRESS`` listens there on a free port for ten seconds, says the port on a line, takes the streams of one
client and says as JSON what arrived. ``send ADDRESS PORT SECONDS STREAMS`` sends.
"""

import json
import socket
import sys
import threading
import time

CHUNK = 1 << 20


def serve(address: str) -> None:
    """Count what arrives on all streams, from the first byte to the last."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    counts: list[int] = []
    began = ended = 0.0
    with socket.create_server((address, 0), family=family, backlog=16) as listening:
        listening.settimeout(10)
        print(listening.getsockname()[1], flush=True)
        first, _ = listening.accept()
        streams = int.from_bytes(first.recv(1), "big")
        connections = [first] + [listening.accept()[0] for _ in range(streams - 1)]
    began = time.monotonic()

    def take(connection: socket.socket) -> None:
        total, buffer = 0, bytearray(CHUNK)
        connection.settimeout(10)
        while received := connection.recv_into(buffer):
            total += received
        counts.append(total)

    threads = [threading.Thread(target=take, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = time.monotonic()
    print(json.dumps({"bytes": sum(counts), "seconds": ended - began, "streams": len(counts)}), flush=True)


def send(address: str, port: int, seconds: float, streams: int) -> None:
    """Fill the streams for as long as asked."""
    connections = [socket.create_connection((address, port), timeout=5) for _ in range(1)]
    connections[0].sendall(bytes([streams]))
    connections += [socket.create_connection((address, port), timeout=5) for _ in range(streams - 1)]
    until, data = time.monotonic() + seconds, bytes(CHUNK)

    def fill(connection: socket.socket) -> None:
        with connection:
            while time.monotonic() < until:
                connection.sendall(data)

    threads = [threading.Thread(target=fill, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
