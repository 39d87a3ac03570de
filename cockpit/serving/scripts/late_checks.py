"""What ``vllm serve`` finds out only when a worker, its engine or its API server starts, looked at before.

Its text stands in front of ``parser_verdict.py``'s. Each check takes the look that vLLM takes later, by vLLM's own
function where there is one, and raises what vLLM would. Where a vLLM is built otherwise than a check knows, the
check says nothing: what can't be told is not refused.
"""

import contextlib
import importlib
import importlib.util
import inspect
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cockpit.serving.scripts.part_checks import check_parts

LOADERS = {
    "fastsafetensors": ("fastsafetensors",),
    "instanttensor": ("instanttensor",),
    "runai_streamer": ("runai_model_streamer",),
    "tensorizer": ("tensorizer",),
}
"""Load formats that need a package of their own, which vLLM imports when it comes to the weights."""

CONNECTORS = {
    "NixlConnector": ("nixl", "rixl"),
    "LMCacheConnectorV1": ("lmcache",),
    "LMCacheMPConnector": ("lmcache",),
    "MooncakeConnector": ("mooncake",),
}
"""KV connectors that need a package, one of these, which a worker imports."""

SHAPES = (
    "hidden_size",
    "vocab_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
)
"""Sizes of a model's configuration that its weights have too."""


def first_of(*names: str) -> Any:
    """The first of these modules that there is, None for none: vLLM's have moved between versions."""
    for name in names:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return None


def said(error: BaseException) -> str:
    """An exception as vLLM's user reads it; a KeyError's text without its quotes."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return text or type(error).__name__


def unbindable(namespace: Any) -> str:
    """Why the API's socket can't be bound, as vLLM binds it right after its banner; "" where it can."""
    if getattr(namespace, "headless", False):
        return ""
    if getattr(namespace, "uds", None):
        return unbindable_path(Path(namespace.uds))
    host, port = namespace.host or "", namespace.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except (OSError, OverflowError) as error:
            return said(error)
    return ""


def unbindable_path(path: Path) -> str:
    """Why a Unix socket can't be bound there; looked at without making one."""
    if path.exists() or path.is_symlink():
        return f"{path}: Address already in use"
    if len(os.fsencode(str(path))) > 107:
        return f"{path}: AF_UNIX path too long"
    if not path.parent.is_dir():
        return f"{path}: No such file or directory"
    return "" if os.access(path.parent, os.W_OK) else f"{path}: Permission denied"


