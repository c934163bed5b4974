"""Intel XPU, Ascend NPU, Moore Threads MUSA, and Apple MPS."""

import torch

from omni_cli.platforms.base import Platform
from omni_cli.platforms.streams import StreamPlatform


class XpuPlatform(StreamPlatform):
    """Intel GPUs."""

    name = torch_type = module_name = "xpu"


class NpuPlatform(StreamPlatform):
    """Ascend NPUs (package torch_npu)."""

    name = torch_type = module_name = "npu"
    package = "torch_npu"


class MusaPlatform(StreamPlatform):
    """Moore Threads GPUs (package torch_musa)."""

    name = torch_type = module_name = "musa"
    package = "torch_musa"


class MpsPlatform(Platform):
    """Apple GPUs: one queue and no side streams, so the output is waited for before it is copied."""

    name = torch_type = "mps"

    def is_available(self) -> bool:
        """A Mac whose torch was built with Metal."""
        return torch.backends.mps.is_available()

    def default_dtype(self) -> torch.dtype:
        """float16: bfloat16 needs macOS 14 and is emulated on older chips."""
        return torch.float16

    def synchronize(self) -> None:
        """Wait for the queue."""
        torch.mps.synchronize()

    def empty_cache(self) -> None:
        """Hand unused cached memory back."""
        torch.mps.empty_cache()

    def memory_in_use(self) -> int:
        """Bytes that tensors hold."""
        return int(torch.mps.current_allocated_memory())

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Metal's allocator raises a RuntimeError that says so."""
        return super().is_out_of_memory(error) or (
            isinstance(error, RuntimeError) and "MPS backend out of memory" in str(error)
        )
