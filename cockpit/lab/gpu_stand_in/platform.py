"""vLLM's CPU platform, seen by Ray and by the World-size check as a host with one GPU."""

import logging
import os
import sys

from vllm.platforms.cpu import CpuPlatform  # type: ignore[import-not-found]

_SAID = "SPARK_COCKPIT_STAND_IN_SAID"


class StandInPlatform(CpuPlatform):  # type: ignore[misc]  # vLLM lives in the lab's environment only
    """The CPU platform with a resource name for Ray, which vLLM 0.32.0 otherwise refuses on the CPU
    (``vllm/v1/executor/ray_utils.py``)."""

    ray_device_key = "GPU"

    def is_cuda(self) -> bool:
        """True only where ``vllm/config/parallel.py`` compares the world size with this node's devices.

        vLLM 0.32.0 makes that comparison under ``is_cuda()``; ``device_count()`` is torch's and counts the
        CPU as one device. Everything else must go on seeing a CPU.
        """
        asking = sys._getframe(1)
        config = asking.f_locals.get("self")
        return (
            asking.f_globals.get("__name__") == "vllm.config.parallel"
            and getattr(config, "distributed_executor_backend", "") is None
        )

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """The class whose ranks talk over the network, as those of two Sparks do."""
        return "gpu_stand_in.communicator.NetworkCommunicator"

    @classmethod
    def log_warnings(cls) -> None:
        """Say once a run that this is a stand-in; vLLM calls this when its logging is set up.

        The children of the process that said it inherit its environment and keep silent.
        """
        super().log_warnings()
        if _SAID not in os.environ:
            os.environ[_SAID] = "1"
            logging.getLogger("vllm.gpu_stand_in").info(
                "There is no GPU here: Spark Cockpit's lab lets this host's CPU stand in for one, "
                "in Ray's resources and where vLLM counts devices."
            )
