"""Any backend outside of torch that takes the name of PrivateUse1 and registers a module that follows `torch.cuda`.

A backend's package names itself under the entry points `torch.backends`, so that `import torch` loads it (unless
TORCH_DEVICE_BACKEND_AUTOLOAD is 0), renames PrivateUse1 and registers its module:
https://docs.pytorch.org/tutorials/unstable/python_extension_autoload.html
"""

from typing import Any

import torch

from omni_cli.log import logger
from omni_cli.platforms.streams import MusaPlatform, NpuPlatform, StreamPlatform

_UNNAMED = "privateuseone"

_NEEDED = ("Event", "Stream", "current_device", "device_count", "is_available", "set_device", "stream", "synchronize")
"""What the module must have. `empty_cache`, `memory_allocated`, `host_register` and `host_unregister` are optional."""


class OutOfTreePlatform(StreamPlatform):
    """The backend that PrivateUse1 was renamed to in this process; `--device` takes that name."""

    def __init__(self) -> None:
        """Take the name of the backend."""
        super().__init__()
        name = torch._C._get_privateuse1_backend_name()
        self.name = self.torch_type = self.module_name = name
        self.pins_host_memory = hasattr(getattr(torch, name, None), "host_register")

    def is_available(self) -> bool:
        """Return True if there is such a backend with a device, its module is complete, and no other class has it."""
        if self.name in (_UNNAMED, NpuPlatform.name, MusaPlatform.name) or not super().is_available():
            return False
        missing = [name for name in _NEEDED if not hasattr(self.module, name)]
        if missing:
            logger.warning("torch.%s cannot be used: it has no %s", self.module_name, ", ".join(missing))
        return not missing

    def register_host(self, address: int, nbytes: int) -> bool:
        """Pin host memory by the module's `host_register(address, nbytes)`, which returns 0 if it has."""
        register = getattr(self.module, "host_register", None)
        return register is not None and self.has_succeeded(register(address, nbytes))

    def unregister_host(self, address: int) -> None:
        """Unpin host memory by the module's `host_unregister(address)`; an error is cleared and ignored."""
        self.has_succeeded(self.module.host_unregister(address) or 0)

    def empty_cache(self) -> None:
        """Return unused blocks to the driver, if the module can."""
        self._call_if_there("empty_cache")

    def memory_in_use(self) -> int:
        """Return the bytes that tensors occupy; 0 if the module cannot tell."""
        return int(self._call_if_there("memory_allocated") or 0)

    def _call_if_there(self, function: str) -> Any:
        return getattr(self.module, function, lambda: None)()
