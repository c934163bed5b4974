"""NVIDIA CUDA and AMD ROCm, which share the module `torch.cuda` and can pin shared memory for DMA."""

from typing import Any

import torch

from omni_cli.platforms.streams import StreamPlatform

_PORTABLE = 1
"""cudaHostRegisterPortable: pinned for every context of the process (CUDA runtime API, cudaHostRegister)."""


class CudaPlatform(StreamPlatform):
    """NVIDIA GPUs."""

    name = torch_type = module_name = "cuda"
    pins_host_memory = True

    def is_available(self) -> bool:
        """Return True for a CUDA build of torch that sees a device."""
        return torch.version.hip is None and super().is_available()

    def register_host(self, address: int, nbytes: int) -> bool:
        """Pin host memory; return False if the driver refuses, as with a locked-memory limit."""
        return self.has_succeeded(_runtime().cudaHostRegister(address, nbytes, _PORTABLE))

    def unregister_host(self, address: int) -> None:
        """Unpin host memory. An error (not pinned, or the CUDA context no longer exists) is cleared and ignored."""
        self.has_succeeded(_runtime().cudaHostUnregister(address))


class RocmPlatform(CudaPlatform):
    """AMD GPUs. torch calls them "cuda" and maps the runtime calls to HIP."""

    name = "rocm"

    def is_available(self) -> bool:
        """Return True for a HIP build of torch that sees a device."""
        return torch.version.hip is not None and StreamPlatform.is_available(self)


def _runtime() -> Any:
    """Return torch's untyped binding of the CUDA (or HIP) runtime."""
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]
