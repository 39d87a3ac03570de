"""The image of the rig's containers, made of this machine's own files: no registry is asked.

It is one archive in the format of ``docker save``, with the same bytes for every engine that loads it, so the
image's id is the same on every host. The archive is kept in the cache under a key of what went into it.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.rig.environment import Environment
from tests.rig.host import Host
from tests.rig.layout import cache
from tests.rig.shell import run

TAG = "rig/vllm:test"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KEPT = 3
"""Archives kept beside a new one: several checkouts may share the cache."""
PACKAGES = (
    *("base-files", "bash", "ca-certificates", "coreutils", "curl", "dash", "debianutils", "diffutils"),
    *("findutils", "gawk", "grep", "gzip", "hostname", "iproute2", "iputils-ping", "libc-bin", "login"),
    *("mawk", "mount", "passwd", "procps", "sed", "tar", "util-linux"),
)
PYTHON_PACKAGES = ("python3", "python3-minimal", "{0}", "{0}-minimal", "lib{0}-minimal", "lib{0}-stdlib")
LEFT_OUT = re.compile(
    r"^/(etc|bin|sbin|lib|lib64)(/|$)|^/usr/share/(doc|man|locale|info|lintian|bash-completion|i18n)(/|$)"
    r"|/__pycache__(/|$)|^/usr/lib/python3\.\d+/(test|idlelib|lib2to3)/"
)
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/rig-image": "An image of the test rig, made of the files of the machine the tests run on.\n",
}
FOLDERS = ("dev", "etc", "home", "opt", "proc", "root", "run", "sys", "tmp", "usr", "var", "var/tmp")


def archive(environment: Environment | None) -> Path:
    """The image's archive, made when the cache does not hold it yet."""
    folder = cache() / "image"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{key(environment)}.tar"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            by_age = sorted(folder.glob("*.tar*"), key=lambda path: path.stat().st_mtime)
            for old in by_age[:-KEPT]:
                old.unlink()
            unfinished = target.with_suffix(".tar.unfinished")
            build(environment, unfinished)
            unfinished.rename(target)
    return target


