"""The CPU as the device: the forward and the output share its cores, so there is nothing to wait for and nothing to copy over."""

import torch

from omni_cli.platforms.base import Platform


class CpuPlatform(Platform):
    """Always there; float32, because most CPUs are slower in bfloat16 and every one is exact in float32."""

    name = "cpu"
    torch_type = "cpu"

    def is_available(self) -> bool:
        """Every machine has one."""
        return True

    def default_dtype(self) -> torch.dtype:
        """float32."""
        return torch.float32

    def is_out_of_memory(self, error: BaseException) -> bool:
        """The CPU allocator reports exhaustion as a RuntimeError that says so."""
        return super().is_out_of_memory(error) or (
            isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
        )
