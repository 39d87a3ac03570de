"""Runs a broken launch on two loopback addresses with the lab's Ray and vLLM, and keeps what it printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from cockpit.lab import environment, folders, model, processes
from tests.diagnosis.broken.breakage import HEAD, TINY, WORKER, Breakage, Hit

_HOSTS = {HEAD: 2, WORKER: 3}
_LIMIT = 150.0
_CACHE = folders.cache() / "broken"
"""vLLM's own cache, kept between breakages: what it knows of a model class takes a process of its own to learn."""

_ENV = {
    "OMP_NUM_THREADS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "GLOO_SOCKET_IFNAME": "lo",
    "TP_SOCKET_IFNAME": "lo",
    "LANG": "C.UTF-8",
    "PYTHONUNBUFFERED": "1",
}


class Preloaded:
    """vLLM imported once for many launches: a process that forks a child for each; see ``preloaded.py``."""

    def __init__(self, venv: Path, folder: Path) -> None:
        script = Path(__file__).with_name("preloaded.py")
        argv = [
            str(venv / "bin" / "python"),
            str(script),
            str(venv / "bin" / "vllm"),
            str(folder / "imported.log"),
        ]
        env = {**_ENV, "HOME": str(folder), "PATH": os.defpath, "VLLM_CACHE_ROOT": str(_CACHE)}
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("vLLM could not be imported")

    def run(self, argv: list[str], env: Mapping[str, str], log: Path, folder: Path) -> int:
        """One launch, to its end; its exit status."""
        assert self.process.stdin and self.process.stdout
        told = {"argv": argv, "env": dict(env), "log": str(log), "cwd": str(folder)}
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@dataclass(slots=True)
class Bench:
    """The place where a breakage runs: two addresses, a folder, and the processes that were started."""

    folder: Path
    venv: Path
    tiny: Path
    number: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: dict[str, Path] = field(default_factory=dict)
    status: int | None = None
    preloaded: Preloaded | None = None
    kernel: list[bytes] = field(default_factory=list)

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, host: str) -> str:
        """The loopback address of ``host``."""
        return f"127.0.{self.number}.{_HOSTS[host]}"

    @property
    def ports(self) -> dict[str, int]:
        """API, Ray and rendezvous."""
        first = 23000 + 4 * self.number
        return {"api": first, "ray": first + 1, "dashboard": first + 2, "master": first + 3}

    def ray_folder(self, host: str) -> Path:
        """Ray's folder for temporary files on ``host``."""
        return self.folder / f"ray-{host}"

    def env(self, host: str, one: Breakage) -> dict[str, str]:
        """The environment of Ray and of a rank on ``host``."""
        home = self.folder / "home" / host
        home.mkdir(parents=True, exist_ok=True)
        values = {
            **_ENV,
            "HOME": str(home),
            "USER": "op",
            "TMPDIR": str(self.folder),
            "PATH": f"{self.venv}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "VLLM_HOST_IP": self.address(host),
            "VLLM_CACHE_ROOT": str(_CACHE if one.eager else home / ".cache" / "vllm"),
            processes.MARK: str(self.folder),
        }
        if one.eager:
            values["TORCH_COMPILE_DISABLE"] = "1"
        if one.over.startswith("ray"):
            values["RAY_ADDRESS"] = f"{self.address(HEAD)}:{self.ports['ray']}"
            if not one.ray_defaults:
                values |= {"RAY_DEDUP_LOGS": "0", "RAY_COLOR_PREFIX": "0"}
        values |= one.host_env.get(host, {})
        return {key: value for key, value in values.items() if value != "-"}

    def start(self, argv: list[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process that leads a session of its own, with its output in ``log``."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=self.folder,
                start_new_session=True,
                restore_signals=True,
            )
        self.started.append(process)
        return process

    def pids(self) -> set[int]:
        """Every process that was started here, by the mark in its environment or by its session."""
        table = processes.everything()
        sessions = {process.pid for process in self.started}
        found = {pid for pid, one in table.items() if one.session in sessions}
        found |= {pid for pid in table if _marked(pid, self.folder)}
        return {pid for pid in found if not table[pid].zombie and pid != os.getpid()}

    def end(self) -> None:
        """End everything."""
        for _ in range(50):
            pids = self.pids()
            if not pids:
                break
            left = processes.leftovers(pids)
            processes.send(pids, signal.SIGKILL)
            for process in self.started:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
            processes.remove(left)


def _marked(pid: int, folder: Path) -> bool:
    try:
        return f"{processes.MARK}={folder}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _claimed(number: int) -> Path | None:
    """The bench's folder: to make it claims the number. Short, for the paths of Ray's sockets."""
    folder = Path(f"/tmp/bl-{number}")
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return None
    if _free(number):
        return folder
    folder.rmdir()
    return None


def _free(number: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((f"127.0.{number}.2", 23000 + 4 * number + 1))
        except OSError:
            return False
    return True


@contextmanager
def bench() -> Iterator[Bench]:
    """A fresh bench; everything of it is ended and removed in the end."""
    built = environment.find() or environment.ensure(lambda message, *_: print(message, file=sys.stderr))
    tiny = model.ensure(built, lambda message, _done, _total: print(message, file=sys.stderr))
    for number in range(60, 250):
        folder = _claimed(number)
        if folder is not None:
            with Bench(folder, built.folder, tiny, number) as one:
                yield one
            return


def _place_model(place: Bench, one: Breakage) -> Path:
    """The model's folder as the breakage has it."""
    if one.model is None:
        return place.tiny
    folder = place.folder / "models" / "tiny"
    shutil.copytree(place.tiny, folder)
    spoiled = folder
    if one.model_on:
        spoiled = place.folder / "models" / "spoiled"
        shutil.copytree(place.tiny, spoiled)
    one.model(spoiled)
    return folder


def _wrapped(place: Bench, one: Breakage, host: str, argv: list[str]) -> list[str]:
    """``argv`` in a mount namespace of its own, where what the breakage asks for is done first."""
    words = []
    if one.model_on == host:
        words.append(f"mount --bind {place.folder}/models/spoiled {place.folder}/models/tiny")
    if one.before and host == one.before_on:
        words.append(
            one.before.replace("@HOME@", str(place.folder / "home" / host)).replace("@VENV@", str(place.venv))
        )
    if not words:
        return argv
    text = "set -e\nmount --make-rprivate /\n" + "\n".join(words) + '\nexec "$@"'
    return ["unshare", "--mount", "sh", "-c", text, "sh", *argv]


def _ray(place: Bench, one: Breakage, host: str) -> None:
    ports = place.ports
    argv = [str(place.venv / "bin" / "ray"), "start", "--block", f"--node-ip-address={place.address(host)}"]
    if one.ray_version and host == WORKER:
        argv[:1] = [
            str(place.venv / "bin" / "python"),
            "-c",
            f"import sys, ray; ray.__version__ = {one.ray_version!r}; sys.argv[0] = 'ray'; "
            "from ray.scripts.scripts import main; main()",
        ]
    if host == HEAD:
        argv += ["--head", f"--port={ports['ray']}", "--include-dashboard=false"]
    else:
        argv.append(f"--address={place.address(HEAD)}:{ports['ray']}")
    argv += [f"--temp-dir={place.ray_folder(host)}", "--num-gpus=1", "--num-cpus=2"]
    argv += ["--object-store-memory=100000000", "--disable-usage-stats", "--log-color=false"]
    log = place.folder / f"ray-start-{host}.log"
    place.logs[f"ray-start-{host}"] = log
    process = place.start(_wrapped(place, one, host, argv), place.env(host, one), log)
    if one.over != "join" and not (one.ray_version and host == WORKER):
        _wait(lambda: "Ray runtime started" in log.read_text(errors="replace"), process, _LIMIT, str(log))
    elif one.ray_version:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LIMIT)


def _wait(true: object, process: subprocess.Popen[bytes], limit: float, what: str) -> None:
    assert callable(true)
    until = time.monotonic() + limit
    while not true():
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{what}: not within {limit:g} s (status {process.returncode})")
        time.sleep(0.2)


def _serve_argv(place: Bench, one: Breakage, host: str, folder: Path) -> list[str]:
    ports = place.ports
    flags = [word.replace("@MASTER@", str(ports["master"])) for word in one.flags]
    given = {word for word in flags if word.startswith("--")}
    base = {
        "--served-model-name": "tiny",
        "--host": place.address(HEAD),
        "--port": str(ports["api"]),
        "--max-model-len": "512",
        "--max-num-seqs": "4",
    }
    if one.over.startswith("ray"):
        base |= {"--tensor-parallel-size": "2", "--distributed-executor-backend": "ray"}
    if one.over.startswith("mp"):
        base |= {"--tensor-parallel-size": "2", "--nnodes": "2", "--node-rank": "0" if host == HEAD else "1"}
        base |= {"--master-addr": place.address(HEAD), "--master-port": str(ports["master"])}
    words = [str(place.venv / "bin" / "vllm"), "serve", one.model_arg.replace(TINY, str(folder))]
    for name, value in base.items():
        if name not in given and f"-{name}" not in given:
            words += [name, value]
    words += [word.replace(TINY, str(folder)) for word in flags if not word.startswith("---")]
    if one.eager:
        words.append("--enforce-eager")
    if one.over.startswith("mp") and host == WORKER:
        words.append("--headless")
    return words


def run(place: Bench, one: Breakage) -> dict[str, bytes]:
    """The logs of a breakage by file name: complete, as they were when it ended (or was ended)."""
    folder = _place_model(place, one)
    place.kernel = kernel_lines()
    if one.over in ("ray", "ray-one"):
        _ray(place, one, HEAD)
    if one.over in ("ray", "join"):
        _ray(place, one, WORKER)
    if one.over == "join":
        time.sleep(one.linger)
        return {"worker.log": place.logs["ray-start-worker"].read_bytes()}
    held = _hold(place, one)
    if one.early and place.preloaded is not None:
        place.logs[HEAD] = place.folder / "head.log"
        argv, env = _serve_argv(place, one, HEAD, folder), {**place.env(HEAD, one), **one.env}
        place.status = place.preloaded.run(argv, env, place.logs[HEAD], place.folder)
        if held is not None:
            held.close()
        return _collected(place, one, folder)
    served = [HEAD, WORKER] if one.over == "mp" else [HEAD]
    ranks = {}
    for host in served:
        place.logs[host] = place.folder / f"{host}.log"
        env = {**place.env(host, one), **(one.env if host == HEAD else {})}
        env = {key: value for key, value in env.items() if value != "-"}
        argv = _wrapped(place, one, host, _serve_argv(place, one, host, folder))
        ranks[host] = place.start(argv, env, place.logs[host])
    _follow(place, one, ranks)
    if held is not None:
        held.close()
    return _collected(place, one, folder)


def _hold(place: Bench, one: Breakage) -> socket.socket | None:
    """Somebody else's socket on one of the ports."""
    if not one.busy_port:
        return None
    held = socket.socket()
    held.bind((place.address(HEAD), place.ports["api" if one.busy_port == 1 else "master"]))
    held.listen()
    return held


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _follow(place: Bench, one: Breakage, ranks: dict[str, subprocess.Popen[bytes]]) -> None:
    """Do what the breakage does to a launch that runs, until it has ended or is to be ended."""
    log, waiting = place.logs[HEAD], list(one.hits)
    until, seen, asked = time.monotonic() + one.limit, 0.0, False
    while time.monotonic() < until:
        text = _text(log)
        while waiting and re.search(waiting[0].after, text):
            _strike(place, waiting.pop(0), ranks, text)
        if one.request and not asked and "Application startup complete" in text:
            asked = True
            threading.Thread(target=_ask, args=(place,), daemon=True).start()
        if all(process.poll() is not None for process in ranks.values()):
            place.status = ranks[HEAD].returncode
            return
        if ranks[HEAD].poll() is not None and place.status is None:
            place.status, until = ranks[HEAD].returncode, min(until, time.monotonic() + 12)
        if one.until and not waiting and re.search(one.until, text):
            seen = seen or time.monotonic()
            if time.monotonic() - seen > one.linger:
                return
        time.sleep(0.1)
    if place.status is None:
        raise RuntimeError(f"{one.name}: it neither ended nor came to {one.until!r} within {one.limit:g} s")


def _strike(place: Bench, hit: Hit, ranks: dict[str, subprocess.Popen[bytes]], text: str) -> None:
    if hit.process == "serve":
        send = os.killpg if hit.signal == signal.SIGINT else os.kill
        send(ranks[hit.host].pid, hit.signal)
        return
    if hit.process in ("raylet", "gcs_server"):
        port = f"node_ip_address={place.address(hit.host)}" if hit.process == "raylet" else ""
        pids = [
            pid
            for pid in place.pids()
            if processes.title(pid).endswith(f"/{hit.process}") and port in _arguments(pid)
        ]
    else:
        pids = sorted({int(pid) for pid in re.findall(rf"\({hit.process} pid=(\d+)", text)})
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, hit.signal)
    if not pids:
        raise RuntimeError(f"nobody to send {hit.signal.name}: {hit.process}")


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def _ask(place: Bench) -> None:
    url = f"http://{place.address(HEAD)}:{place.ports['api']}/v1/completions"
    body = b'{"model": "tiny", "prompt": "Good morning", "max_tokens": 400}'
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with suppress(OSError), urllib.request.urlopen(request, timeout=120) as answer:
        answer.read()