def key(environment: Environment | None) -> str:
    """A digest of what the image is made of: this module, the packages' versions, the environment's place."""
    versions = run(["dpkg-query", "-W", *packages()], check=False).out
    parts = [Path(__file__).read_text(), versions, *map(str, environment.folders if environment else ())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def packages() -> list[str]:
    """The Debian packages whose files go in."""
    python = Path("/usr/bin/python3").resolve().name
    return [*PACKAGES, *(name.format(python) for name in PYTHON_PACKAGES)]


def packaged_files() -> set[str]:
    """The files of the packages, under /usr as they really lie on a merged system."""
    listed = run(["dpkg-query", "-L", *packages()], check=False).out.splitlines()
    merged = {re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", path) for path in listed}
    return {
        path
        for path in merged
        if path.startswith("/")
        and not LEFT_OUT.search(path)
        and (Path(path).is_symlink() or Path(path).is_file())
    }


def alternatives(files: set[str]) -> set[str]:
    """Commands such as awk and which, that are links to one of ``files`` by way of /etc/alternatives."""
    links = (path for path in Path("/usr/bin").iterdir() if path.is_symlink())
    by_etc = (path for path in links if path.readlink().is_relative_to("/etc/alternatives"))
    return {str(path) for path in by_etc if str(path.resolve()) in files}


def libraries(files: Iterable[str]) -> set[str]:
    """The shared libraries that ``files`` load, as ldd resolves them, under /usr."""
    binaries = [path for path in files if is_elf(path)]
    found: set[str] = set()
    for start in range(0, len(binaries), 100):
        said = run(["ldd", *binaries[start : start + 100]], check=False, timeout=120).out
        found |= set(re.findall(r"(?:=> |^\t)(/(?:usr/)?lib\S*) \(0x", said, re.MULTILINE))
    return {re.sub(r"^/(lib|lib64)/", r"/usr/\1/", path) for path in found}


def is_elf(path: str) -> bool:
    """Whether the file is a program or library for the dynamic linker."""
    if Path(path).is_symlink() or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(4) == b"\x7fELF"


def environment_files(environment: Environment) -> Iterator[str]:
    """What of the environment may need libraries of the system."""
    for folder in environment.folders:
        for path in folder.rglob("*"):
            if ".so" in path.name or path.parent.name == "bin" or path.name in ("raylet", "gcs_server"):
                yield str(path)


def with_targets(files: Iterable[str]) -> set[str]:
    """``files`` with what their symbolic links lead to, in one step and in the end."""
    complete: set[str] = set()
    for path in files:
        complete |= {path, os.path.realpath(path)}
        if Path(path).is_symlink():
            complete.add(os.path.normpath(Path(path).parent / Path(path).readlink()))
    merged = {re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", path) for path in complete}
    return {path for path in merged if path.startswith("/usr/") and os.path.lexists(path)}


def build(environment: Environment | None, target: Path) -> None:
    """Write the archive."""
    files = packaged_files()
    needed = libraries([*files, *(environment_files(environment) if environment else ())])
    layer = target.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        write_root(tar, with_targets(files | needed), alternatives(files))
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    path = f"{environment.venv}/bin:{SYSTEM_PATH}" if environment else SYSTEM_PATH
    configuration = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        "os": "linux",
        "config": {
            # As vllm/vllm-openai has it: whoever wants something else has to get past it.
            "Entrypoint": ["vllm", "serve"],
            "Env": [f"PATH={path}"],
            "WorkingDir": "/root",
            "Labels": {"spark-cockpit.test-rig": "stand-in for an image with vLLM in it"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "tests/rig/image.py"}],
    }
    with tarfile.open(target, "w") as tar:
        tar.add(layer, f"{digest}/layer.tar")
        described = json.dumps(configuration, sort_keys=True).encode()
        name = hashlib.sha256(described).hexdigest() + ".json"
        put(tar, name, described)
        manifest = [{"Config": name, "RepoTags": [TAG], "Layers": [f"{digest}/layer.tar"]}]
        put(tar, "manifest.json", json.dumps(manifest).encode())
    layer.unlink()


def write_root(tar: tarfile.TarFile, files: Iterable[str], others: set[str]) -> None:
    """The root file system: folders, accounts, the files as they lie on this machine, and the links
    ``others`` made direct."""
    for folder in FOLDERS:
        entry = tarfile.TarInfo(folder)
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o1777 if folder.endswith("tmp") else 0o755
        tar.addfile(entry)
    for name in ("bin", "sbin", "lib", "lib64"):
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
        tar.addfile(entry)
    for name, text in ACCOUNTS.items():
        put(tar, name, text.encode())
    for path in sorted({*files, *others}):
        if path in others:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, os.path.realpath(path)
            tar.addfile(entry)
        else:
            tar.add(path, path.lstrip("/"), recursive=False)


def put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """A file of ``data``."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))


def image_id(path: Path) -> str:
    """The id an engine gives the image: the digest of its configuration."""
    with tarfile.open(path) as tar:
        manifest = tar.extractfile("manifest.json")
        assert manifest is not None
        name: str = json.load(manifest)[0]["Config"]
    return "sha256:" + name.removesuffix(".json")


def load(path: Path, hosts: Iterable[Host]) -> None:
    """Put the image into every host's engine that has not kept it from an earlier start."""
    wanted = image_id(path)
    for host in hosts:
        asked = host.exec(["docker", "image", "inspect", "--format", "{{.Id}}", TAG], check=False)
        if asked.out.strip() == wanted:
            continue
        inside = host.disk / "docker" / "rig-image.tar"
        shutil.copyfile(path, inside)
        host.exec(["docker", "load", "--quiet", "--input", "/var/lib/docker/rig-image.tar"], timeout=180)
        inside.unlink()
        host.exec(["docker", "image", "prune", "--force"], timeout=60)
