"""Find the platform and device of a device name. "auto" is the first accelerator that is available, else the CPU."""

from omni_cli.errors import UsageError
from omni_cli.platforms.base import Platform
from omni_cli.platforms.cuda import CudaPlatform, RocmPlatform
from omni_cli.platforms.out_of_tree import OutOfTreePlatform
from omni_cli.platforms.streamless import CpuPlatform, MpsPlatform
from omni_cli.platforms.streams import MusaPlatform, NpuPlatform, XpuPlatform

PLATFORMS: tuple[type[Platform], ...] = (
    CudaPlatform,
    RocmPlatform,
    XpuPlatform,
    NpuPlatform,
    MusaPlatform,
    OutOfTreePlatform,
    MpsPlatform,
    CpuPlatform,
)
"""All platforms in order of preference."""


def available() -> tuple[Platform, ...]:
    """Return the platforms with a usable device in order of preference; the CPU is always the last."""
    return tuple(platform for platform in (kind() for kind in PLATFORMS) if platform.is_available())


def resolve(device: str, worker: int = 0) -> tuple[Platform, str]:
    """Return the platform and the torch device string, such as "cuda:1", of a device name.

    `device` is "auto", a platform's name or torch type ("cuda", "rocm", "cpu", ...), or one with an index ("cuda:1").
    A name without an index is spread over the workers: worker i gets device i modulo the number of devices.

    Raises UsageError, which lists the available devices, if there is no such device.
    """
    platforms = available()
    if device == "auto":
        platform, index = platforms[0], ""
    else:
        kind, _, index = device.partition(":")
        matches = [p for p in platforms if kind in (p.name, p.torch_type)]
        if not matches or (index and not (index.isdecimal() and int(index) < matches[0].device_count())):
            names = ", ".join(f"{p.torch_type} ({p.device_count()})" for p in platforms)
            raise UsageError(f"--device {device}: no such device here; there are: {names}")
        platform = matches[0]
    if platform.torch_type in ("cpu", "mps"):
        return platform, platform.torch_type
    return platform, f"{platform.torch_type}:{index or worker % platform.device_count()}"
