"""The flag that a mistyped one means. Pure."""

from __future__ import annotations

import difflib
import re

MOST, SHOWN = 10, 6
"""A list of more than ``MOST`` choices is told by ``SHOWN`` of them."""

_FLAGS = (
    "api-key async-scheduling attention-backend attention-config block-size calculate-kv-scales chat-template "
    "chat-template-content-format code-revision compilation-config config config-format cpu-offload-gb "
    "data-parallel-address data-parallel-size data-parallel-size-local disable-custom-all-reduce "
    "disable-log-stats distributed-executor-backend download-dir dtype enable-auto-tool-choice "
    "enable-chunked-prefill enable-expert-parallel enable-log-requests enable-lora enable-prefix-caching "
    "enable-prompt-tokens-details enable-sleep-mode enforce-eager generation-config gpu-memory-utilization "
    "headless hf-config-path hf-overrides hf-token host kv-cache-dtype kv-cache-memory-bytes "
    "kv-transfer-config language-model-only limit-mm-per-prompt load-format logits-processors "
    "long-prefill-token-threshold lora-modules master-addr master-port max-logprobs max-lora-rank max-loras "
    "max-model-len max-num-batched-tokens max-num-seqs max-parallel-loading-workers middleware "
    "mm-encoder-tp-mode mm-processor-kwargs model model-impl model-loader-extra-config nnodes node-rank "
    "num-gpu-blocks-override optimization-level otlp-traces-endpoint override-generation-config "
    "pipeline-parallel-size port prefix-caching-hash-algo quantization reasoning-parser "
    "reasoning-parser-plugin revision root-path scheduling-policy seed served-model-name skip-tokenizer-init "
    "speculative-config ssl-certfile ssl-keyfile swap-space tensor-parallel-size tokenizer tokenizer-mode "
    "tokenizer-revision tool-call-parser tool-parser-plugin trust-remote-code uvicorn-log-level "
)


def meant(flag: str) -> str:
    """The known flag (without dashes) that is closest to ``flag``, "" when none is close."""
    name = flag.lstrip("-").replace("_", "-").lower()
    close = difflib.get_close_matches(name, _FLAGS.split(), 1, 0.8)
    return close[0] if close and close[0] != name else ""


def choice(value: str, choices: list[str]) -> str:
    """The choice that is closest to ``value``, "" when none is close."""
    close = difflib.get_close_matches(value, choices, 1, 0.7)
    return close[0] if close else ""


def choices_of(text: str) -> list[str]:
    """The words of a list of choices as Python or argparse prints it."""
    return [quoted or bare for quoted, bare in re.findall(r"""['"]([^'"]+)['"]|([\w.+-]+)""", text)]


def listed(value: str, choices: list[str]) -> str:
    """The choices as words of a sentence: of a long list those nearest to ``value``."""
    if len(choices) <= MOST:
        return ", ".join(choices) or "its own list"
    near = difflib.get_close_matches(value, choices, SHOWN, 0.0)
    return f"{', '.join(near)} and {len(choices) - len(near)} more"
