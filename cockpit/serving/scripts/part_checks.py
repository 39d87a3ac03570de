"""The engine's and the server's parts that flags name: made later by a factory of vLLM's, looked up in it before.

Its text stands in front of ``late_checks.py``'s, and keeps to the same rule: each check asks vLLM's own function or
registry where there is one, raises what vLLM would, and says nothing where a vLLM is built otherwise.
"""

import importlib
import importlib.util
import inspect
import types
import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cockpit.serving.scripts.late_checks import first_of

FRONTEND = (
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
GRPC = ("vllm.entrypoints.launchers.grpc_server", "vllm.entrypoints.grpc_server")
OWN_DRAFTS = ("medusa", "mlp_speculator")
"""Speculative methods whose draft model has a class of its own; vLLM writes the type over that the model has."""


def check_containers(given: "dict[str, Any]") -> None:
    """JSON that the API server takes for a list or for a mapping is one: its parser takes any JSON."""
    made = getattr(first_of(*FRONTEND), "FrontendArgs", None)
    try:
        hints = typing.get_type_hints(made) if made is not None else {}
    except (NameError, TypeError):
        return
    for name, hint in hints.items():
        options = typing.get_args(hint) if is_union(hint) else (hint,)
        kinds = {typing.get_origin(one) or one for one in options} - {type(None)}
        convert: Any = dict if kinds == {dict} else iter if kinds == {list} else None
        if convert is None or given.get(name) is None:
            continue
        try:
            convert(given[name])
        except (TypeError, ValueError) as error:
            what = "a mapping" if convert is dict else "a list"
            raise ValueError(f"--{name.replace('_', '-')} {given[name]!r}: expected {what}: {error}") from error


def is_union(hint: Any) -> bool:
    """Whether a type hint is ``A | B``, in either of its spellings."""
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def check_server_parts(given: "dict[str, Any]") -> None:
    """There is a server, and its packages are installed."""
    count = given.get("api_server_count")
    if isinstance(count, int) and count < 1 and not given.get("headless"):
        raise ValueError(
            f"--api-server-count={count}: the engine would start and no API would ever answer; "
            "--headless is the way to start without one."
        )
    if given.get("grpc"):
        for module in filter(is_there, GRPC):
            importlib.import_module(module)


def is_there(module: str) -> bool:
    """Whether there is a module of this name; it is not imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def check_connector(config: Any) -> None:
    """What a KV connector reads of its extra configuration when it is made."""
    transfer = getattr(config, "kv_transfer_config", None)
    name = str(getattr(transfer, "kv_connector", "") or "")
    extra = getattr(transfer, "kv_connector_extra_config", None) or {}
    if name == "MultiConnector":
        made = first_of("vllm.distributed.kv_transfer.kv_connector.v1.multi_connector")
        if extra.get("connectors") is None:
            raise ValueError("MultiConnector needs the list connectors in kv_connector_extra_config")
        read = getattr(getattr(made, "MultiConnector", None), "_get_connector_classes_and_configs", None)
        if read is not None:
            for _, inner in read(config):
                check_connector(inner)
    if name == "OffloadingConnector":
        factory = getattr(first_of("vllm.v1.kv_offload.factory"), "OffloadingSpecFactory", None)
        find = getattr(factory, "get_spec_cls", None)
        needed = "cpu_bytes_to_use must be specified in kv_connector_extra_config"
        if find is not None and needed in inspect.getsource(find(extra)) and not extra.get("cpu_bytes_to_use"):
            raise ValueError(needed)


def check_encoder_connector(config: Any) -> None:
    """There is such a connector for an encoder's cache."""
    transfer = getattr(config, "ec_transfer_config", None)
    factory = first_of("vllm.distributed.ec_transfer.ec_connector.factory")
    find = getattr(getattr(factory, "ECConnectorFactory", None), "get_connector_class", None)
    if find is not None and getattr(transfer, "ec_connector", None):
        find(transfer)


def check_events(config: Any) -> None:
    """KV events can be sent where they are to go: by ZeroMQ's own reading of the address. Nothing is listened on."""
    events = getattr(config, "kv_events_config", None)
    endpoint = getattr(events, "endpoint", None)
    if not getattr(events, "enable_kv_cache_events", False) or getattr(events, "publisher", "") != "zmq":
        return
    # What has these is bound, not connected to (vllm/distributed/kv_events.py).
    if not endpoint or any(part in endpoint for part in ("*", "::", "ipc://", "inproc://")):
        return
    zmq = first_of("zmq")
    if zmq is None:
        return
    with zmq.Context() as context, context.socket(zmq.PUB) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise ValueError(f"--kv-events-config: the endpoint {endpoint}: {error}") from error


def check_weight_transfer(config: Any) -> None:
    """There is such an engine for the transfer of weights."""
    backend = getattr(getattr(config, "weight_transfer_config", None), "backend", None)
    factory = getattr(first_of("vllm.distributed.weight_transfer.factory"), "WeightTransferEngineFactory", None)
    known = getattr(factory, "_registry", None)
    if backend is not None and known and backend not in known:
        raise ValueError(f"Invalid weight transfer backend: {backend}. Available engines: {sorted(known)}")


def check_conversion(config: Any) -> None:
    """A conversion fits what the model is run for: vLLM has the table, and looks at it for other models only."""
    model = config.model_config
    table = getattr(first_of("vllm.config.model"), "_RUNNER_CONVERTS", None)
    converts, runner = getattr(model, "convert_type", "none"), getattr(model, "runner_type", None)
    if table and runner in table and converts != "none" and converts not in table[runner]:
        raise ValueError(f"--convert {converts} does not go with --runner {runner}: leave one of them out")


def check_draft(config: Any) -> None:
    """A draft model of its own: the quantization has its configuration, and the model is one of the method's."""
    speculative = getattr(config, "speculative_config", None)
    draft = getattr(speculative, "draft_model_config", None)
    if draft is None or draft is config.model_config:
        return
    method = str(getattr(speculative, "method", "") or "")
    known = getattr(first_of("vllm.model_executor.models.registry"), "_SPECULATIVE_DECODING_MODELS", None)
    classes = list(getattr(draft, "architectures", None) or ())
    if method in OWN_DRAFTS and known and classes and not any(name in known for name in classes):
        raise ValueError(
            f"--speculative-config: the method {method} needs a draft model of its own kind, and {draft.model} "
            f"is a {', '.join(classes)}"
        )
    read = getattr(type(config), "get_quantization_config", None)
    if read is not None and getattr(draft, "quantization", None):
        read(draft, config.load_config)


def check_kernels(config: Any) -> None:
    """A CPU build has a kernel for the quantization: vLLM's own choice for one small layer without weights."""
    quantization = getattr(config, "quant_config", None)
    platform = importlib.import_module("vllm.platforms").current_platform
    made = getattr(first_of("vllm.model_executor.layers.linear"), "ReplicatedLinear", None)
    current = getattr(first_of("vllm.config"), "set_current_vllm_config", None)
    # On a GPU the choice would start CUDA here, in a process that forks.
    if quantization is None or platform.device_type != "cpu" or made is None or current is None:
        return
    torch = importlib.import_module("torch")
    words: dict[str, Any] = {"bias": False, "params_dtype": config.model_config.dtype}
    words |= {"quant_config": quantization, "prefix": "model.layers.0.mlp.down_proj", "disable_tp": True}
    takes = inspect.signature(made.__init__).parameters
    try:
        with current(config), torch.device("meta"):
            made(256, 256, **{name: value for name, value in words.items() if name in takes})
    except Exception as error:
        if "Failed to find a kernel" in str(error):
            raise


def check_parts(config: Any) -> None:
    """All that are made with the engine."""
    check_conversion(config)
    check_draft(config)
    check_kernels(config)
    check_connector(config)
    check_encoder_connector(config)
    check_events(config)
    check_weight_transfer(config)
