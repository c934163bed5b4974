"""The interface to a kind of device: events, a side stream, pinned host memory, and the state of device memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Platform:
    """A kind of device without streams: work is finished when the call that started it returns."""

    name = "base"
    """The name that `--device` accepts."""

    torch_type = "cpu"
    """The `type` of the platform's `torch.device`."""

    pins_host_memory = False
    """True if `register_host` should work: a refusal is told."""

    asynchronous = False
    """True if calls return before the device has finished their work."""

    def is_available(self) -> bool:
        """Return True if this process can use a device of this kind."""
        return False

    def device_count(self) -> int:
        """Return the number of usable devices."""
        return 1 if self.is_available() else 0

    def default_dtype(self) -> torch.dtype:
        """Return the dtype of `--dtype auto`."""
        return torch.bfloat16

    def activate(self, device: str) -> None:
        """Make `device`, such as "cuda:1", the current device of the calling thread."""

    def record_device_event(self) -> Any | None:
        """Record and return a timing event on the current stream; None on platforms without streams."""
        return None

    def wait_for(self, event: Any | None) -> None:
        """Block until `event` has happened; for None, until the device has finished all work."""
        self.synchronize()

    def host_time(self, event: Any | None) -> float | None:
        """Return the time of a finished event in seconds of `time.monotonic()`; None if unknown."""
        return None

    @contextmanager
    def side_stream(self, after: Any | None) -> Iterator[None]:
        """Run the block on this thread's side stream, after the event `after`.

        All work of the block is finished when the context exits, also by an exception.
        """
        try:
            yield
        finally:
            self.synchronize()

    def keep_alive(self, tensor: torch.Tensor) -> None:
        """Keep the allocator from reusing the memory of `tensor` [any shape] while the side stream reads it."""

    def register_host(self, address: int, nbytes: int) -> bool:
        """Pin `nbytes` bytes of host memory at `address`, so that a copy to it is one DMA.

        Returns False if the memory is not pinned. Copies work either way.
        """
        return False

    def unregister_host(self, address: int) -> None:
        """Unpin the host memory at `address`."""

    def synchronize(self) -> None:
        """Block until the current device has finished all work."""

    def empty_cache(self) -> None:
        """Return the allocator's unused device memory to the driver."""

    def memory_in_use(self) -> int:
        """Return the bytes of device memory that this process's tensors occupy; 0 if unknown."""
        return 0

    def memory_held(self, device: str) -> tuple[int, int]:
        """Return the bytes of memory of `device` that are in use by anybody, and all of its bytes; zeros if unknown."""
        return 0, 0

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Return True if `error` means that memory ran out."""
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return True
        return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in _OUT_OF_MEMORY)


_OUT_OF_MEMORY = (
    "out of memory",  # the allocators of CUDA, HIP, XPU, NPU, MUSA and MPS, and the CUDA and HIP runtimes
    "outofmemory",  # hipErrorOutOfMemory
    "_status_alloc_failed",  # cuBLAS, cuDNN, cuSPARSE, hipBLAS: their own workspace
    "_status_internal_error_host_allocation_failed",  # cuDNN 9
    "out_of_device_memory",  # Level Zero and SYCL, behind XPU
    "out_of_host_memory",
    "defaultcpuallocator: can't allocate memory",
    "defaultcpuallocator: not enough memory",
)
"""Parts of the messages of RuntimeErrors that mean a lack of memory, in lower case."""
