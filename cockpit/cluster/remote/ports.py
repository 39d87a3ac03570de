"""python3 - free|answers ADDRESS PORT...: whether nobody listens on the ports, or ADDRESS:PORT answers.

Ends with status 0 and silence, else with 1 and one sentence on standard error. Linux, standard library only.
"""

import os
import socket
import sys
import time
from pathlib import Path

PATIENCE = 5.0


def listeners(port: int) -> "list[str]":
    """The inodes of the sockets that listen on ``port``, of any address."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
        except FileNotFoundError:
            continue
        found += [row[9] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]
    return found


def owner(inodes: "list[str]") -> str:
    """The process that holds one of the sockets, in words."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            held = {str(fd.readlink()) for fd in (folder / "fd").iterdir()}
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if held & wanted:
            kind = "another Ray, " if "gcs_server" in command or "ray" in command.split("/")[-1] else ""
            return f"{kind}process {folder.name} ({command[:120]})"
    return "a process that can't be seen from here (another user's, or outside of the container)"


def free(ports: "list[int]") -> str:
    """Wait a little until nobody listens: a Ray that ends holds its port for some seconds."""
    end = time.monotonic() + PATIENCE
    while True:
        taken = [(port, inodes) for port in ports if (inodes := listeners(port))]
        if not taken:
            return ""
        if time.monotonic() > end:
            return " ".join(
                f"Port {port} is taken by {owner(inodes)}; it is left alone." for port, inodes in taken
            )
        time.sleep(0.2)


def answers(address: str, port: int) -> str:
    """Connect once, for at most 5 s."""
    try:
        socket.create_connection((address, port), PATIENCE).close()
    except TimeoutError:
        return "no answer within 5 s"
    except OSError as error:
        return os.strerror(error.errno).lower() if error.errno else str(error)
    return ""


def main() -> int:
    """See the module's docstring."""
    question, address, *ports = sys.argv[1:]
    numbers = [int(port) for port in ports]
    problem = free(numbers) if question == "free" else answers(address, numbers[0])
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


sys.exit(main())
