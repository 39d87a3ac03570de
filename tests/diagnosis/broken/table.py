"""The breakages: one entry each. What the answer is stands in ``tests/data/broken/NAME/answer.yaml``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from signal import SIGINT, SIGSTOP, SIGTERM
from typing import Any

from tests.diagnosis.broken.breakage import HEAD, WORKER, Breakage, Hit

STARTING = "Starting to load model"
LOADED = "Loading weights took"
UP = "Application startup complete"
WAITS = r"Waiting for creating a placement group of specs for \d+ seconds"


def _edit(file: str, **values: Any) -> Any:
    """A change of the keys of one of the model's JSON files; None takes a key out."""

    def change(folder: Path) -> None:
        path = folder / file
        content = json.loads(path.read_text()) | values
        path.write_text(
            json.dumps({key: value for key, value in content.items() if value is not None}, indent=2)
        )

    return change


def _config(**values: Any) -> Any:
    return _edit("config.json", **values)


def _write(file: str, text: str) -> Any:
    return lambda folder: (folder / file).write_text(text)


def _cut(file: str, size: int) -> Any:
    """The file as an interrupted copy leaves it."""
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:size])


def _without(*files: str) -> Any:
    def remove(folder: Path) -> None:
        for file in files:
            (folder / file).unlink()

    return remove


def _empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def _pointer(folder: Path) -> None:
    """As a clone without Git LFS leaves the weights."""
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 395136\n"
    for file in folder.glob("*.safetensors"):
        file.write_text(text)


def _remote_code(folder: Path) -> None:
    _config(model_type="acme", architectures=["AcmeForCausalLM"], auto_map={"AutoConfig": "acme.AcmeConfig"})(
        folder
    )
    (folder / "acme.py").write_text(
        "from transformers import PretrainedConfig\n\nclass AcmeConfig(PretrainedConfig):\n    pass\n"
    )


def _template(folder: Path) -> None:
    (folder / "bad.jinja").write_text("{% for message in messages %}{{ message.content }\n{% endfor %}")


