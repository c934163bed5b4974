"""One seam for every pipeline: its processor, but able to hand back the decoded tensor untouched, on its device.

    pipeline ── postprocess_video(x, "device") ──> Seam ──> x           (float, channels first, still on the device)
    pipeline ── postprocess(x, "pil") ───────────> Seam ──> parent      (safety checkers and the like)

A processor that is not one of diffusers' may be named by the card, which then says what its floats mean.

A seam is an instance of a class made of the processor's own class, so `isinstance` checks, configuration and every other
method stay what they were.
"""

from collections.abc import Iterable
from typing import Any

import torch

from omni_cli.errors import MediaContractError, ModelLoadError
from omni_cli.media import NORMALIZED, UNIT

DEVICE = "device"
"""The output type that the seam answers itself."""

ATTRIBUTES = ("video_processor", "image_processor")
"""Where diffusers' pipelines keep the processor that makes their output."""


class Seam:
    """Mixed in before a processor class; holds the value ranges of the tensors it handed out since `forget`."""

    seen_ranges: set[tuple[float, float]]
    given_range: tuple[float, float] | None = None

    def forget(self) -> None:
        """Begin a pipeline call."""
        self.seen_ranges = set()

    def postprocess(self, image: Any, output_type: str = "pil", *args: Any, **kwargs: Any) -> Any:
        """`image` [B, C, H, W] itself for "device", the parent's answer otherwise.

        `do_denormalize` says per image whether -1..1 is to become 0..1; a picture that a safety checker blackened is in 0..1
        already. Where the images of one batch differ, all are handed out in 0..1, float32.
        """
        if output_type != DEVICE:
            return super().postprocess(image, output_type, *args, **kwargs)  # type: ignore[misc]
        if self.given_range is not None:
            self.seen_ranges.add(self.given_range)
            return image
        flags = kwargs.get("do_denormalize", args[0] if args else None)
        if flags is None:
            flags = [bool(self.config.do_normalize)]  # type: ignore[attr-defined]
        if len(set(flags)) == 1:
            self.seen_ranges.add(NORMALIZED if flags[0] else UNIT)
            return image
        self.seen_ranges.add(UNIT)
        return torch.stack([_unit(picture, flag) for picture, flag in zip(image, flags, strict=True)])

    def postprocess_video(self, video: Any, output_type: str = "np", **kwargs: Any) -> Any:
        """`video` [B, C, T, H, W] itself for "device", the parent's answer otherwise."""
        if output_type != DEVICE:
            return super().postprocess_video(video, output_type, **kwargs)  # type: ignore[misc]
        self.seen_ranges.add(self.video_range)
        return video

    @property
    def video_range(self) -> tuple[float, float]:
        """Floats that mean black and white in the videos that `postprocess_video` hands out."""
        return self.given_range or (NORMALIZED if self.config.do_normalize else UNIT)  # type: ignore[attr-defined]


def _unit(picture: torch.Tensor, denormalize: bool) -> torch.Tensor:
    """`picture` as float32 in 0..1; `denormalize` says that it is in -1..1 now."""
    wide = picture.float()
    return (wide * 0.5 + 0.5).clamp_(0, 1) if denormalize else wide


def value_range(seams: Iterable[Seam]) -> tuple[float, float]:
    """Floats that mean black and white in what `seams` handed out since `forget`.

    MediaContractError unless there is exactly one such pair: the tensor could not be read.
    """
    ranges = set().union(*(seam.seen_ranges for seam in seams))
    if len(ranges) != 1:
        raise MediaContractError(
            "the pipeline's output breaks the media contract: its processor handed out device tensors with "
            f"{len(ranges)} value ranges in one call; expected one"
        )
    return next(iter(ranges))


def install(
    pipeline: Any,
    processor_class: type,
    named: Iterable[str] = (),
    given_range: tuple[float, float] | None = None,
) -> list[Seam]:
    """Replace the output processors of `pipeline`, those that are a `processor_class`, by seams, and return these.

    Those in the attributes `named` by a card are replaced whatever they are. `given_range` is the card's word on what black and
    white are. Raises ModelLoadError for a name that is none of a processor, or of one whose range nobody tells.
    """
    seams: list[Seam] = []
    for name in (*ATTRIBUTES, *named):
        processor = vars(pipeline).get(name)
        if name in named:
            _check_named(
                type(pipeline).__name__, name, processor, given_range or isinstance(processor, processor_class)
            )
        if name in named or isinstance(processor, processor_class):
            seam = _seam_of(processor)
            seam.given_range = given_range
            setattr(pipeline, name, seam)
            seams.append(seam)
    return seams


def _check_named(pipeline: str, name: str, processor: object, has_range: object) -> None:
    if not (hasattr(processor, "postprocess") or hasattr(processor, "postprocess_video")):
        raise ModelLoadError(
            f"card of {pipeline}: processors: {name!r} is {type(processor).__name__}, which has neither postprocess nor "
            "postprocess_video"
        )
    if not has_range:
        raise ModelLoadError(
            f"card of {pipeline}: {name!r} is no processor of diffusers'; give value_range, the floats that mean black and white"
        )


def _seam_of(processor: object) -> Seam:
    """A seam with the state of `processor`."""
    parent = type(processor)
    seam: Seam = object.__new__(type(f"Seam{parent.__name__}", (Seam, parent), {}))
    vars(seam).update(vars(processor))
    seam.forget()
    return seam
