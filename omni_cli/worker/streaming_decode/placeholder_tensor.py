"""The tensor that a pipeline holds in place of a video whose frames have left already.

It has the video's shape, dtype and device over a single element. Reading those facts, joining the decodes of a video's
sections in order, and cutting frames off the end that have not left yet give a placeholder again. Every other operation
gets the real video: it is decoded then, whole, and the frames that have left are void.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_map

T = torch.Tensor

_FACTS: set[Any] = {
    *(getattr(T, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout", "is_cuda", "requires_grad")),
    *(T.size, T.dim, T.numel, T.nelement, T.__len__, T.is_floating_point),
}
"""Questions to a tensor that are answered without its elements."""


class DecodedVideo(Protocol):
    """What a placeholder stands for: the decodes of one pipeline call."""

    def whole(self, placeholder: "PlaceholderTensor") -> torch.Tensor:
        """Decode the video of `placeholder` [B, C, T, H, W] whole and return it."""

    def truncate(self, frames: int) -> bool:
        """Shorten the video to `frames` frames; False if that is too late."""


class PlaceholderTensor(torch.Tensor):
    """The video [B, C, T, H, W] of the decodes `first` to `last` of `capture`."""

    capture: DecodedVideo
    first: int
    last: int

    @classmethod
    def create(
        cls, capture: DecodedVideo, first: int, last: int, shape: Iterable[int], like: torch.Tensor
    ) -> "PlaceholderTensor":
        """Return a placeholder of `shape` with the dtype and device of `like` [...]."""
        placeholder: PlaceholderTensor = like.new_zeros(1).expand(*shape).as_subclass(cls)
        placeholder.capture, placeholder.first, placeholder.last = capture, first, last
        return placeholder

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Answer facts, joins and cuts from the placeholder; call anything else with the real video."""
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func in _FACTS:
                return func(*args, **kwargs)
            placeholder = _join(*args, **kwargs) if func is torch.cat else None
            if func == T.__getitem__:
                placeholder = _truncate(*args)
            if placeholder is not None:
                return placeholder
            return func(*tree_map(_real, args), **tree_map(_real, kwargs))


def _real(value: Any) -> Any:
    return value.capture.whole(value) if isinstance(value, PlaceholderTensor) else value


def _join(tensors: Any, dim: int = 0, **_: Any) -> PlaceholderTensor | None:
    """Concatenate placeholders of consecutive decodes in time; None for anything else."""
    parts = list(tensors)
    if dim not in (2, -3) or not all(isinstance(part, PlaceholderTensor) for part in parts):
        return None
    first, last = parts[0], parts[-1]
    if any(right.capture is not left.capture or right.first != left.last + 1 for left, right in pairwise(parts)):
        return None
    shapes = [tuple(part.shape) for part in parts]
    if any(shape[:2] + shape[3:] != shapes[0][:2] + shapes[0][3:] for shape in shapes):
        return None
    shape = (*shapes[0][:2], sum(shape[2] for shape in shapes), *shapes[0][3:])
    return PlaceholderTensor.create(first.capture, first.first, last.last, shape, first.as_subclass(T))


def _truncate(video: Any, index: Any) -> PlaceholderTensor | None:
    """Evaluate `video[:, :, :n]` if the frames from n on have not left; None for anything else."""
    if not isinstance(video, PlaceholderTensor) or video.first != 0 or not isinstance(index, tuple) or len(index) != 3:
        return None
    time = index[2]
    if index[:2] != (slice(None), slice(None)) or not isinstance(time, slice):
        return None
    if time.start not in (None, 0) or time.step is not None:
        return None
    shape = tuple(video.shape)
    frames = len(range(*time.indices(shape[2])))
    if frames == shape[2]:
        return video
    if not video.capture.truncate(frames):
        return None
    shape = (*shape[:2], frames, *shape[3:])
    return PlaceholderTensor.create(video.capture, 0, video.last, shape, video.as_subclass(T))
