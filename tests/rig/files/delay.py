"""Passes the frames between two network interfaces on, each a fixed time later.

    delay.py INTERFACE INTERFACE MILLISECONDS

A stand-in for the kernel's netem, which not every kernel has. Prints "ready" when it listens on both.
"""

import collections
import select
import socket
import sys
import time

ALL = 3  # ETH_P_ALL, linux/if_ether.h
OUTGOING = 4  # PACKET_OUTGOING, linux/if_packet.h


def listen(interface: str) -> socket.socket:
    """All frames of ``interface``."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    end.bind((interface, 0))
    end.setblocking(False)
    return end


def main(first: str, second: str, milliseconds: float) -> None:
    """Pass frames on for ever."""
    ends = listen(first), listen(second)
    waiting: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
    print("ready", flush=True)
    while True:
        limit = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select(ends, [], [], limit)[0]:
            frame, address = end.recvfrom(65536)
            if address[2] != OUTGOING:
                other = ends[1] if end is ends[0] else ends[0]
                waiting.append((time.monotonic() + milliseconds / 1000, other, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, other, frame = waiting.popleft()
            try:
                other.send(frame)
            except OSError:
                continue  # the cable is out; the frame is lost, as on a real one


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
