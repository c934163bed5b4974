"""Frames between frames: made on the device, one at a time, before a level is rounded.

    frame 0 ── between(0, 1, 1/N) … between(0, 1, (N-1)/N) ── frame 1 ── … ── frame T-1        (T - 1)·N + 1 frames

The pipeline's own frames pass as they are, at their own times. What is between is a blend, or what the user's TorchScript
module makes: RIFE and FILM are published in that form.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from omni_cli.errors import ForwardError, MediaContractError, ModelLoadError, NonFiniteOutput

PROBE_SIDE = 64
"""Pixels of the frames that a module is tried on when it is loaded."""


def frame_count(frames: int, factor: int) -> int:
    """Frames that come of `frames` when each but the last becomes `factor`."""
    return (frames - 1) * factor + 1


class Interpolator:
    """Makes the frames between; without a module, by blending. One thread at a time."""

    def __init__(self, module: Any | None = None) -> None:
        """`module(frame0, frame1, t)`, a loaded TorchScript module: see `load`."""
        self._module = module
        self._time_is_float = module is not None and str(module.forward.schema.arguments[3].type) == "float"

    @classmethod
    def load(cls, path: str | None, device: str) -> "Interpolator":
        """The module in the file `path`, on `device`; blending for None.

        It is called as `module(frame0, frame1, t)`: frames float32 [1, 3, H, W] in 0..1, t in 0..1 as a float where the module's
        signature says float, else as a float32 tensor [1, 1]; and gives the frame at t, like frame0. It is tried once here.
        Raises ModelLoadError that says what is wrong with the file.
        """
        if path is None:
            return cls()
        try:
            module = torch.jit.load(str(Path(path).expanduser()), map_location=device).eval()  # type: ignore[no-untyped-call]
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelLoadError(
                f"--interpolator {path!r} is no TorchScript file that can be loaded: {error}"
            ) from error
        arguments = module.forward.schema.arguments
        if len(arguments) < 4:
            raise ModelLoadError(
                f"--interpolator {path!r}: its forward takes {len(arguments) - 1} arguments; it must take frame0, frame1, t"
            )
        made = cls(module)
        frames = torch.zeros(2, 3, PROBE_SIDE, PROBE_SIDE, device=device)
        try:
            list(made.frames(frames, 2, (0.0, 1.0)))
        except (ForwardError, MediaContractError, NonFiniteOutput) as error:
            raise ModelLoadError(f"--interpolator {path!r} fails on two black frames: {error}") from error
        return made

    def frames(self, clip: torch.Tensor, factor: int, value_range: tuple[float, float]) -> Iterator[torch.Tensor]:
        """The frames [C, H, W] of `clip` [T, C, H, W], any float over `value_range`, and those between, float32, in order.

        Raises MediaContractError for a module's frame of another shape, NonFiniteOutput for one that holds NaN or infinity,
        ForwardError for what the module raises.
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
        if self._module is None:
            return torch.lerp(first.float(), second.float(), time)
        low, high = value_range
        before, after = (frame.float().sub(low).div_(high - low).clamp_(0, 1)[None] for frame in (first, second))
        with torch.inference_mode():
            made = _checked(self._called(before, after, time), first)
        return made[0].float().mul(high - low).add_(low)

    def _called(self, first: torch.Tensor, second: torch.Tensor, time: float) -> Any:
        when = time if self._time_is_float else first.new_full((1, 1), time)
        assert self._module is not None
        try:
            return self._module(first, second, when)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # what a TorchScript interpreter raises, whatever went wrong inside
            raise ForwardError(f"the interpolator failed on frames of shape {list(first.shape)}: {error}") from error


def _checked(made: Any, like: torch.Tensor) -> torch.Tensor:
    """`made`, unless it is not a batch of one finite frame like `like`."""
    shape = (1, *like.shape)
    if not isinstance(made, torch.Tensor) or tuple(made.shape) != shape or not made.is_floating_point():
        what = f"{made.dtype} of shape {list(made.shape)}" if isinstance(made, torch.Tensor) else type(made).__name__
        raise MediaContractError(f"the interpolator made {what}; it must make a float frame of shape {list(shape)}")
    if not bool(made.isfinite().all()):
        raise NonFiniteOutput("the interpolator made a frame that holds NaN or infinity")
    return made
