"""The arithmetic of signatures: which reading of a message fits the launch, and the words of its fix. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import floor

from cockpit.diagnosis.flag_names import choice, choices_of, listed, meant
from cockpit.diagnosis.reading import Hit
from cockpit.diagnosis.situation import UNIFIED, Situation


@dataclass(frozen=True, slots=True)
class Told:
    """The variant of the signature that fits ("" for its own words) and more words for the templates."""

    variant: str = ""
    words: Mapping[str, str] = field(default_factory=dict)


Rule = Callable[[Hit, Situation], Told]


def adjusted(hit: Hit, facts: Situation) -> Told:
    """What the signature's rule says; without a rule its own words."""
    rule = RULES.get(hit.signature.adjust)
    told = rule(hit, facts) if rule else Told()
    return replace(told, words={**_choices(hit), **told.words})


def _choices(hit: Hit) -> dict[str, str]:
    """The words of a message that lists what may be chosen: the list, and the choice that was meant."""
    value, choices = hit.parts.get("value", ""), choices_of(hit.parts.get("choices", ""))
    right = choice(value, choices)
    meant_words = f"; {right} is meant, it seems" if right else ""
    return {"choices": listed(value, choices), "right": right, "meant": meant_words}


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return 0.0


_DRIVERS = 1.0
"""GiB of a GPU that the driver and CUDA's context take where nothing else runs."""


def _unified(total: float, facts: Situation) -> bool:
    return UNIFIED[0] < total < UNIFIED[1] if total else bool(facts.unified)


def _share(value: float) -> str:
    """A share of memory rounded down to five hundredths, "" when there is nothing to give."""
    share = floor(value * 20) / 20
    return f"{share:.2f}" if share >= 0.05 else ""


def _free_memory(hit: Hit, facts: Situation) -> Told:
    free, total = _number(hit.parts.get("free")), _number(hit.parts.get("total"))
    unified = _unified(total, facts)
    share = free / total if total else 0.0
    fits = _share(min(share - 0.02, 0.8 if unified else 0.95))
    held = max(0.0, total - free)
    variant = "unified" if unified else "alone" if held < _DRIVERS and total else ""
    return Told(variant, {"held": f"{held:.1f}", "fits": fits})


def _cuda_oom(hit: Hit, facts: Situation) -> Told:
    tried = hit.parts.get("tried", "")
    words = {
        "tried_words": f" ({tried} more were asked for)" if tried else "",
        "phase": " while it was serving" if facts.ready else "",
        **_lower(facts),
    }
    other = re.match(r"([\d.]+) GiB", hit.parts.get("other", ""))
    if other and float(other[1]) > 2:
        return Told("neighbour", words)
    return Told("unified" if _unified(_number(hit.parts.get("total")), facts) else "", words)


def _lower(facts: Situation) -> dict[str, str]:
    share = facts.number("gpu_memory_utilization", 0.9)
    lower = f"{max(0.1, floor(min(share, 0.9) * 20 - 1) / 20):.2f}"
    return {"lower": lower, "lower_util": lower}


def _lower_util(_hit: Hit, facts: Situation) -> Told:
    return Told("", _lower(facts))


def _kv_fits(hit: Hit, _facts: Situation) -> Told:
    if hit.parts.get("fits", "0") == "0":
        return Told("nothing")
    rounded = hit.parts.get("needed") == hit.parts.get("left") or _number(hit.parts.get("needed")) < 0.1
    return Told("rounded" if rounded else "")


def _disk_path(hit: Hit, _facts: Situation) -> Told:
    path = hit.parts.get("path", "")
    return Told("", {"path_words": f": {path} could not be written" if path else ""})


def _config_path(hit: Hit, _facts: Situation) -> Told:
    why = hit.parts.get("why") or hit.parts.get("path", "")
    return Told("", {"path_words": f" ({why.strip()})" if why else ""})


def _backend_given(_hit: Hit, facts: Situation) -> Told:
    return Told("ray" if facts.backend == "ray" or facts.ray else "")


def _nccl_reason(hit: Hit, _facts: Situation) -> Told:
    return Told("told" if hit.parts.get("why") else "")


def _ranks_alone(_hit: Hit, facts: Situation) -> Told:
    """Whether several ranks were put on one node because nothing spreads them."""
    several = facts.number("tensor_parallel_size", 1) * facts.number("pipeline_parallel_size", 1) > 1
    return Told(
        "alone" if several and facts.backend in ("", "mp") and not facts.ray and facts.nodes == 1 else ""
    )


