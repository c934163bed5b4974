"""Platforms without streams: the CPU and Apple MPS."""

import torch

from omni_cli.platforms.base import Platform


class CpuPlatform(Platform):
    """The CPU, whose cores and memory the forward pass and the output share."""

    name = torch_type = "cpu"

    def is_available(self) -> bool:
        """Return True: every machine has one."""
        return True

    def default_dtype(self) -> torch.dtype:
        """Return float32: most CPUs are slower in bfloat16."""
        return torch.float32


class MpsPlatform(Platform):
    """Apple GPUs, which have one queue and no side streams."""

    name = torch_type = "mps"

    def is_available(self) -> bool:
        """Return True on a Mac whose torch was built with Metal."""
        return torch.backends.mps.is_available()

    def default_dtype(self) -> torch.dtype:
        """Return float16: bfloat16 needs macOS 14 and is emulated on older chips."""
        return torch.float16

    def synchronize(self) -> None:
        """Block until the queue is empty."""
        torch.mps.synchronize()

    def empty_cache(self) -> None:
        """Return the allocator's unused memory."""
        torch.mps.empty_cache()

    def memory_in_use(self) -> int:
        """Return the bytes that tensors occupy."""
        return int(torch.mps.current_allocated_memory())