def named(flag: str, name: str, *, between: str = ".") -> Any:
    """The object of a full name that a flag gives, ``module.Name`` or ``module:Name``."""
    module, found, attribute = name.rpartition(between) if between == "." else name.partition(between)
    if not found:
        raise ValueError(f"--{flag.replace('_', '-')} {name}: expected <module>{between}<name>")
    try:
        made = importlib.import_module(module)
        for part in attribute.split("."):
            made = getattr(made, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise type(error)(f"--{flag.replace('_', '-')} {name}: {error}") from error
    return made


def check_names(given: "dict[str, Any]") -> None:
    """What flags name by its import path is there."""
    for flag in ("worker_cls", "worker_extension_cls", "scheduler_cls"):
        if isinstance(given.get(flag), str) and given[flag] not in ("", "auto"):
            named(flag, given[flag])
    for name in given.get("middleware") or ():
        made = named("middleware", name)
        if not (inspect.isclass(made) or inspect.iscoroutinefunction(made)):
            raise ValueError(f"Invalid middleware {name}. Must be a function or a class.")
    for name in given.get("logits_processors") or ():
        if isinstance(name, str):
            named("logits_processors", name, between=":")


def check_threads(given: "dict[str, Any]") -> None:
    """The pool that renders prompts has a thread."""
    workers = given.get("renderer_num_workers")
    if isinstance(workers, int) and workers < 1:
        raise ValueError("--renderer-num-workers: max_workers must be greater than 0")


def check_ssl(given: "dict[str, Any]") -> None:
    """Certificate and key can be read, as uvicorn reads them when the model is loaded."""
    key, certificate = given.get("ssl_keyfile"), given.get("ssl_certfile")
    if not key and not certificate:
        return
    if not certificate:
        raise ValueError("--ssl-keyfile needs --ssl-certfile")
    for name in ("ssl_keyfile", "ssl_certfile", "ssl_ca_certs"):
        if given.get(name) and not Path(given[name]).is_file():
            raise ValueError(f"--{name.replace('_', '-')}: there is no file {given[name]}")
    ssl = importlib.import_module("ssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if given.get("ssl_ca_certs"):
        context.load_verify_locations(given["ssl_ca_certs"])


def check_seed(config: Any) -> None:
    """numpy takes 32 bits, and every worker seeds it."""
    seed = getattr(config.model_config, "seed", None)
    if isinstance(seed, int) and not 0 <= seed < 2**32:
        raise ValueError("Seed must be between 0 and 2**32 - 1")


def check_generation(config: Any) -> None:
    """The generation configuration that the API server starts with."""
    read = getattr(config.model_config, "get_diff_sampling_param", None)
    if read is not None:
        read()


def check_adapters(given: "dict[str, Any]", config: Any) -> None:
    """The LoRA adapters that are loaded at the start: those that lie on this host."""
    modules = given.get("lora_modules") or ()
    if modules and config.lora_config is None:
        raise RuntimeError("LoRA is not enabled. Use --enable-lora to enable LoRA.")
    helper = getattr(first_of("vllm.lora.peft_helper"), "PEFTHelper", None)
    for module in modules:
        path = Path(str(getattr(module, "path", ""))).expanduser()
        if not path.is_absolute() and not path.exists():
            continue
        if not (path / "adapter_config.json").is_file():
            raise ValueError(f"Loading lora {module.name} failed: No adapter found for {path}")
        if (
            helper is not None
            and "max_position_embeddings" in inspect.signature(helper.from_local_dir).parameters
        ):
            helper.from_local_dir(str(path), max_position_embeddings=None).validate_legal(config.lora_config)


def check_loader(config: Any) -> None:
    """vLLM has a loader for the format, its package is installed, and the files it reads are there."""
    load = config.load_config
    name = str(getattr(load.load_format, "value", load.load_format))
    needs(f"the load format {name}", LOADERS.get(name, ()))
    made = getattr(first_of("vllm.model_executor.model_loader"), "get_model_loader", None)
    loader = made(load) if made is not None else None
    folder = str(config.model_config.model)
    if not Path(folder).is_dir() or name in ("auto", "hf"):
        # What the model's own class looks for may be something else; that the files are all there is checked
        # on every host.
        return
    if name == "sharded_state" and not (load.model_loader_extra_config or {}).get("pattern"):
        if not list(Path(folder).glob("model-rank-0-part-*.safetensors")):
            raise ValueError(
                f"Could not find checkpoint files '{folder}/model-rank-0-part-*.safetensors', "
                "only pre-sharded checkpoints are currently supported!"
            )
        return
    prepare = getattr(loader, "_prepare_weights", None)
    wanted: dict[str, Any] = {"model_name_or_path": folder, "subfolder": None, "revision": None}
    wanted |= {"fall_back_to_pt": True, "allow_patterns_overrides": None}
    if prepare is None or type(loader).__name__ != "DefaultModelLoader":
        return
    takes = inspect.signature(prepare).parameters
    if set(takes) <= set(wanted):
        prepare(**{key: wanted[key] for key in takes})


def needs(what: str, packages: "tuple[str, ...]") -> None:
    """One of the packages is installed."""
    if packages and not any(importlib.util.find_spec(package) for package in packages):
        raise ImportError(f"{what} needs the package {packages[0]}, which is not installed")


def check_transfer(given: "dict[str, Any]", config: Any) -> None:
    """The KV connector's package is installed, and the platform can offload."""
    transfer = getattr(config, "kv_transfer_config", None)
    name = str(getattr(transfer, "kv_connector", "") or "")
    needs(f"the KV connector {name}", CONNECTORS.get(name, ()))
    platform = importlib.import_module("vllm.platforms").current_platform
    if given.get("kv_offloading_size") and platform.device_type == "cpu":
        raise ValueError("CPU Offloading is currently only supported on CUDA-alike and XPU GPUs")


def check_hashes(config: Any) -> None:
    """The package of the prefix cache's hash is installed."""
    cache = config.cache_config
    name = str(getattr(cache, "prefix_caching_hash_algo", "") or "")
    if getattr(cache, "enable_prefix_caching", False):
        needs(f"the hash {name}", ("xxhash",) if name.startswith("xxhash") else ())
        needs(f"the hash {name}", ("cbor2",) if name.endswith("_cbor") else ())


def check_launcher(config: Any) -> None:
    """Ranks that another program launches find their number in the environment."""
    backend = getattr(config.parallel_config, "distributed_executor_backend", None)
    if backend == "external_launcher" and "RANK" not in os.environ:
        raise ValueError("the executor external_launcher needs RANK in the environment, which torchrun sets")


def check_pipeline(config: Any) -> None:
    """Each pipeline stage has a layer at least."""
    text = getattr(config.model_config, "hf_text_config", None)
    layers = getattr(text, "num_hidden_layers", None)
    stages = config.parallel_config.pipeline_parallel_size
    if isinstance(layers, int) and 0 < layers < stages:
        raise ValueError(
            f"pipeline_parallel_size={stages}, and the model has {layers} layers: a stage would be empty"
        )


def check_overrides(given: "dict[str, Any]", config: Any) -> None:
    """--hf-overrides leaves the sizes that the weights have, and names a RoPE that vLLM has."""
    overrides = given.get("hf_overrides")
    if not isinstance(overrides, dict) or not overrides:
        return
    check_rope(overrides)
    own = Path(str(config.model_config.model)) / "config.json"
    load_format = str(getattr(config.load_config.load_format, "value", config.load_config.load_format))
    if load_format == "dummy" or not own.is_file():
        return
    written = json.loads(own.read_text())
    for key in SHAPES:
        if isinstance(written.get(key), int) and overrides.get(key, written[key]) != written[key]:
            raise ValueError(
                f"--hf-overrides sets {key} to {overrides[key]}, and the weights have {written[key]}"
            )
    check_layers(overrides, written, config)


def check_layers(overrides: "dict[str, Any]", written: "dict[str, Any]", config: Any) -> None:
    """As many layers as the weights have; fewer only where the model's own loader passes over the others."""
    given, have = overrides.get("num_hidden_layers"), written.get("num_hidden_layers")
    if not isinstance(given, int) or not isinstance(have, int) or given == have:
        return
    if given < have:
        find = getattr(first_of("vllm.model_executor.model_loader.utils"), "get_model_architecture", None)
        if find is None or "AutoWeightsLoader" not in inspect.getsource(
            find(config.model_config)[0].load_weights
        ):
            return
    raise ValueError(f"--hf-overrides sets num_hidden_layers to {given}, and the weights have {have}")


def check_rope(overrides: "dict[str, Any]") -> None:
    """The type of RoPE is one of those that vLLM's own function tells apart."""
    rope = overrides.get("rope_parameters") or overrides.get("rope_scaling")
    kind = (rope.get("rope_type") or rope.get("type")) if isinstance(rope, dict) else None
    build = getattr(first_of("vllm.model_executor.layers.rotary_embedding"), "get_rope", None)
    if not isinstance(kind, str) or build is None:
        return
    source = inspect.getsource(build)
    if "Unknown RoPE scaling type" in source and f'"{kind}"' not in source:
        raise ValueError(f"Unknown RoPE scaling type {kind}")


def plain_attention(config: Any) -> bool:
    """Whether every layer attends to everything: no MLA, no linear layers, no window."""
    model = config.model_config
    text = getattr(model, "hf_text_config", None)
    odd = ("use_mla", "is_hybrid", "is_attention_free", "is_encoder_decoder")
    if any(getattr(model, name, False) for name in odd):
        return False
    kinds = set(getattr(text, "layer_types", None) or ())
    return getattr(text, "sliding_window", None) is None and kinds <= {"full_attention"}


def check_blocks(config: Any) -> None:
    """Blocks that are given by number hold one request of the whole length."""
    cache, model = config.cache_config, config.model_config
    given, size = getattr(cache, "num_gpu_blocks_override", None), getattr(cache, "block_size", None)
    if (
        not given
        or not size
        or not plain_attention(config)
        or getattr(model, "original_max_model_len", 0) == -1
    ):
        return
    if given * size < model.max_model_len:
        raise ValueError(
            f"To serve at least one request with the model's max seq len ({model.max_model_len}), "
            f"{-(-model.max_model_len // size)} blocks of {size} tokens are needed; "
            f"num_gpu_blocks_override gives {given}"
        )


def check_attention(given: "dict[str, Any]", config: Any) -> None:
    """The attention backend that vLLM would take can do what flags ask of it: its block size and dtype."""
    wanted = ("block_size", "attention_backend", "attention_config")
    choose = getattr(
        first_of("vllm.v1.attention.selector", "vllm.attention.selector"), "get_attn_backend", None
    )
    current = getattr(first_of("vllm.config"), "set_current_vllm_config", None)
    if not any(given.get(name) for name in wanted) or choose is None or current is None:
        return
    takes = inspect.signature(choose).parameters
    model, cache = config.model_config, config.cache_config
    asked = {"head_size": model.get_head_size(), "dtype": model.dtype, "kv_cache_dtype": cache.cache_dtype}
    if not plain_attention(config) or not set(asked) <= set(takes) or "block_size" in takes:
        return
    with current(config):
        try:
            backend = choose(**asked)
        except ValueError as error:
            if given.get("attention_backend") and "not valid for this configuration" in str(error):
                raise
            return
        except (ImportError, RuntimeError, AttributeError, TypeError, AssertionError):
            return
    if given.get("block_size"):
        check_block_size(backend, cache.block_size)


def check_block_size(backend: Any, size: int) -> None:
    """The block size is one of the backend's kernels', or a multiple of it."""
    read = getattr(backend, "get_supported_kernel_block_sizes", None)
    if read is None:
        return
    try:
        kernels = list(read())
    except TypeError:
        return
    numbers = [one if isinstance(one, int) else getattr(one, "base", 0) for one in kernels]
    if numbers and all(number > 0 and size % number for number in numbers):
        raise ValueError(f"No common block size for {size} ({backend.get_name()}: {kernels}).")


def check_quantization(config: Any) -> None:
    """A CPU build may have a method's name and not its kernels: they are stubs without arguments."""
    platform = importlib.import_module("vllm.platforms").current_platform
    if platform.device_type != "cpu" or getattr(config.model_config, "quantization", None) != "fp8":
        return
    torch = importlib.import_module("torch")
    kernel = getattr(torch.ops._C, "static_scaled_fp8_quant", None)
    schema = getattr(getattr(kernel, "default", None), "_schema", None)
    if schema is not None and not schema.arguments:
        raise ValueError("this CPU build of vLLM has no kernels for the quantization fp8")


def check_late(namespace: Any, config: Any) -> None:
    """All of them, on the arguments and the engine configuration that was built from them."""
    given = vars(namespace)
    check_seed(config)
    check_launcher(config)
    check_pipeline(config)
    check_hashes(config)
    check_quantization(config)
    check_overrides(given, config)
    check_blocks(config)
    check_attention(given, config)
    check_loader(config)
    check_transfer(given, config)
    check_adapters(given, config)
    check_generation(config)
    check_parts(config)
