"""A vLLM platform that lets the CPU build be spread by Ray as if each Ray node had one GPU.

This package is copied into the lab's environment and imported by vLLM there, through the entry point group
``vllm.platform_plugins``; the cockpit's own process never imports it. It touches no source of vLLM's.
"""


def register() -> str:
    """The platform's class, by name, as vLLM's plugin loader wants it."""
    return "gpu_stand_in.platform.StandInPlatform"
