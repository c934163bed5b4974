"""Each rule of the media contract has an error that names the shape, the dtype and the rule."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from omni_cli.errors import MediaContractError
from omni_cli.media import LEVELS, NORMALIZED, ColorModel, Encoding, Kind, Layout, Media, MediaSpec, check

VIDEO = MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED)
IMAGE = replace(VIDEO, kind=Kind.IMAGE, layout=Layout.BCHW)
UINT8 = replace(VIDEO, encoding=Encoding.UINT8, value_range=LEVELS)
AUDIO = MediaSpec(Kind.AUDIO, Layout.BCS, Encoding.FLOAT, NORMALIZED, ColorModel.NONE, sample_rate=8000)
LATENT = MediaSpec(Kind.LATENT, Layout.LATENT, Encoding.FLOAT, NORMALIZED, ColorModel.NONE)
CLIP = torch.zeros(2, 3, 4, 8, 8)

BROKEN: dict[str, tuple[MediaSpec, Any, str]] = {
    "layout": (replace(VIDEO, layout=Layout.BCHW), CLIP, "layout must be one of"),
    "axes": (VIDEO, CLIP[0], "layout BCTHW needs 5 axes"),
    "latent axes": (LATENT, torch.zeros(3), "latents need a batch axis and at least one more"),
    "empty axis": (VIDEO, CLIP[:, :, :0], "every axis must hold at least one element"),
    "channels": (VIDEO, CLIP[:, :1], "colour model RGB needs 3 channels on axis C"),
    "sample rate": (replace(AUDIO, sample_rate=None), torch.zeros(2, 1, 9), "audio needs a sample rate"),
    "interpolated image": (replace(IMAGE, interpolate=2), CLIP[:, :, 0], "interpolate must be 1, or more for a video"),
    "uint8 dtype": (UINT8, CLIP, "encoding uint8 needs dtype uint8"),
    "uint8 range": (replace(UINT8, value_range=NORMALIZED), CLIP.byte(), "needs value range 0..255, not -1.0..1.0"),
    "uint8 interpolated": (
        replace(UINT8, interpolate=2),
        CLIP.byte(),
        "float consumers are pending: frame interpolation",
    ),
    "uint8 pending": (replace(UINT8, pending=("16-bit PNG",)), CLIP.byte(), "float consumers are pending: 16-bit PNG"),
    "float dtype": (VIDEO, CLIP.int(), "encoding float needs a floating dtype"),
    "empty range": (replace(VIDEO, value_range=(1.0, 1.0)), CLIP, "value range 1.0..1.0 is empty"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_raises_with_shape_dtype_and_rule(rule: str) -> None:
    spec, data, message = BROKEN[rule]
    facts = f"shape {list(data.shape)}, dtype {str(data.dtype).removeprefix('torch.')}, layout {spec.layout}"
    with pytest.raises(MediaContractError, match=re.escape(facts) + ".*" + re.escape(message)):
        check(Media(spec, data))


def test_the_number_of_samples_must_be_the_expected_one() -> None:
    check(Media(VIDEO, CLIP), 2)
    with pytest.raises(MediaContractError, match="expected 3 samples on axis B, got 2"):
        check(Media(VIDEO, CLIP), 3)


def test_an_audio_track_belongs_to_a_video_with_as_many_samples() -> None:
    sound = Media(AUDIO, torch.zeros(2, 1, 9))
    check(Media(VIDEO, CLIP, audio=sound))
    with pytest.raises(MediaContractError, match="expected 1 samples on axis B, got 2"):
        check(Media(VIDEO, CLIP[:1], audio=sound))
    with pytest.raises(MediaContractError, match="image media cannot have a track of kind audio"):
        check(Media(IMAGE, CLIP[:, :, 0], audio=sound))
