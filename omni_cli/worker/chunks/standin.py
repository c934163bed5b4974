"""What a pipeline holds in place of a video whose frames have left already.

A tensor of the video's shape, dtype and device over a single element. A pipeline that only hands it on, joins the decodes of its
sections in order, or cuts frames off the end that have not left yet, gets a stand-in again. Whatever else it does, it does with
the real video: that is decoded then, whole, and what has left is void.
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
"""What a tensor can be asked without its elements."""


class Decodes(Protocol):
    """The decodes of one pipeline call, in order."""

    def whole(self, standin: "StandIn") -> torch.Tensor:
        """The video that `standin` stands for."""

    def cut(self, frames: int) -> bool:
        """Leave `frames` frames in all; False if more have left."""


class StandIn(torch.Tensor):
    """Stands for decodes `first` to `last` of `decodes`, [B, C, T, H, W]."""

    decodes: Decodes
    first: int
    last: int

    @classmethod
    def of(cls, decodes: Decodes, first: int, last: int, shape: Iterable[int], like: torch.Tensor) -> "StandIn":
        """One of this shape, with the dtype and the device of `like`."""
        standin: StandIn = like.new_zeros(1).expand(*shape).as_subclass(cls)
        standin.decodes, standin.first, standin.last = decodes, first, last
        return standin

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Answer for the facts and the joins; everything else sees the real video."""
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func in _FACTS:
                return func(*args, **kwargs)
            standin = _joined(*args, **kwargs) if func is torch.cat else None
            if func == T.__getitem__:
                standin = _cut(*args)
            if standin is not None:
                return standin
            return func(*tree_map(_real, args), **tree_map(_real, kwargs))


def _real(value: Any) -> Any:
    return value.decodes.whole(value) if isinstance(value, StandIn) else value


def _joined(tensors: Any, dim: int = 0, **_: Any) -> StandIn | None:
    """Stand-ins of neighbouring decodes, joined in time; None for anything else."""
    parts = list(tensors)
    if dim not in (2, -3) or not all(isinstance(part, StandIn) for part in parts):
        return None
    first, last = parts[0], parts[-1]
    if any(right.decodes is not left.decodes or right.first != left.last + 1 for left, right in pairwise(parts)):
        return None
    shapes = [_shape(part) for part in parts]
    if any(shape[:2] + shape[3:] != shapes[0][:2] + shapes[0][3:] for shape in shapes):
        return None
    frames = sum(shape[2] for shape in shapes)
    shape = (*shapes[0][:2], frames, *shapes[0][3:])
    return StandIn.of(first.decodes, first.first, last.last, shape, first.as_subclass(T))


def _cut(video: Any, index: Any) -> StandIn | None:
    """`video[:, :, :n]`, where the frames after n have not left; None for anything else."""
    if not isinstance(video, StandIn) or video.first != 0 or not isinstance(index, tuple) or len(index) != 3:
        return None
    whole, time = slice(None), index[2]
    if (
        index[:2] != (whole, whole)
        or not isinstance(time, slice)
        or time.start not in (None, 0)
        or time.step is not None
    ):
        return None
    shape = _shape(video)
    frames = len(range(*time.indices(shape[2])))
    if frames == shape[2]:
        return video
    if not video.decodes.cut(frames):
        return None
    return StandIn.of(video.decodes, 0, video.last, (*shape[:2], frames, *shape[3:]), video.as_subclass(T))


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)
