"""NVIDIA CUDA and AMD ROCm: the same `torch.cuda` module, and the one pair that can register shared memory for DMA."""

from typing import Any

import torch

from omni_cli.log import logger
from omni_cli.platforms.streams import StreamPlatform

_PORTABLE = 1
"""cudaHostRegisterPortable: pinned for every context of the process (CUDA runtime API, cudaHostRegister)."""


class CudaPlatform(StreamPlatform):
    """NVIDIA GPUs."""

    name = "cuda"
    torch_type = "cuda"
    module_name = "cuda"

    def is_available(self) -> bool:
        """A CUDA build of torch that sees a device."""
        return torch.version.hip is None and super().is_available()

    def register_host(self, address: int, nbytes: int) -> bool:
        """Pin the pages of a slot once; a refusal (locked-memory limit) only costs speed, so it is a warning."""
        code = _code(_runtime().cudaHostRegister(address, nbytes, _PORTABLE))
        if code != 0:
            logger.warning(
                "cudaHostRegister of %d bytes refused (error %d): copies go through a staging buffer", nbytes, code
            )
        return code == 0

    def unregister_host(self, address: int) -> None:
        """Unpin; an error here means that the context is already gone."""
        _runtime().cudaHostUnregister(address)


class RocmPlatform(CudaPlatform):
    """AMD GPUs: torch calls them cuda, and maps the runtime calls to HIP's."""

    name = "rocm"

    def is_available(self) -> bool:
        """A HIP build of torch that sees a device."""
        return torch.version.hip is not None and StreamPlatform.is_available(self)


def _runtime() -> Any:
    """Torch's binding of the CUDA (or HIP) runtime, which carries no types."""
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]


def _code(result: Any) -> int:
    """The number of a cudaError_t, which bindings give as an enum or as an int."""
    return int(result.value) if hasattr(result, "value") else int(result)
