"""Platforms whose `torch.<module>` follows CUDA's interface of streams and events: CUDA, ROCm, XPU, NPU, MUSA.

The modules of out-of-tree backends (`torch.npu`, `torch.musa`) exist only once their package is imported, so that is done where
it is installed, the module is looked up by name, and a device counts as available only if it is there and says so.
"""

import importlib
import importlib.util
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from omni_cli.log import logger
from omni_cli.platforms.base import Platform

_ANCHOR_S = 30.0


class StreamPlatform(Platform):
    """A device with streams; `module_name` is the attribute of torch, `package` what has to be imported for torch to have it."""

    module_name = ""
    package = ""
    asynchronous = True

    def __init__(self) -> None:
        """No stream is made before the first output needs it."""
        self._local = threading.local()
        self._anchor: tuple[float, Any] = (0.0, None)

    @property
    def module(self) -> Any:
        """`torch.cuda` and the like; AttributeError where the backend is not installed."""
        return getattr(torch, self.module_name)

    def is_available(self) -> bool:
        """True if torch has the backend and sees a device."""
        self._bring_in()
        return hasattr(torch, self.module_name) and bool(self.module.is_available())

    def device_count(self) -> int:
        """Number of devices that torch sees."""
        return int(self.module.device_count()) if self.is_available() else 0

    def activate(self, device: str) -> None:
        """Make `device` the calling thread's current one and set the clock's anchor."""
        self.module.set_device(int(device.partition(":")[2] or 0))
        self._anchor = self._make_anchor()

    def record_device_event(self) -> Any:
        """A timing event on the current stream."""
        event = self.module.Event(enable_timing=True)
        event.record()
        return event

    def wait_for(self, event: Any | None) -> None:
        """Wait for the event alone: the side stream of another output goes on."""
        if event is None:
            self.synchronize()
        else:
            event.synchronize()

    def host_time(self, event: Any | None) -> float | None:
        """When a finished event happened, on the host's monotonic clock.

        The device's clock is tied to the host's by an anchor, renewed every half minute because the two drift.
        """
        if event is None:
            return None
        at, anchor = self._anchor
        if time.monotonic() - at > _ANCHOR_S:
            self._anchor = self._make_anchor()
        return at + float(anchor.elapsed_time(event)) / 1000

    @contextmanager
    def side_stream(self, after: Any | None) -> Iterator[None]:
        """One side stream per thread; the host waits for it at the end, on its own thread."""
        stream = self._stream()
        with self.module.stream(stream):
            if after is not None:
                stream.wait_event(after)
            yield
        stream.synchronize()

    def keep_alive(self, tensor: torch.Tensor) -> None:
        """The caching allocator keeps the block until the side stream has passed this point."""
        tensor.record_stream(self._stream())

    def synchronize(self) -> None:
        """Wait for all streams of the current device."""
        self.module.synchronize()

    def empty_cache(self) -> None:
        """Hand unused cached blocks back to the driver."""
        self.module.empty_cache()

    def memory_in_use(self) -> int:
        """Bytes that tensors hold."""
        return int(self.module.memory_allocated())

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Backends outside of torch raise a plain RuntimeError that says so: "NPU out of memory. Tried to allocate ..."."""
        return super().is_out_of_memory(error) or (
            isinstance(error, RuntimeError) and f"{self.module_name} out of memory" in str(error).lower()
        )

    def _bring_in(self) -> None:
        """Import the package of a backend outside of torch, if it is installed; one that is broken counts as not there."""
        if not self.package or hasattr(torch, self.module_name) or importlib.util.find_spec(self.package) is None:
            return
        try:
            importlib.import_module(self.package)
        except (ImportError, OSError, RuntimeError) as error:  # a driver that is missing or does not fit
            logger.warning("%s is installed and cannot be imported: %s", self.package, error)

    def _make_anchor(self) -> tuple[float, Any]:
        """A host time and an event that happened at it, on this thread's side stream so that no forward is waited for."""
        stream = self._stream()
        event = self.module.Event(enable_timing=True)
        event.record(stream)
        event.synchronize()
        return time.monotonic(), event

    def _stream(self) -> Any:
        """This thread's side stream."""
        if not hasattr(self._local, "stream"):
            self._local.stream = self.module.Stream()
        return self._local.stream
