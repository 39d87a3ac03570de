"""python3 - PORT: Ray's node table, asked at the head's dashboard on loopback, as one line of JSON.

Prints ``{"version", "nodes", "hostnames": {address: name}, "error"}``; ``error`` is "" or says why there is no
table. The token is read from RAY_AUTH_TOKEN_PATH. Standard library only; every question takes at most 4 s.
"""

import http.client
import json
import os
import sys
from pathlib import Path

LIMIT = 4.0


def token() -> str:
    """The cluster's token, "" where there is none."""
    try:
        return Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "")).read_text().strip()
    except OSError:
        return ""


def ask(port: int, path: str) -> dict:  # type: ignore[type-arg]
    """The answer to GET ``path``; raises OSError, HTTPException or ValueError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        secret = token()
        connection.request("GET", path, headers={"Authorization": f"Bearer {secret}"} if secret else {})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 401:
            raise OSError(
                "it refuses this cluster's token (401): another Ray, or one started without the cockpit"
            )
        if answer.status != 200:
            raise OSError(f"it answers with status {answer.status}")
        found = json.loads(body)
        if not isinstance(found, dict):
            raise ValueError("it answers with something else than Ray's API")
        return found
    finally:
        connection.close()


def table(port: int) -> dict:  # type: ignore[type-arg]
    """Everything that is known of the cluster."""
    version = ask(port, "/api/version").get("ray_version", "")
    nodes = ask(port, "/api/v0/nodes?detail=1&limit=10000")["data"]["result"]["result"]
    summary = ask(port, "/nodes?view=summary").get("data", {}).get("summary", [])
    hostnames = {row.get("ip", ""): row.get("hostname", "") for row in summary if isinstance(row, dict)}
    return {"version": version, "nodes": nodes, "hostnames": hostnames, "error": ""}


def unknown(why: str) -> dict:  # type: ignore[type-arg]
    """The answer where there is none."""
    return {"version": "", "nodes": [], "hostnames": {}, "error": why}


def main() -> None:
    """See the module's docstring."""
    port = int(sys.argv[1])
    try:
        found = table(port)
    except ConnectionRefusedError:
        found = unknown(f"nothing listens on port {port} (Ray's dashboard)")
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        why = "no answer within 4 s" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        found = unknown(f"Ray's dashboard on port {port}: {why}")
    print(json.dumps(found))


main()
