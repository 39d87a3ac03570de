"""The kind of an exception that no signature knows, from its type and from where it was raised. Pure."""

from __future__ import annotations

import re

from cockpit.diagnosis.signatures import Signature, signatures
from cockpit.diagnosis.tracebacks import Raised
from cockpit.model.finding import Confidence

_TYPES = (
    ("OutOfMemoryError", "oom-gpu"),
    ("DeferredCudaCallError", "driver-cuda"),
    ("MemoryError", "oom-unified-memory"),
    ("PermissionError", "permissions"),
    ("huggingface_hub.", "hf-download"),
    ("requests.exceptions.", "hf-download"),
    ("httpx.", "hf-download"),
    ("jinja2.", "chat-template"),
    ("json.decoder.", "config-json"),
    ("JSONDecodeError", "config-json"),
    ("torch._inductor.", "compile"),
    ("torch._dynamo.", "compile"),
    ("triton.", "triton-ptxas"),
    ("torch.distributed.DistNetworkError", "network-iface"),
    ("torch.distributed.DistStoreError", "network-iface"),
    ("torch.distributed.DistBackendError", "nccl-roce"),
    ("ray.exceptions.", "ray-membership"),
    ("safetensors", "model-missing"),
)
_PLACES = (
    (r"/flashinfer/", "flashinfer"),
    (r"/triton/", "triton-ptxas"),
    (r"/torch/_inductor/|/torch/_dynamo/|/vllm/compilation/", "compile"),
    (r"/reasoning/", "reasoning-parser"),
    (r"/tool_parsers/|/tool_parser", "tool-parser"),
    (r"chat_utils\.py|/chat_template", "chat-template"),
    (r"/quantization/", "quantization"),
    (r"tokeniz", "tokenizer"),
    (r"/model_executor/model_loader/|/model_executor/models/", "config-json"),
    (r"/transformers/configuration|/transformers_utils/config", "config-json"),
    (r"pynccl|/distributed/device_communicators/", "nccl-roce"),
    (r"kv_cache_utils\.py", "kv-cache-too-small"),
    (r"weight_utils\.py|default_loader\.py", "model-missing"),
    (r"executor/ray_utils\.py", "placement-group"),
    (r"/platforms/cuda|torch/cuda/__init__", "driver-cuda"),
    (r"/attention/backends/|/attention/ops/|/fused_moe/|_custom_ops\.py", "kernel-arch-sm121"),
    (r"arg_utils\.py|argparse|/vllm/config/|/lora/|/multimodal/", "args"),
    (r"parallel_state\.py|distributed_c10d", "network-iface"),
    (r"/ray/", "ray-membership"),
)
_WORDS = (
    (r"/dev/shm|[Ss]hared.memory (?:allocation|segment|block)", "shm"),
    (r"[Nn]o space left|[Dd]isk quota|disk is full", "disk-full"),
    (r"(?i)\bCUDA out of memory|\bGPU memory\b", "oom-gpu"),
    (r"(?i)cannot allocate memory|\bMemAvailable\b|\bhost memory\b", "oom-unified-memory"),
    (r"(?i)permission denied|operation not permitted|read-only file system", "permissions"),
    (r"(?i)address already in use|port \d+ is (?:already )?(?:in use|taken)", "port-in-use"),
    (
        r"(?i)\bdivisible by\b|\btp_size\b|\btensor.parallel(?:ism)?.size \d+ is (?:greater|larger|more)",
        "tp-divisibility",
    ),
    (r"(?i)gpu.architecture|\bcompute_1\d\d|\bsm_?1\d\d", "kernel-arch-sm121"),
    (r"(?i)\bnvrtc\b|\bnvcc\b", "compile"),
    (r"(?i)\bKV.cache (?:memory|blocks?|size)\b", "kv-cache-too-small"),
    (r"(?i)\bplacement group\b", "placement-group"),
    (r"(?i)not supported on this (?:device|gpu|hardware|platform)", "kernel-arch-sm121"),
    (
        r"(?i)\bmodel with architecture\b|\barchitectures? \S+ (?:is|are) not supported",
        "model-arch-unsupported",
    ),
    (r"(?i)\bquantiz|\bquantis", "quantization"),
    (r"(?i)\bchat.template\b", "chat-template"),
    (r"(?i)\btool.(?:call.)?parser\b", "tool-parser"),
    (r"(?i)\breasoning.parser\b", "reasoning-parser"),
    (r"(?i)\btokenizer\b", "tokenizer"),
    (r"(?i)\b(?:network )?interface\b.*\b(?:found|exist|address)", "network-iface"),
    (r"\bNCCL\b|\bRDMA\b|\bibv_", "nccl-roce"),
    (r"(?i)\bsafetensors\b|\bcheckpoint\b|\bweights? file", "model-missing"),
    (r"(?i)\bVLLM_HOST_IP\b|\blocal IP address\b", "network-iface"),
    (
        r"(?i)\bis not supported (?:with|together|for|by|when)\b|(?<!\w)--[a-z]+-[a-z-]+|\bmax_(?:num|model)_[a-z_]+",
        "args",
    ),
)
"""Words of the message itself, of which the first that fits decides; in the order of how little else they may mean."""

