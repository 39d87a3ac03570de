"""The CPU's communicator, over the network alone."""

from vllm.distributed.device_communicators.cpu_communicator import (  # type: ignore[import-not-found]
    CpuCommunicator,
)


class NetworkCommunicator(CpuCommunicator):  # type: ignore[misc]  # vLLM lives in the lab's environment only
    """Gloo between all ranks.

    vLLM 0.32.0 exchanges tensors through /dev/shm whenever the ranks' group names are equal
    (``distributed/device_communicators/cpu_communicator.py``), which says nothing of their hosts. On two hosts
    the engine then dies of "open shm in SHMManager failed. errno: 2"; only where the CPU has no AVX-512, and
    vLLM no such exchange, would it run.
    """

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        return False
