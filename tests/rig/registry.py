"""A registry for the rig's engines, as little of one as ``docker pull`` asks for: a manifest, a configuration and a
layer (OCI distribution specification, 1.1; Docker image manifest version 2, schema 2).

It runs on each host at a loopback address: an engine takes HTTP without TLS from there alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.rig.host import Host
from tests.rig.rig import Rig
from tests.rig.shell import wait_for

REGISTRY = "127.0.0.1:5005"

SERVER = r"""
import gzip, hashlib, http.server, io, json, os, tarfile
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as tar:
    entry = tarfile.TarInfo("etc/from-a-registry")
    data = os.urandom(3000000)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
plain = layer.getvalue()
packed = gzip.compress(plain)
sha = lambda data: "sha256:" + hashlib.sha256(data).hexdigest()
arch = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
config = json.dumps({"architecture": arch, "os": "linux", "config": {},
                     "rootfs": {"type": "layers", "diff_ids": [sha(plain)]}}).encode()
KIND = "application/vnd.docker.distribution.manifest.v2+json"
manifest = json.dumps({"schemaVersion": 2, "mediaType": KIND,
    "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": sha(config)},
    "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(packed),
                "digest": sha(packed)}]}).encode()
FOUND = {"/v2/": (b"{}", "application/json"),
         "/v2/rig/small/manifests/test": (manifest, KIND), "/v2/rig/small/manifests/" + sha(manifest): (manifest, KIND),
         "/v2/rig/small/blobs/" + sha(config): (config, "application/octet-stream"),
         "/v2/rig/small/blobs/" + sha(packed): (packed, "application/octet-stream")}
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        unknown = b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'
        data, kind = FOUND.get(self.path, (unknown, None))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Docker-Content-Digest", sha(data))
        self.end_headers()
        if body:
            self.wfile.write(data)
    def do_GET(self):
        self.answer(True)
    def do_HEAD(self):
        self.answer(False)
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 5005), Handler).serve_forever()
"""


def answers(host: Host) -> bool:
    """Whether the host's own registry does."""
    return host.exec(["curl", "-sf", f"http://{REGISTRY}/v2/"], check=False).status == 0


@contextmanager
def serve_image(rig: Rig) -> Iterator[None]:
    """``REGISTRY/rig/small:test`` can be pulled on every host."""
    for host in rig.hosts.values():
        host.exec(["sh", "-c", 'exec python3 -c "$0" >/dev/null 2>&1 &', SERVER])
        wait_for(lambda host=host: answers(host), "the registry answers", timeout=15)  # type: ignore[misc]
    try:
        yield
    finally:
        for host in rig.hosts.values():
            host.exec(["pkill", "-f", "[T]hreadingHTTPServer"], check=False)
