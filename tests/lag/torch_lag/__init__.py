"""The device "lag": kernels run late, in order, on one thread per stream, over raw addresses.

`torch.lag` follows `torch.cuda`. Environment variables:

LAG_DELAY_US         mean delay of a kernel in microseconds (200)
LAG_SIDE_DELAY_US    the same for all but the default stream (-1: no other delay)
LAG_JITTER           whether delays vary (1)
LAG_BLOCKING         whether each call waits for its kernel, as with CUDA_LAUNCH_BLOCKING (0)
LAG_PAGEABLE_ASYNC   whether copies from pageable memory are asynchronous, too (0)
LAG_MEMORY           bytes of device memory (0: no limit)
LAG_FAIL_AFTER       kernels after which the device is broken for good (-1: never)
LAG_FAIL_ONCE        PATH:N: the process that takes the file PATH away breaks after N kernels
LAG_FAIL_SIDE        whether these counts are of side streams' kernels alone (0)
LAG_EVENT_DELAY_US   delay of events, as on a device that is shared with another process (0)
LAG_PIN_LIMIT        bytes that `host_register` takes (-1: any number)
LAG_LATCH            whether a refused `host_register` leaves an error for the next kernel launch, as CUDA does (1)
"""

import contextlib
import os
import types
from pathlib import Path

import torch

from torch_lag import _C

torch.utils.rename_privateuse1_backend("lag")
import torch._meta_registrations  # noqa: E402 - shapes of what has no meta kernel in C++

_module = types.ModuleType("torch.lag")


def _index(device=None):
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return _C.current_device() if index is None else index


class Stream(torch.Stream):
    """A stream on the current device."""

    def __new__(cls, device=None, priority=0):
        """Create the stream; streams have no priorities here."""
        return super().__new__(cls, device=torch.device("lag", _index(device)), priority=priority)

    def synchronize(self):
        """Block until the stream is empty."""
        _C.synchronize_stream(self.device_index, self.stream_id)


def _event(enable_timing=False, blocking=False, interprocess=False):
    """Create an event on the current device; torch.Event.elapsed_time takes no class but its own."""
    return torch.Event(device=torch.device("lag", _C.current_device()), enable_timing=enable_timing)


@contextlib.contextmanager
def _stream(stream):
    """Make `stream` and its device the calling thread's current ones."""
    index, device = stream.device_index, _C.current_device()
    _C.set_device(index)
    before = _C.set_stream(index, stream.stream_id)
    try:
        yield stream
    finally:
        _C.set_stream(index, before)
        _C.set_device(device)


_pin_left = int(os.environ.get("LAG_PIN_LIMIT", "-1"))


def _host_register(address, nbytes):
    """Pin memory; return 0, or an error number, which is also remembered as CUDA's last error is."""
    global _pin_left
    if _pin_left >= 0:
        if nbytes > _pin_left:
            return _latched(2)
        _pin_left -= nbytes
    return _latched(_C.host_register(address, nbytes))


def _host_unregister(address):
    """Unpin memory; return 0, or an error number."""
    return _latched(_C.host_unregister(address))


def _latched(code):
    """Return `code`. The next kernel launch of this thread reports it, as after a failed call of CUDA's runtime."""
    if code and os.environ.get("LAG_LATCH", "1") == "1":
        _C.latch_error(f"{code} of an earlier call of the runtime in this thread (host_register or host_unregister)")
    return code


_FUNCTIONS = {
    "Stream": Stream,
    "Event": _event,
    "stream": _stream,
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "_is_in_bad_fork": lambda: False,
    "manual_seed": lambda seed: None,
    "manual_seed_all": lambda seed: None,
    "device_count": _C.device_count,
    "current_device": _C.current_device,
    "set_device": lambda device: _C.set_device(_index(device)),
    "synchronize": lambda device=None: _C.synchronize(_index(device)),
    "empty_cache": lambda: None,
    "memory_allocated": lambda device=None: _C.memory_allocated(_index(device)),
    "max_memory_allocated": lambda device=None: _C.max_memory_allocated(_index(device)),
    "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16],
    "current_stream": lambda device=None: torch.accelerator.current_stream(torch.device("lag", _index(device))),
    "get_rng_state": lambda device=None: torch.zeros(1, dtype=torch.uint8),  # random numbers are the CPU's
    "set_rng_state": lambda state, device=None: None,
    "get_device_name": lambda device=None: "lag (threads of this CPU)",
    "host_register": _host_register,
    "host_unregister": _host_unregister,
    "clear_last_error": _C.clear_last_error,
}
_CONTROLS = (
    *("set_delay", "set_stream_delay", "set_side_delay", "set_event_delay", "set_jitter", "set_blocking"),
    *("set_poison", "set_pageable_async", "set_memory_limit", "fail_after", "fail_on_side_streams", "clear_error"),
    *("stats", "event_seconds", "is_pinned", "pinned_ranges", "reset_peak"),
)
for _name, _function in {**_FUNCTIONS, **{name: getattr(_C, name) for name in _CONTROLS}}.items():
    setattr(_module, _name, _function)
torch._register_device_module("lag", _module)


def _setting(name, default):
    return int(os.environ.get(f"LAG_{name}", default))


_C.set_delay(_setting("DELAY_US", 200))
_C.set_side_delay(_setting("SIDE_DELAY_US", -1))
_C.set_event_delay(_setting("EVENT_DELAY_US", 0))
_C.set_jitter(bool(_setting("JITTER", 1)))
_C.set_blocking(bool(_setting("BLOCKING", 0)))
_C.set_pageable_async(bool(_setting("PAGEABLE_ASYNC", 0)))
_C.set_memory_limit(_setting("MEMORY", 0))
_C.fail_after(_setting("FAIL_AFTER", -1))
if "LAG_FAIL_ONCE" in os.environ:
    _path, _, _count = os.environ["LAG_FAIL_ONCE"].rpartition(":")
    with contextlib.suppress(FileNotFoundError):
        Path(_path).unlink()
        _C.fail_after(int(_count))
_C.fail_on_side_streams(bool(_setting("FAIL_SIDE", 0)))


def autoload():
    """Do nothing: torch calls the entry point after it has imported this module, which registers the device."""