def _unknown_flag(hit: Hit, _facts: Situation) -> Told:
    flag = hit.parts.get("flag", "") or hit.parts.get("rest", "").split(" ")[0]
    flag = flag.split("=", 1)[0]
    right = meant(flag) if flag.startswith("-") else ""
    value = re.match(r"[= ]*([^\s-]\S*)", hit.parts.get("rest", ""))
    words = {"flag": flag, "name": flag.lstrip("-"), "right": right, "value": value[1] if value else ""}
    return Told("meant" if right else "", words)


def _flag_name(hit: Hit, _facts: Situation) -> Told:
    json = "cannot be converted to" in hit.text and ("json" in hit.text or "loads" in hit.text)
    return Told("json" if json else "", {"name": hit.parts.get("flag", "").lstrip("-")})


_SHARE = "gpu_memory_utilization"
_NESTED = (
    "Attention",
    "Compilation",
    "ECTransfer",
    "EPLB",
    "KVEvents",
    "KVTransfer",
    "Kernel",
    "Mamba",
    "Pooler",
    "Profiler",
    "Speculative",
    "StructuredOutputs",
    "WeightTransfer",
)
"""Configurations that one flag gives whole, as JSON; the fields of the others are flags of their own."""
_BOUND = re.compile(r"(?P<which>less|greater) than (?P<equal>or equal to )?(?P<bound>-?\d+(?:\.\d+)?)$")


def _pydantic_field(hit: Hit, facts: Situation) -> Told:
    """The value that the message itself allows: the bound that was passed, or the choice that was meant."""
    field, why = hit.parts.get("field", ""), hit.parts.get("why", "")
    name = field.replace("_", "-")
    words = {"flag": f"--{name}" if name else "an argument", "name": name}
    config = hit.parts.get("config", "").removesuffix("Config")
    if config in (*_NESTED, "Pass") and field:
        flag = (
            "compilation"
            if config == "Pass"
            else re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", config)
        )
        return Told("key", {**words, "flag": f"--{flag.lower()}-config"})
    allowed = _allowed(hit.parts.get("value", ""), why, facts) if field == _SHARE else _bound(why)
    if not allowed and "Input should be '" in why:
        allowed = choice(hit.parts.get("value", "").strip("'\""), choices_of(why.split("be ", 1)[1]))
    if not allowed or "." in field or (facts.args and field not in facts.args):
        return Told("", words)
    return Told("allowed", {**words, "allowed": allowed})


def _allowed(value: str, why: str, facts: Situation) -> str:
    """A share of memory in place of one out of bounds: per cent as a share, else what most hosts can give."""
    most = 0.8 if facts.unified else 0.9
    share = _number(value) / 100 if 2 < _number(value) <= 100 else most
    return f"{min(share, most):g}" if _BOUND.search(why) else ""


def _bound(why: str) -> str:
    match = _BOUND.search(why)
    if match is None:
        return ""
    if match["equal"]:
        return match["bound"]
    return (
        str(int(match["bound"]) + (1 if match["which"] == "greater" else -1))
        if match["bound"].isdecimal()
        else ""
    )


def _model_path(hit: Hit, facts: Situation) -> Told:
    """Whose folder it is that is not there: the model's, or that of the draft model."""
    path, draft = hit.parts.get("path", ""), facts.args.get("speculative_config")
    other = path and path not in (facts.args.get("model"), facts.args.get("model_tag"))
    return Told("draft" if other and draft and path in str(draft) else "")


def _whose_value(hit: Hit, facts: Situation) -> Told:
    """The argument that has the value of the message; without one it is an environment variable's."""
    value = hit.parts.get("value", "")
    name = next((name for name, given in facts.args.items() if str(given) == value), "")
    return Told("flag" if name else "", {"flag": f"--{name.replace('_', '-')}"})


def _backend_name(_hit: Hit, facts: Situation) -> Told:
    known = ("", "ray", "mp", "uni", "external_launcher")
    return Told(
        "backend" if facts.backend not in known and "." not in facts.backend else "", {"backend": facts.backend}
    )


def _quant_given(_hit: Hit, facts: Situation) -> Told:
    return Told("model" if facts.args and "quantization" not in facts.args else "")


def _gloo_peer(hit: Hit, _facts: Situation) -> Told:
    return Told("", {"peer": hit.parts.get("peer") or "of its peer"})


def _rdma_call(hit: Hit, _facts: Situation) -> Told:
    return Told("modify" if "modify_qp" in hit.parts.get("call", "") else "")


def _api_port(hit: Hit, facts: Situation) -> Told:
    port = int(hit.parts.get("bind_port") or facts.number("port", 8000))
    return Told("", {"port": str(port), "other_port": str(port + 1)})


