"""What the worker needs of a device: events, a side stream, host memory it can reach by DMA, and its memory's state.

The base is a safe no-op for a device without streams: work is done when the call returns, so there is no event to wait for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Platform:
    """A kind of device. `torch_type` is the type part of `torch.device`."""

    name = "base"
    torch_type = "cpu"
    asynchronous = False
    """True if kernels run behind the caller's back, on streams."""

    def is_available(self) -> bool:
        """True if a device of this kind can be used in this process."""
        return False

    def device_count(self) -> int:
        """Number of usable devices."""
        return 1 if self.is_available() else 0

    def default_dtype(self) -> torch.dtype:
        """What dtype "auto" means here."""
        return torch.bfloat16

    def activate(self, device: str) -> None:
        """Make `device` the calling thread's current one."""

    def record_device_event(self) -> Any | None:
        """Record an event on the current stream; None where there are no streams (safe: the work is already done)."""
        return None

    def wait_for(self, event: Any | None) -> None:
        """Return when `event` has happened; without events, when everything the device was given is done."""
        self.synchronize()

    def host_time(self, event: Any | None) -> float | None:
        """When a finished event happened, in seconds of the monotonic clock; None where not known."""
        return None

    @contextmanager
    def side_stream(self, after: Any | None) -> Iterator[None]:
        """Run the block on this thread's side stream behind the event `after`; everything is finished when the block ends."""
        yield

    def keep_alive(self, tensor: torch.Tensor) -> None:
        """Tell the allocator that the side stream reads `tensor`, so that its memory is not given out too soon."""

    def register_host(self, address: int, nbytes: int) -> bool:
        """Register host memory with the driver so that copies to it are one DMA; False where that does nothing."""
        return False

    def unregister_host(self, address: int) -> None:
        """Undo `register_host`."""

    def synchronize(self) -> None:
        """Wait for everything the device was given."""

    def empty_cache(self) -> None:
        """Hand unused cached device memory back."""

    def memory_in_use(self) -> int:
        """Bytes of device memory allocated by this process; 0 where not known."""
        return 0

    def is_out_of_memory(self, error: BaseException) -> bool:
        """True if `error` means that device memory ran out."""
        return isinstance(error, torch.OutOfMemoryError | MemoryError)
