"""Which device a name means. "auto" is the first accelerator that is there, else the CPU."""

from omni_cli.errors import UsageError
from omni_cli.platforms.base import Platform
from omni_cli.platforms.cpu import CpuPlatform
from omni_cli.platforms.cuda import CudaPlatform, RocmPlatform
from omni_cli.platforms.others import MpsPlatform, MusaPlatform, NpuPlatform, XpuPlatform

PLATFORMS: tuple[type[Platform], ...] = (
    CudaPlatform,
    RocmPlatform,
    XpuPlatform,
    NpuPlatform,
    MusaPlatform,
    MpsPlatform,
    CpuPlatform,
)


def available() -> tuple[Platform, ...]:
    """The platforms with a usable device, best first; the CPU is always the last."""
    return tuple(platform for platform in (kind() for kind in PLATFORMS) if platform.is_available())


def resolve(device: str, worker: int = 0) -> tuple[Platform, str]:
    """The platform and full device string ("cuda:1") of `device` ("auto", "cuda", "cpu", ...) for this worker.

    A device without an index is spread over workers: worker i gets device i modulo the number of devices.

    Raises UsageError if there is no such device, naming those there are.
    """
    found = available()
    if device == "auto":
        platform, index = found[0], ""
    else:
        kind, _, index = device.partition(":")
        matches = [p for p in found if kind in (p.name, p.torch_type)]
        if not matches or (index and not (index.isdecimal() and int(index) < matches[0].device_count())):
            names = ", ".join(f"{p.torch_type} ({p.device_count()})" for p in found)
            raise UsageError(f"--device {device}: no such device here; there are: {names}")
        platform = matches[0]
    if platform.torch_type in ("cpu", "mps"):
        return platform, platform.torch_type
    return platform, f"{platform.torch_type}:{index or worker % platform.device_count()}"
