"""The processor seam: device output untouched, everything else as the parent says."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.image_processor import VaeImageProcessor
from diffusers.video_processor import VideoProcessor

from omni_cli.errors import MediaContractError
from omni_cli.media import NORMALIZED, UNIT
from omni_cli.worker.seam import Seam, install, value_range


def pipeline_with(**processors: Any) -> SimpleNamespace:
    return SimpleNamespace(**processors)


def image_seam(**config: Any) -> Any:
    pipeline = pipeline_with(image_processor=VaeImageProcessor(**config))
    install(pipeline, VaeImageProcessor)
    return pipeline.image_processor


def test_device_output_is_the_very_tensor() -> None:
    seam, images = image_seam(), torch.randn(2, 3, 8, 8)
    assert seam.postprocess(images, "device") is images
    assert seam.postprocess(image=images, output_type="device", do_denormalize=[True, True]) is images
    assert value_range([seam]) == NORMALIZED


def test_a_video_is_the_very_tensor_by_keyword_too() -> None:
    pipeline = pipeline_with(video_processor=VideoProcessor(vae_scale_factor=16))
    (seam,) = install(pipeline, VaeImageProcessor)
    video = torch.randn(1, 3, 5, 8, 8, dtype=torch.bfloat16)
    assert pipeline.video_processor.postprocess_video(video=video, output_type="device") is video
    assert value_range([seam]) == NORMALIZED


@pytest.mark.parametrize("output_type", ["np", "pt"])
def test_other_output_types_are_the_parents(output_type: str) -> None:
    seam, images, video = image_seam(), torch.randn(2, 3, 8, 8), torch.randn(1, 3, 5, 8, 8)
    pipeline = pipeline_with(video_processor=VideoProcessor())
    install(pipeline, VaeImageProcessor)
    flags = [True, False]
    pairs = [
        (
            seam.postprocess(images, output_type=output_type, do_denormalize=flags),
            VaeImageProcessor().postprocess(images, output_type, flags),
        ),
        (
            pipeline.video_processor.postprocess_video(video, output_type),
            VideoProcessor().postprocess_video(video, output_type),
        ),
    ]
    for ours, parents in pairs:
        assert type(ours) is type(parents)
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(parents))
    assert seam.seen_ranges == set()


def test_it_stays_an_instance_with_its_state() -> None:
    seam = image_seam(vae_scale_factor=16, do_normalize=False)
    assert isinstance(seam, VaeImageProcessor)
    assert isinstance(seam, Seam)
    assert (seam.config.vae_scale_factor, seam.config.do_normalize) == (16, False)


def test_a_processor_that_does_not_normalize_hands_out_the_unit_range() -> None:
    seam, images = image_seam(do_normalize=False), torch.rand(1, 3, 8, 8)
    assert seam.postprocess(images, output_type="device") is images
    assert value_range([seam]) == UNIT


def test_blackened_images_keep_their_black_beside_others() -> None:
    seam, images = image_seam(), torch.tensor([-3.0, -1.0, 0.25, 1.0]).view(1, 1, 2, 2).repeat(2, 3, 1, 1)
    images[1] = 0
    mixed = seam.postprocess(images, output_type="device", do_denormalize=[True, False])
    assert value_range([seam]) == UNIT
    expected = VaeImageProcessor().postprocess(images, "pt", [True, False])
    torch.testing.assert_close(mixed, expected, rtol=0, atol=0)


def test_images_that_are_all_blackened_stay_black() -> None:
    seam, images = image_seam(), torch.zeros(2, 3, 8, 8)
    assert not seam.postprocess(images, output_type="device", do_denormalize=[False, False]).any()
    assert value_range([seam]) == UNIT


def test_two_ranges_in_one_call_are_an_error_and_so_is_none() -> None:
    seam, images = image_seam(), torch.zeros(1, 3, 8, 8)
    with pytest.raises(MediaContractError, match="0 value ranges"):
        value_range([seam])
    seam.postprocess(images, output_type="device", do_denormalize=[False])
    seam.postprocess(images, output_type="device")
    with pytest.raises(MediaContractError, match="2 value ranges"):
        value_range([seam])
    seam.forget()
    seam.postprocess(images, output_type="device")
    assert value_range([seam]) == NORMALIZED


def test_what_is_no_processor_of_diffusers_is_left_alone() -> None:
    encoder_input = object()
    pipeline = pipeline_with(image_processor=encoder_input, mask_processor=VaeImageProcessor())
    assert install(pipeline, VaeImageProcessor) == []
    assert pipeline.image_processor is encoder_input
    assert type(pipeline.mask_processor) is VaeImageProcessor