def _ray_versions(hit: Hit, _facts: Situation) -> Told:
    found = re.findall(r"Ray: (\S+)\s+Python: (\S+)", hit.parts.get("all", "") or hit.text)
    told = [hit.parts.get(key, "") for key in ("theirs", "theirs_python", "ours", "ours_python")]
    if all(told):
        versions = f": Ray {told[0]}, Python {told[1]} there; Ray {told[2]}, Python {told[3]} here"
    else:
        versions = ", ".join(f"Ray {ray} with Python {python}" for ray, python in found)
    return Told("", {"versions": versions})


def _missing_library(hit: Hit, facts: Situation) -> Told:
    if hit.parts.get("lib", "").startswith(("libcuda.so", "libnvidia")):
        return Told("driver")
    return Told("" if facts.world > 1 or facts.ray else "image")


def _gcs_address(hit: Hit, facts: Situation) -> Told:
    gcs = hit.parts.get("gcs") or facts.gcs
    port = gcs.rpartition(":")[2] if ":" in gcs else "6379"
    return Told("", {"gcs": gcs or "its address", "gcs_port": port})


def _peer(hit: Hit, _facts: Situation) -> Told:
    return Told("", {"peer": hit.parts.get("peer") or "the other node"})


def _told_why(hit: Hit, _facts: Situation) -> Told:
    code, why = hit.parts.get("code", ""), hit.parts.get("why", "")
    words = ": ".join(part for part in (f"error {code}" if code else "", why) if part)
    return Told("", {"why_words": f" ({words})" if words else ""})


def _clients(hit: Hit, _facts: Situation) -> Told:
    """How many ranks came to the rendezvous, and in what time, where the message tells."""
    here, wanted, seconds = (hit.parts.get(key, "") for key in ("here", "all", "seconds"))
    told = f"Only {here} of {wanted} ranks" if here and wanted else "Not every rank"
    return Told("", {"clients": told + (f" came in {seconds} seconds" if seconds else " came")})


def _resource(hit: Hit, _facts: Situation) -> Told:
    needed, limit = hit.parts.get("needed", ""), hit.parts.get("limit", "")
    return Told("", {"resource": f": {needed}, and it has {limit}" if needed else ""})


def _actor_gone(hit: Hit, _facts: Situation) -> Told:
    return Told("node" if hit.parts.get("gone") else "")


def _permission(hit: Hit, _facts: Situation) -> Told:
    return Told("" if hit.parts.get("path") else "nameless")


def _node_dead(hit: Hit, _facts: Situation) -> Told:
    return Told("", {"node_ip": hit.parts.get("node_ip", "")})


def _exit_code(hit: Hit, _facts: Situation) -> Told:
    code = hit.parts.get("code", "")
    known = {"-9": "killed, most often by the OOM killer", "-11": "segmentation fault", "-7": "bus error"}
    words = f" (exit code {code}{': ' + known[code] if code in known else ''})" if code else ""
    return Told("", {"code_words": words})


def _divisor(hit: Hit, _facts: Situation) -> Told:
    heads, size = int(_number(hit.parts.get("heads"))), int(_number(hit.parts.get("size")))
    fits = next((number for number in range(min(size, heads), 0, -1) if heads % number == 0), 1)
    return Told("", {"fits": str(fits)})


def _module(hit: Hit, _facts: Situation) -> Told:
    top = hit.parts.get("module", "").split(".")[0]
    variant = {"flashinfer": "flashinfer", "triton": "triton"}.get(top, "")
    names = {
        "flashinfer": "flashinfer-python",
        "cv2": "opencv-python-headless",
        "PIL": "pillow",
        "yaml": "pyyaml",
        "pkg_resources": "setuptools<81",
    }
    return Told(variant, {"package": names.get(top, top.replace("_", "-"))})


RULES: dict[str, Rule] = {
    "actor_gone": _actor_gone,
    "api_port": _api_port,
    "backend_given": _backend_given,
    "backend_name": _backend_name,
    "clients": _clients,
    "config_path": _config_path,
    "cuda_oom": _cuda_oom,
    "disk_path": _disk_path,
    "divisor": _divisor,
    "exit_code": _exit_code,
    "flag_name": _flag_name,
    "free_memory": _free_memory,
    "gcs_address": _gcs_address,
    "gloo_peer": _gloo_peer,
    "kv_fits": _kv_fits,
    "lower_util": _lower_util,
    "missing_library": _missing_library,
    "model_path": _model_path,
    "module": _module,
    "nccl_reason": _nccl_reason,
    "node_dead": _node_dead,
    "peer": _peer,
    "permission": _permission,
    "pydantic_field": _pydantic_field,
    "quant_given": _quant_given,
    "ranks_alone": _ranks_alone,
    "ray_versions": _ray_versions,
    "rdma_call": _rdma_call,
    "resource": _resource,
    "told_why": _told_why,
    "unknown_flag": _unknown_flag,
    "whose_value": _whose_value,
}
