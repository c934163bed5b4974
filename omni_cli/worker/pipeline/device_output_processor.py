"""Return the decoded tensor of any diffusers pipeline as it is, on its device.

    pipeline ── postprocess_video(x, "device") ──> DeviceOutputProcessor ──> x        (float, channels first, on device)
    pipeline ── postprocess(x, "pil") ───────────> DeviceOutputProcessor ──> parent   (safety checkers and the like)

Pipelines end in a call of their output processor. `wrap_processors` replaces that processor by an instance of a
subclass of its own class, so `isinstance` checks, configuration and every other method behave as before.
"""

from collections.abc import Iterable
from typing import Any

import torch

from omni_cli.errors import MediaContractError, ModelLoadError
from omni_cli.media import NORMALIZED, UNIT

DEVICE = "device"
"""The `output_type` that returns the decoded tensor as it is."""

ATTRIBUTES = ("video_processor", "image_processor")
"""Attributes under which diffusers pipelines keep their output processors."""


class DeviceOutputProcessor:
    """A mixin before a processor class that returns the decoded tensor for `output_type="device"`."""

    seen_ranges: set[tuple[float, float]]
    """Value ranges (black, white) of the tensors returned since `reset`."""

    card_range: tuple[float, float] | None = None
    """The value range that the card declares; None to derive it from the processor's configuration."""

    def reset(self) -> None:
        """Clear `seen_ranges` before a pipeline call."""
        self.seen_ranges = set()

    def postprocess(self, image: Any, output_type: str = "pil", *args: Any, **kwargs: Any) -> Any:
        """Return `image` [B, C, H, W] unchanged for "device", else what the parent class returns.

        `do_denormalize` holds one flag per image: True for an image in -1..1, False for one in 0..1 already, such as an
        image that a safety checker replaced by black. A batch with both is returned as float32 in 0..1.
        """
        if output_type != DEVICE:
            return super().postprocess(image, output_type, *args, **kwargs)  # type: ignore[misc]
        if self.card_range is not None:
            self.seen_ranges.add(self.card_range)
            return image
        flags = kwargs.get("do_denormalize", args[0] if args else None)
        if flags is None:
            flags = [bool(self.config.do_normalize)]  # type: ignore[attr-defined]
        if len(set(flags)) == 1:
            self.seen_ranges.add(NORMALIZED if flags[0] else UNIT)
            return image
        self.seen_ranges.add(UNIT)
        images = [
            (picture.float() * 0.5 + 0.5).clamp_(0, 1) if denormalize else picture.float()
            for picture, denormalize in zip(image, flags, strict=True)
        ]
        return torch.stack(images)

    def postprocess_video(self, video: Any, output_type: str = "np", **kwargs: Any) -> Any:
        """Return `video` [B, C, T, H, W] unchanged for "device", else what the parent class returns."""
        if output_type != DEVICE:
            return super().postprocess_video(video, output_type, **kwargs)  # type: ignore[misc]
        self.seen_ranges.add(self.video_range)
        return video

    @property
    def video_range(self) -> tuple[float, float]:
        """The values of black and white in the videos that `postprocess_video` returns for "device"."""
        return self.card_range or (NORMALIZED if self.config.do_normalize else UNIT)  # type: ignore[attr-defined]


def output_range(processors: Iterable[DeviceOutputProcessor]) -> tuple[float, float]:
    """Return the values of black and white in the tensors that `processors` returned since `reset`.

    Raises MediaContractError unless there is exactly one such pair.
    """
    ranges = set().union(*(processor.seen_ranges for processor in processors))
    if len(ranges) != 1:
        raise MediaContractError(
            "the pipeline's output breaks the media contract: its processor returned device tensors with "
            f"{len(ranges)} value ranges in one call; expected one"
        )
    return next(iter(ranges))


def wrap_processors(
    pipeline: Any,
    processor_class: type,
    card_names: Iterable[str] = (),
    card_range: tuple[float, float] | None = None,
) -> list[DeviceOutputProcessor]:
    """Replace the output processors of `pipeline` by DeviceOutputProcessors and return these.

    Replaces the `ATTRIBUTES` that are instances of `processor_class`, and every attribute that the card names in
    `card_names`. `card_range` is the value range that the card declares.

    Raises ModelLoadError if an attribute that the card names is not a processor, or has no known value range.
    """
    wrapped: list[DeviceOutputProcessor] = []
    for name in (*ATTRIBUTES, *card_names):
        processor = vars(pipeline).get(name)
        known = isinstance(processor, processor_class)
        if name in card_names:
            _check_named(type(pipeline).__name__, name, processor, known or card_range is not None)
        if name in card_names or known:
            replacement = _wrap(processor)
            replacement.card_range = card_range
            setattr(pipeline, name, replacement)
            wrapped.append(replacement)
    return wrapped


def _check_named(pipeline: str, name: str, processor: object, has_range: bool) -> None:
    """Raise ModelLoadError unless `processor`, named `name` by a card, can be wrapped."""
    if not (hasattr(processor, "postprocess") or hasattr(processor, "postprocess_video")):
        raise ModelLoadError(
            f"card of {pipeline}: processors: {name!r} is {type(processor).__name__}, "
            "which has neither postprocess nor postprocess_video"
        )
    if not has_range:
        raise ModelLoadError(
            f"card of {pipeline}: {name!r} is not a diffusers processor; "
            "give value_range, the floats that mean black and white"
        )


def _wrap(processor: object) -> DeviceOutputProcessor:
    """Return a DeviceOutputProcessor that shares the class and the state of `processor`."""
    parent = type(processor)
    wrapper: DeviceOutputProcessor = object.__new__(
        type(f"DeviceOutput{parent.__name__}", (DeviceOutputProcessor, parent), {})
    )
    vars(wrapper).update(vars(processor))
    wrapper.reset()
    return wrapper