def kernel_lines() -> list[bytes]:
    """What the kernel says of processes that it ended, where it may be read."""
    done = subprocess.run(("dmesg",), capture_output=True, timeout=20)
    return [line for line in done.stdout.split(b"\n") if b"Killed process" in line or b"segfault" in line]


def _is_of(line: bytes, logs: bytes) -> bool:
    """Whether the process that the kernel speaks of stands in the logs."""
    match = re.search(rb"[Pp]rocess (\d+)|\[(\d+)\]: segfault", line)
    return match is not None and b"pid=%s)" % (match[1] or match[2]) in logs


def _collected(place: Bench, one: Breakage, folder: Path) -> dict[str, bytes]:
    found = {f"{host}.log": place.logs[host].read_bytes() for host in (HEAD, WORKER) if host in place.logs}
    if place.status is not None:
        found["exit-status"] = f"{place.status if place.status >= 0 else 128 - place.status}\n".encode()
    own = b"\n".join(found.values())
    said = [line for line in kernel_lines() if line not in place.kernel and _is_of(line, own)]
    if said:
        found["kernel.log"] = b"\n".join([*said, b""])
    for host in (HEAD, WORKER):
        logs = place.ray_folder(host) / "session_latest" / "logs"
        parts = []
        for file in sorted([*logs.glob("worker-*.err"), *logs.glob("worker-*.out"), *logs.glob("raylet.err")]):
            parts.append(file.read_bytes())
        if any(parts):
            found[f"{host}-ray-worker.err"] = b"".join(parts)
    if one.ray_version or one.over == "ray":
        started = place.logs.get("ray-start-worker")
        if one.ray_version and started is not None:
            found["worker.log"] = started.read_bytes()
    return {name: neutral(data, place, folder) for name, data in found.items()}


def neutral(data: bytes, place: Bench, folder: Path) -> bytes:
    """The bytes with this machine's paths and names replaced, each by the same everywhere."""
    names = [
        (str(folder), "/models/tiny"),
        (str(place.tiny), "/models/tiny"),
        (str(place.venv), "/opt/vllm"),
        (str(place.folder / "home" / HEAD), "/home/op"),
        (str(place.folder / "home" / WORKER), "/home/op"),
        (str(place.ray_folder(HEAD)), "/tmp/ray"),
        (str(place.ray_folder(WORKER)), "/tmp/ray"),
        (str(place.folder), "/srv/op"),
        (str(_CACHE), "/home/op/.cache/vllm"),
        (os.path.realpath(sys.base_prefix), "/usr"),
        (sys.base_prefix, "/usr"),
    ]
    for name, word in names:
        data = data.replace(name.encode(), word.encode())
    return data