_CODE = ((r"[Tt]okeniz", "tokenizer"), (r"chat_template", "chat-template"), (r"speculative|lora_", "args"))
_ADVICE = {
    "tokenizer": "Check that tokenizer.json and tokenizer_config.json are complete beside the weights.",
    "chat-template": "Check the chat template: the model's own, or the file that --chat-template names.",
    "config-json": "Compare config.json with the publisher's repository.",
    "model-missing": "Check that the model's files are complete on every host.",
    "quantization": "Check whether this vLLM knows the model's quantization (quantization_config in config.json).",
    "permissions": "Check who owns the file, and as whom vLLM runs.",
    "network-iface": "Check the interfaces and addresses of both hosts (`ip -br addr`) against the profile's.",
    "compile": "Launch with --enforce-eager to see whether the compilation alone is at fault.",
}


def kind_of(raised: Raised, *, serving: bool) -> str:
    """The contract's kind that fits best; ``other`` when nothing does."""
    for words, kind in _TYPES:
        if words in raised.type:
            return kind
    if serving:
        return "crash-engine-core"
    for pattern, kind in _WORDS:
        if re.search(pattern, raised.text):
            return kind
    for frame in reversed(raised.frames[-3:]):
        for pattern, kind in _PLACES:
            if re.search(pattern, frame):
                return _of_arguments(raised) if kind == "args" else kind
    for line in reversed(raised.code[-8:]):
        for pattern, kind in _CODE:
            if re.search(pattern, line):
                return kind
    return "other"


def _of_arguments(raised: Raised) -> str:
    """The kind of what was raised where arguments are taken: a package or a key of the model's configuration that
    is not there is no argument's fault."""
    name = raised.type.rpartition(".")[2]
    if name in ("ImportError", "ModuleNotFoundError", "OSError", "RuntimeError", "Exception"):
        return "other"
    return "config-json" if name in ("KeyError", "AttributeError") else "args"


_WORDS_LEAST = 3


def near(raised: Raised) -> Signature | None:
    """The signature whose text stands in the message, though in another form than it knows; a text of fewer than
    ``_WORDS_LEAST`` words may stand anywhere."""
    found = [
        (len(text), signature)
        for signature in signatures()
        if signature.role == "cause" and signature.weight >= 0 and signature.confidence is Confidence.CERTAIN
        if not signature.any_level and signature.comes_from(raised.frames)
        for text in (text.decode() for text in signature.find)
        if len(text.split()) >= _WORDS_LEAST and text in raised.text
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def advice(kind: str) -> str:
    """What to look at first where only the kind is known, "" where there is nothing to say."""
    return _ADVICE.get(kind, "")
