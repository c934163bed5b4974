"""What an output is, is read from its fields and their axes, whatever the class calls them."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.utils import BaseOutput

from omni_cli.errors import MediaContractError
from omni_cli.media import ColorModel, Kind, Layout
from omni_cli.models.cards import Card
from omni_cli.worker.pipeline.media_from_output import check_size, media_from_output


def card(kind: Kind, output_type: str = "device") -> Card:
    return Card(pipeline="P", kind=kind, output_type=output_type)


def picture(*shape: int) -> torch.Tensor:
    return torch.rand(*shape)


@pytest.mark.parametrize("field", ["image", "images", "prediction", "rgb", "pictures"])
def test_pictures_are_the_first_arrays_of_the_output(field: str) -> None:
    output = SimpleNamespace(
        nsfw=[False], prompt_embeds=picture(1, 7, 8), **{field: picture(1, 3, 5, 6)}, uncertainty=picture(1, 1, 5, 6)
    )
    media = media_from_output(output, card(Kind.IMAGE), None, expected=1)
    assert media.data is getattr(output, field)
    assert (media.spec.kind, media.spec.color) == (Kind.IMAGE, ColorModel.RGB)


def test_the_video_of_a_single_sample_may_come_without_its_batch_axis() -> None:
    video, sound = picture(3, 4, 5, 6), picture(2, 900)
    output = SimpleNamespace(video=video, sound=sound, action=None)
    media = media_from_output(output, card(Kind.VIDEO), None, expected=1, sample_rate=800)
    assert (media.spec.layout, tuple(media.data.shape)) == (Layout.BCTHW, (1, 3, 4, 5, 6))
    assert media.audio is not None
    assert tuple(media.audio.data.shape) == (1, 2, 900)
    frames = SimpleNamespace(images=np.zeros((4, 5, 6, 3), np.float32))
    media = media_from_output(frames, card(Kind.VIDEO, "np"), None, expected=1)
    assert (media.spec.layout, tuple(media.data.shape)) == (Layout.BTHWC, (1, 4, 5, 6, 3))


def test_sound_before_the_video_is_its_track_and_sound_alone_is_the_media() -> None:
    output = SimpleNamespace(audio=picture(1, 2, 900), frames=picture(1, 3, 4, 5, 6))
    media = media_from_output(output, card(Kind.VIDEO), None, expected=1, sample_rate=800)
    assert media.data is output.frames
    assert media.audio is not None
    media = media_from_output(SimpleNamespace(waveform=picture(1, 2, 900)), card(Kind.AUDIO), None, 1, sample_rate=800)
    assert (media.spec.kind, media.spec.layout) == (Kind.AUDIO, Layout.BCS)


@pytest.mark.parametrize(
    ("output_type", "value"),
    [
        ("device", picture(4, 3, 5, 6)),
        ("pt", picture(2, 2, 3, 5, 6)),
        ("np", picture(4, 5, 6, 3).numpy()),
        ("np", [picture(2, 5, 6, 3).numpy(), picture(2, 5, 6, 3).numpy()]),
    ],
)
def test_several_pictures_of_a_sample_are_put_side_by_side(output_type: str, value: Any) -> None:
    media = media_from_output(SimpleNamespace(images=value), card(Kind.IMAGE, output_type), None, expected=2)
    height, width = media.spec.layout.index("H"), media.spec.layout.index("W")
    assert (media.batch, media.data.shape[height], media.data.shape[width]) == (2, 5, 12)
    flat = torch.stack([torch.as_tensor(part) for part in value]).flatten(0, -4)
    np.testing.assert_array_equal(media.data[1].narrow(width - 1, 6, 6), flat[3])
    check_size(media, 5, 6, None)
    with pytest.raises(MediaContractError, match="width 8 was requested and the pipeline made 12"):
        check_size(media, 5, 8, None)


def test_an_output_class_of_diffusers_is_read_in_its_order() -> None:
    class Out(BaseOutput):  # type: ignore[misc]
        """Fields in the order in which they are set."""

    output = Out(depth=picture(1, 1, 5, 6), latent=picture(1, 4, 2, 2))
    media = media_from_output(output, card(Kind.IMAGE), None, expected=1)
    assert media.spec.color is ColorModel.GRAY
    with pytest.raises(MediaContractError, match="no tensor or array of audio among its fields: depth, latent"):
        media_from_output(output, card(Kind.AUDIO), None, expected=1, sample_rate=800)


@dataclass(frozen=True, slots=True)
class Slots:
    """An output without a `__dict__`."""

    images: torch.Tensor


def test_an_output_may_have_slots_and_one_without_fields_is_told() -> None:
    output = Slots(picture(1, 3, 5, 6))
    assert media_from_output(output, card(Kind.IMAGE), None, expected=1).data is output.images
    with pytest.raises(MediaContractError, match="tuple has no tensor or array of image among its fields: none"):
        media_from_output((output.images,), card(Kind.IMAGE), None, expected=1)