NO_OVERRIDE = 'exec setpriv --inh-caps=-all --bounding-set=-dac_override,-dac_read_search "$@"'
ALL = (
    Breakage("flag-unknown", "a flag that does not exist", early=True, flags=("--gpu-mem-utilization", "0.8")),
    Breakage("flag-choice", "a value that is no choice", early=True, flags=("--kv-cache-dtype", "fp9")),
    Breakage("flag-type", "a word where a number belongs", early=True, flags=("--max-num-seqs", "many")),
    Breakage(
        "flag-json",
        "JSON with a missing quote",
        early=True,
        flags=("--speculative-config", '{"method: "ngram"}'),
    ),
    Breakage("flag-range", "a share above one", early=True, flags=("--gpu-memory-utilization", "1.7")),
    Breakage(
        "backend-unknown",
        "a backend that does not exist",
        early=True,
        flags=("--distributed-executor-backend", "rya"),
    ),
    Breakage("no-backend", "two ranks, one GPU, no backend", early=True, flags=("--tensor-parallel-size", "2")),
    Breakage(
        "no-backend-ray",
        "Ray runs on both hosts, and the backend was left out",
        over="ray",
        flags=("---distributed-executor-backend",),
    ),
    Breakage("nnodes-with-ray", "--nnodes beside Ray", over="ray", flags=("--nnodes", "2")),
    Breakage(
        "batched-tokens",
        "a batch shorter than a request",
        early=True,
        flags=("--no-enable-chunked-prefill", "--max-num-batched-tokens", "64"),
    ),
    Breakage(
        "config-file",
        "a --config file that is not there",
        early=True,
        flags=("--config", "/etc/vllm/serve.yaml"),
    ),
    Breakage("model-missing", "the model's folder is not there", early=True, model_arg="/models/nowhere"),
    Breakage("model-empty", "the model's folder is empty", early=True, model=_empty),
    Breakage(
        "model-missing-worker",
        "the model's folder is empty on the worker alone",
        over="ray",
        model=_empty,
        model_on=WORKER,
    ),
    Breakage("hub-offline", "a hub id, offline", early=True, model_arg="acme/tiny-7b"),
    Breakage("shard-truncated", "a shard cut short", model=_cut("model-00003-of-00004.safetensors", 200000)),
    Breakage(
        "shard-truncated-worker",
        "a shard cut short on the worker alone",
        over="ray",
        model=_cut("model-00002-of-00004.safetensors", 200000),
        model_on=WORKER,
    ),
    Breakage(
        "shard-missing",
        "the index names a shard that is not there",
        model=_without("model-00002-of-00004.safetensors"),
    ),
    Breakage(
        "shards-missing-worker",
        "no weights on the worker",
        over="ray",
        model=_without(*(f"model-0000{n}-of-00004.safetensors" for n in range(1, 5))),
        model_on=WORKER,
    ),
    Breakage("weights-lfs", "Git LFS pointers in place of weights", model=_pointer),
    Breakage(
        "weights-shape",
        "config.json says another size than the weights have",
        model=_config(intermediate_size=512),
    ),
    Breakage(
        "weights-layers",
        "config.json says more layers than there are weights",
        model=_config(num_hidden_layers=5, layer_types=["full_attention"] * 5),
    ),
    Breakage("config-broken", "config.json cut short", early=True, model=_cut("config.json", 300)),
    Breakage("config-no-type", "config.json without model_type", early=True, model=_config(model_type=None)),
    Breakage("config-missing", "no config.json", early=True, model=_without("config.json")),
    Breakage(
        "arch-unknown",
        "an architecture nobody knows",
        early=True,
        model=_config(architectures=["AcmeForCausalLM"]),
    ),
    Breakage(
        "type-unknown",
        "a model_type nobody knows",
        early=True,
        model=_config(model_type="acme9", architectures=["Acme9ForCausalLM"]),
    ),
    Breakage("remote-code", "a model with code of its own", early=True, model=_remote_code),
    Breakage(
        "tokenizer-missing",
        "no tokenizer",
        early=True,
        model=_without("tokenizer.json", "tokenizer_config.json"),
    ),
    Breakage("tokenizer-broken", "tokenizer.json cut short", early=True, model=_cut("tokenizer.json", 2000)),
    Breakage(
        "tokenizer-class",
        "a tokenizer class nobody knows",
        early=True,
        model=lambda folder: (
            _edit("tokenizer_config.json", tokenizer_class="AcmeTokenizer")(folder),
            (folder / "tokenizer.json").unlink(),
        ),
    ),
    Breakage(
        "model-unreadable",
        "weights that the user may not read",
        model=lambda folder: [file.chmod(0) for file in folder.glob("*.safetensors")],
        before=NO_OVERRIDE,
    ),
    Breakage(
        "template-missing",
        "a chat template that is not there",
        early=True,
        flags=("--chat-template", "/etc/vllm/chat.jinja"),
    ),
    Breakage(
        "template-broken",
        "a chat template with a typing error",
        model=_template,
        flags=("--chat-template", "@MODEL@/bad.jinja"),
    ),
    Breakage(
        "tool-parser",
        "a tool parser nobody knows",
        early=True,
        flags=("--enable-auto-tool-choice", "--tool-call-parser", "qwen4_coder"),
    ),
    Breakage(
        "tool-parser-none", "tool choice without a parser", early=True, flags=("--enable-auto-tool-choice",)
    ),
    Breakage(
        "reasoning-parser", "a reasoning parser nobody knows", early=True, flags=("--reasoning-parser", "qwen5")
    ),
    Breakage("quant-unknown", "a quantization nobody knows", early=True, flags=("--quantization", "int3")),
    Breakage("quant-awq", "AWQ asked of a plain model", early=True, flags=("--quantization", "awq")),
    Breakage(
        "quant-config",
        "a quantization in config.json that this build has not",
        early=True,
        model=_config(quantization_config={"quant_method": "acme_q"}),
    ),
    Breakage("dtype-refused", "a dtype that is none", early=True, flags=("--dtype", "int8")),
    Breakage(
        "lora-missing",
        "a LoRA adapter that is not there",
        flags=("--enable-lora", "--lora-modules", "poet=/models/poet-lora"),
    ),
    Breakage(
        "draft-missing",
        "a draft model that is not there",
        early=True,
        flags=(
            "--speculative-config",
            '{"model": "/models/draft", "num_speculative_tokens": 3, "method": "draft_model"}',
        ),
    ),
    Breakage("load-format", "a load format nobody knows", flags=("--load-format", "zip")),
    Breakage("max-model-len", "longer than the model", early=True, flags=("--max-model-len", "65536")),
    Breakage(
        "kv-too-small",
        "a context that the KV cache can't hold",
        flags=("--max-model-len", "3000000"),
        model=_config(max_position_embeddings=4000000),
    ),
    Breakage(
        "kv-bytes",
        "a KV cache of half a megabyte",
        flags=("--kv-cache-memory-bytes", "500000", "--max-model-len", "2048"),
    ),
    Breakage("tp-heads", "three ranks, four heads", early=True, flags=("--tensor-parallel-size", "3")),
    Breakage(
        "tp-heads-ray", "three ranks over Ray, four heads", over="ray", flags=("--tensor-parallel-size", "3")
    ),
    Breakage("port-taken", "the API's port is taken", early=True, busy_port=1),
    Breakage("master-port-taken", "the rendezvous port is taken", over="mp", busy_port=2),
    Breakage(
        "host-not-ours", "an API address that this host has not", early=True, flags=("--host", "10.99.0.7")
    ),
    Breakage(
        "ssl-missing",
        "a certificate that is not there",
        early=True,
        flags=("--ssl-certfile", "/etc/vllm/cert.pem", "--ssl-keyfile", "/etc/vllm/key.pem"),
    ),
    Breakage("log-level", "a log level that is none", env={"VLLM_LOGGING_LEVEL": "LOUD"}),
    Breakage(
        "env-value",
        "an environment variable with a word for a number",
        early=True,
        env={"VLLM_CPU_KVCACHE_SPACE": "4GB"},
    ),
    Breakage("threads-bind", "cores that this host has not", env={"VLLM_CPU_OMP_THREADS_BIND": "900-907"}),
    Breakage(
        "no-compiler",
        "no C++ compiler",
        eager=False,
        before="mkdir @HOME@/bin\nln -s /usr/bin/* @HOME@/bin/\nrm -f @HOME@/bin/*g++* @HOME@/bin/*gcc* @HOME@/bin/c++* "
        "@HOME@/bin/cc @HOME@/bin/*clang*\nexport PATH=@VENV@/bin:@HOME@/bin",
        until=UP,
        linger=5,
    ),
    Breakage(
        "compiler-denied",
        "a C++ compiler that may not be run",
        eager=False,
        before="for file in /usr/bin/*g++* /usr/bin/*gcc* /usr/bin/c++ /usr/bin/cc; do\n"
        '  [ ! -e "$file" ] || mount --bind /dev/null "$file"\ndone',
    ),
    Breakage(
        "disk-full",
        "the cache's disk is full",
        eager=False,
        before="mkdir -p @HOME@/.cache\nmount -t tmpfs -o size=64k tmpfs @HOME@/.cache",
        until=UP,
        linger=5,
    ),
    Breakage(
        "cache-read-only",
        "a cache folder that can't be written",
        eager=False,
        before="mkdir -p @HOME@/.cache\nmount -t tmpfs -o ro tmpfs @HOME@/.cache",
    ),
    Breakage(
        "shm-small",
        "a /dev/shm of 64 KiB",
        flags=("--tensor-parallel-size", "2", "--distributed-executor-backend", "mp"),
        before="mount -t tmpfs -o size=64k tmpfs /dev/shm",
        until=UP,
        linger=5,
    ),
    Breakage("nofile", "64 open files", before="ulimit -n 64"),
    Breakage("address-space", "an address space of 6 GiB", before="ulimit -v 6000000"),
    Breakage(
        "oom-killer",
        "a memory limit of 900 MB and the kernel's OOM killer",
        before="mkdir -p /sys/fs/cgroup/memory/broken\necho 900M > /sys/fs/cgroup/memory/broken/memory.limit_in_bytes\n"
        "echo $$ > /sys/fs/cgroup/memory/broken/cgroup.procs",
    ),
    Breakage(
        "ray-missing",
        "an environment without Ray",
        over="ray-none",
        before="mount -t tmpfs tmpfs $(ls -d @VENV@/lib/python3.*/site-packages/ray)",
    ),
    Breakage(
        "ray-not-running",
        "no Ray runs at the address",
        over="ray-none",
        until="Failed to connect to GCS",
        linger=20,
    ),
    Breakage(
        "ray-address-unset",
        "RAY_ADDRESS was left out and no Ray runs",
        over="ray-none",
        env={"RAY_ADDRESS": "-"},
        until=WAITS,
        linger=24,
    ),
    Breakage("ray-one-node", "the worker never joined", over="ray-one", until=WAITS, linger=24),
    Breakage("ray-join-no-head", "ray start of the worker, and no head there", over="join", linger=45),
    Breakage(
        "ray-version",
        "another Ray release on the worker",
        over="ray",
        ray_version="2.55.1",
        until=WAITS,
        linger=24,
    ),
    Breakage(
        "gloo-interface-worker",
        "an interface that the worker has not",
        over="ray",
        host_env={WORKER: {"GLOO_SOCKET_IFNAME": "enp1s0f9"}},
    ),
    Breakage(
        "gloo-interface-both",
        "an interface that no host has",
        over="ray",
        host_env={HEAD: {"GLOO_SOCKET_IFNAME": "rocep1"}, WORKER: {"GLOO_SOCKET_IFNAME": "rocep1"}},
        ray_defaults=True,
    ),
    Breakage(
        "gloo-interface-unset",
        "no interface named",
        over="ray",
        host_env={
            HEAD: {"GLOO_SOCKET_IFNAME": "-", "TP_SOCKET_IFNAME": "-"},
            WORKER: {"GLOO_SOCKET_IFNAME": "-", "TP_SOCKET_IFNAME": "-"},
        },
        until="collective|world_size=2",
        linger=50,
    ),
    Breakage(
        "host-ip-wrong",
        "VLLM_HOST_IP that no host has",
        over="ray",
        host_env={HEAD: {"VLLM_HOST_IP": "10.99.0.7"}},
        until="world_size=2",
        linger=50,
    ),
    Breakage(
        "host-ip-same",
        "both hosts with one VLLM_HOST_IP",
        over="ray",
        host_env={WORKER: {"VLLM_HOST_IP": "10.99.0.7"}, HEAD: {"VLLM_HOST_IP": "10.99.0.7"}},
        until="world_size=2",
        linger=50,
    ),
    Breakage(
        "rank-killed-load",
        "the worker's rank killed while it loads",
        over="ray",
        hits=(Hit("Worker_TP1 pid[^\n]*Starting to load", "Worker_TP1"),),
    ),
    Breakage(
        "rank0-killed-load",
        "the head's rank killed while it loads",
        over="ray",
        hits=(Hit("Worker_TP0 pid[^\n]*Starting to load", "Worker_TP0"),),
    ),
    Breakage(
        "rank-killed-serving",
        "the worker's rank killed while it serves",
        over="ray",
        hits=(Hit(UP, "Worker_TP1"),),
    ),
    Breakage(
        "rank0-killed-serving",
        "the head's rank killed while it serves",
        over="ray",
        hits=(Hit(UP, "Worker_TP0"),),
        ray_defaults=True,
    ),
    Breakage(
        "raylet-killed-load",
        "the worker's Ray node killed while it loads",
        over="ray",
        hits=(Hit(STARTING, "raylet", host=WORKER),),
    ),
    Breakage(
        "raylet-killed-serving",
        "the worker's Ray node killed while it serves",
        over="ray",
        hits=(Hit(UP, "raylet", host=WORKER),),
    ),
    Breakage(
        "head-raylet-killed",
        "the head's Ray node killed while it serves",
        over="ray",
        hits=(Hit(UP, "raylet", host=HEAD),),
    ),
    Breakage(
        "gcs-killed-load",
        "Ray's head process killed while it loads",
        over="ray",
        hits=(Hit("Connected to Ray cluster", "gcs_server"),),
        until="Failed to connect to GCS",
        linger=90,
    ),
    Breakage(
        "engine-killed-load", "the engine's process killed while it loads", hits=(Hit(STARTING, "EngineCore"),)
    ),
    Breakage(
        "engine-killed-serving", "the engine's process killed while it serves", hits=(Hit(UP, "EngineCore"),)
    ),
    Breakage("api-killed", "the API server killed", hits=(Hit(UP, "serve"),)),
    Breakage(
        "stop-load", "the operator's stop while it loads", over="ray", hits=(Hit(STARTING, "serve", SIGINT),)
    ),
    Breakage(
        "stop-config",
        "the operator's stop before there is an engine",
        hits=(Hit("Using max model len", "serve", SIGINT),),
    ),
    Breakage("stop-serving", "the operator's stop", over="ray", hits=(Hit(UP, "serve", SIGINT),)),
    Breakage("term-serving", "the service manager's stop", hits=(Hit(UP, "serve", SIGTERM),)),
    Breakage(
        "rank-stopped-load",
        "a rank stands still while it loads",
        over="ray",
        hits=(
            Hit("Worker_TP1 pid[^\n]*world_size|Worker_TP1 pid[^\n]*Starting to load", "Worker_TP1", SIGSTOP),
        ),
        env={"VLLM_RINGBUFFER_WARNING_INTERVAL": "10"},
        until=LOADED,
        linger=60,
    ),
    Breakage(
        "rank-stopped-serving",
        "a rank stands still while it serves",
        over="ray",
        hits=(Hit(UP, "Worker_TP1", SIGSTOP),),
        env={"VLLM_RINGBUFFER_WARNING_INTERVAL": "10"},
        request=True,
        until="broadcast block",
        linger=25,
    ),
    Breakage("mp-one-rank", "rank 1 was never started", over="mp-one", until="world_size=2", linger=40),
    Breakage(
        "mp-rank1-killed",
        "rank 1's process killed while it serves",
        over="mp",
        hits=(Hit(UP, "serve", host=WORKER),),
        request=True,
        until=UP,
        linger=60,
    ),
    Breakage(
        "healthy-ray",
        "nothing is broken, Ray's defaults",
        over="ray",
        ray_defaults=True,
        request=True,
        until=UP,
        linger=15,
    ),
)
BREAKAGES = {one.name: one for one in ALL}
