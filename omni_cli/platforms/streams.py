"""Platforms whose `torch.<module>` follows CUDA's interface of streams and events: CUDA, ROCm, XPU, NPU, MUSA.

The modules of out-of-tree backends (`torch.npu`, `torch.musa`) exist only after their package has been imported. The
package is imported if it is installed, and the platform is available if its module then exists and reports a device.
"""

import contextlib
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

_ANCHOR_INTERVAL_S = 30.0
"""Seconds after which the anchor between device and host clock is renewed, because the two drift apart."""


_ANCHOR_TRIES = 3


class StreamPlatform(Platform):
    """A kind of device with streams."""

    module_name = ""
    """The name of the backend's module in `torch`."""

    package = ""
    """The package that adds the module to `torch`; empty for backends that are part of torch."""

    asynchronous = True

    def __init__(self) -> None:
        """Create the platform; each thread's side stream is created on first use."""
        self._local = threading.local()
        self._anchor: tuple[float, Any] = (0.0, None)

    @property
    def module(self) -> Any:
        """The backend's module, such as `torch.cuda`. Raises AttributeError if the backend is not installed."""
        return getattr(torch, self.module_name)

    def is_available(self) -> bool:
        """Return True if torch has the backend and sees a device."""
        self._import_package()
        return hasattr(torch, self.module_name) and bool(self.module.is_available())

    def device_count(self) -> int:
        """Return the number of devices that torch sees."""
        return int(self.module.device_count()) if self.is_available() else 0

    def activate(self, device: str) -> None:
        """Make `device` the calling thread's current device and anchor its clock to the host's."""
        self.module.set_device(int(device.partition(":")[2] or 0))
        self._anchor = self._record_anchor()

    def record_device_event(self) -> Any:
        """Record and return a timing event on the current stream."""
        event = self.module.Event(enable_timing=True)
        event.record()
        return event

    def wait_for(self, event: Any | None) -> None:
        """Block until `event` has happened, while other streams go on; for None, until all streams are finished."""
        if event is None:
            self.synchronize()
        else:
            event.synchronize()

    def host_time(self, event: Any | None) -> float | None:
        """Return the time of a finished event in seconds of `time.monotonic()`; None for no event.

        Computed from the anchor's host time and the device time elapsed since. A backend that refuses (the event has
        not happened, or is of another device) gives None, too: a time is never worth a request.
        """
        if event is None:
            return None
        try:
            host_time, anchor = self._anchor
            if time.monotonic() - host_time > _ANCHOR_INTERVAL_S:
                self._anchor = self._record_anchor()
            return host_time + float(anchor.elapsed_time(event)) / 1000
        except (RuntimeError, ValueError) as error:
            logger.info("the device gives no time: %s", error)
            return None

    @contextmanager
    def side_stream(self, after: Any | None) -> Iterator[None]:
        """Run the block on this thread's side stream after the event `after`, then wait for that stream."""
        stream = self._stream()
        try:
            with self.module.stream(stream):
                if after is not None:
                    stream.wait_event(after)
                yield
        finally:
            stream.synchronize()

    def keep_alive(self, tensor: torch.Tensor) -> None:
        """Keep the memory of `tensor` [any shape] from being reused before the side stream has passed this point."""
        tensor.record_stream(self._stream())

    def has_succeeded(self, result: Any) -> bool:
        """Return True if `result`, an error code of the runtime as an int or enum, is 0; else clear that error."""
        code = int(getattr(result, "value", result))  # an enum or an int, by torch version
        if code != 0:
            self.clear_last_error()
        return code == 0

    def clear_last_error(self) -> None:
        """Take away the error that a failed call of the runtime has left in this thread for its next kernel launch.

        CUDA keeps it until `cudaGetLastError`, with which torch checks each launch. torch has no binding of that
        function, so a kernel is launched for it.
        """
        with contextlib.suppress(RuntimeError):
            torch.empty(1, device=self.torch_type).zero_()
            self.synchronize()

    def synchronize(self) -> None:
        """Block until all streams of the current device are finished."""
        self.module.synchronize()

    def empty_cache(self) -> None:
        """Return the allocator's unused blocks to the driver."""
        self.module.empty_cache()

    def memory_in_use(self) -> int:
        """Return the bytes that tensors occupy."""
        return int(self.module.memory_allocated())

    def memory_held(self, device: str) -> tuple[int, int]:
        """Return the bytes in use and all bytes of `device`, by the driver; zeros where the backend cannot say."""
        try:
            free, total = self.module.mem_get_info(device)
        except (AttributeError, RuntimeError):
            return 0, 0
        return total - free, total

    def _import_package(self) -> None:
        """Import the package of an out-of-tree backend if it is installed; log a warning if that fails."""
        if not self.package or hasattr(torch, self.module_name) or importlib.util.find_spec(self.package) is None:
            return
        try:
            importlib.import_module(self.package)
        except (ImportError, OSError, RuntimeError) as error:  # the driver is missing or does not fit
            logger.warning("%s is installed and cannot be imported: %s", self.package, error)

    def _record_anchor(self) -> tuple[float, Any]:
        """Return a host time and an event that happened at it.

        The event is on the side stream, so that no forward pass is waited for. It happened between the times before
        and after; of a few tries, the one with the least between them tells best.
        """
        stream, anchors = self._stream(), []
        for _ in range(_ANCHOR_TRIES):
            event = self.module.Event(enable_timing=True)
            before = time.monotonic()
            event.record(stream)
            event.synchronize()
            after = time.monotonic()
            anchors.append((after - before, (before + after) / 2, event))
        _, host_time, event = min(anchors, key=lambda anchor: anchor[0])
        return host_time, event

    def _stream(self) -> Any:
        """Return this thread's side stream."""
        if not hasattr(self._local, "stream"):
            self._local.stream = self.module.Stream()
        return self._local.stream


class XpuPlatform(StreamPlatform):
    """Intel GPUs."""

    name = torch_type = module_name = "xpu"


class NpuPlatform(StreamPlatform):
    """Ascend NPUs."""

    name = torch_type = module_name = "npu"
    package = "torch_npu"


class MusaPlatform(StreamPlatform):
    """Moore Threads GPUs."""

    name = torch_type = module_name = "musa"
    package = "torch_musa"
