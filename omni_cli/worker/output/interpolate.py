"""Frame interpolation on the device, one frame at a time, before the frames are rounded to levels.

    frame 0 ── between(0, 1, 1/N) … between(0, 1, (N-1)/N) ── frame 1 ── … ── frame T-1        (T - 1)·N + 1 frames

The pipeline's own frames pass unchanged. The frames between them are blends, or the output of the user's TorchScript
module, the form in which RIFE and FILM are published.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch

from omni_cli.errors import ForwardError, MediaContractError, ModelLoadError, NonFiniteOutput
from omni_cli.storage.user_path import expand_user

PROBE_SIDE = 64
"""Height and width in pixels of the frames that a module is tried on when it is loaded."""


def frame_count(frames: int, factor: int) -> int:
    """Return the number of frames that `frames` become when each but the last becomes `factor`."""
    return (frames - 1) * factor + 1


class Interpolator:
    """Makes the frames between frames, by a TorchScript module or by blending. One thread at a time."""

    def __init__(self, module: Any | None = None) -> None:
        """Use `module`, a loaded TorchScript module as described at `load`; None: blend."""
        self._module = module
        self._time_is_float = module is not None and str(module.forward.schema.arguments[3].type) == "float"

    @classmethod
    def load(cls, path: str | None, device: str) -> "Interpolator":
        """Load the module in the file `path` to `device` and try it once; None: blend.

        It is called as `module(frame0, frame1, t)`: frames float32 [1, 3, H, W] in 0..1, and t in 0..1 as a float if
        the module's signature says float, else as a float32 tensor [1, 1]. It must return the frame at t, shaped like
        frame0. Raises ModelLoadError with the reason if the file cannot be loaded or the module does not fit.
        """
        if path is None:
            return cls()
        try:
            file = str(expand_user(path))
            module = torch.jit.load(file, map_location=device).eval()  # type: ignore[no-untyped-call]
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelLoadError(f"--interpolator {path!r} cannot be loaded as a TorchScript file: {error}") from error
        arguments = module.forward.schema.arguments
        if len(arguments) < 4:
            takes = f"it takes {len(arguments) - 1} arguments"
            raise ModelLoadError(f"--interpolator {path!r}: its forward must take frame0, frame1, t; {takes}")
        interpolator = cls(module)
        black = torch.zeros(2, 3, PROBE_SIDE, PROBE_SIDE, device=device)
        try:
            list(interpolator.frames(black, 2, (0.0, 1.0)))
        except (ForwardError, MediaContractError, NonFiniteOutput) as error:
            raise ModelLoadError(f"--interpolator {path!r} fails on two black frames: {error}") from error
        return interpolator

    def frames(self, clip: torch.Tensor, factor: int, value_range: tuple[float, float]) -> Iterator[torch.Tensor]:
        """Yield the frames [C, H, W] of `clip`, any float [T, C, H, W], and `factor` - 1 frames between each two.

        `value_range`: the floats that mean black and white in `clip`. The added frames are float32. Raises
        MediaContractError if the module returns a frame of another shape, NonFiniteOutput if it holds NaN or infinity,
        ForwardError if the module raises.
        """
        if factor == 1 or len(clip) == 1:
            yield from clip
            return
        for first, second in pairwise(clip):
            yield first
            for step in range(1, factor):
                yield self._between(first, second, step / factor, value_range)
        yield clip[-1]

    def _between(
        self, first: torch.Tensor, second: torch.Tensor, time: float, value_range: tuple[float, float]
    ) -> torch.Tensor:
        """Return the frame at `time`, 0..1, between `first` and `second`."""
        if self._module is None:
            return torch.lerp(first.float(), second.float(), time)
        low, high = value_range
        before, after = (frame.float().sub(low).div_(high - low).clamp_(0, 1)[None] for frame in (first, second))
        with torch.inference_mode():
            frame = self._call_module(before, after, time)
        return frame[0].float().mul(high - low).add_(low)

    def _call_module(self, first: torch.Tensor, second: torch.Tensor, time: float) -> torch.Tensor:
        """Call the module with frames [1, C, H, W] in 0..1 and check what it returns."""
        assert self._module is not None
        try:
            frame = self._module(first, second, time if self._time_is_float else first.new_full((1, 1), time))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # the TorchScript interpreter raises this for every error inside
            raise ForwardError(f"the interpolator failed on frames of shape {list(first.shape)}: {error}") from error
        if not isinstance(frame, torch.Tensor) or frame.shape != first.shape or not frame.is_floating_point():
            got = (
                f"{frame.dtype} of shape {list(frame.shape)}"
                if isinstance(frame, torch.Tensor)
                else type(frame).__name__
            )
            raise MediaContractError(
                f"the interpolator returned {got}; it must return a float frame of shape {list(first.shape)}"
            )
        if not bool(frame.isfinite().all()):
            raise NonFiniteOutput("the interpolator returned a frame that holds NaN or infinity")
        return frame
