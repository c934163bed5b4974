"""DeviceOutputProcessor returns device tensors unchanged and leaves every other output type to its parent class."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.image_processor import VaeImageProcessor
from diffusers.video_processor import VideoProcessor

from omni_cli.errors import MediaContractError
from omni_cli.media import NORMALIZED, UNIT
from omni_cli.worker.pipeline.device_output_processor import DeviceOutputProcessor, output_range, wrap_processors


def pipeline_with(**processors: Any) -> SimpleNamespace:
    return SimpleNamespace(**processors)


def wrapped_image_processor(**config: Any) -> Any:
    pipeline = pipeline_with(image_processor=VaeImageProcessor(**config))
    wrap_processors(pipeline, VaeImageProcessor)
    return pipeline.image_processor


def test_device_output_is_the_same_tensor_object() -> None:
    processor, images = wrapped_image_processor(), torch.randn(2, 3, 8, 8)
    assert processor.postprocess(images, "device") is images
    assert processor.postprocess(image=images, output_type="device", do_denormalize=[True, True]) is images
    assert output_range([processor]) == NORMALIZED


def test_a_video_passed_by_keyword_is_the_same_tensor_object() -> None:
    pipeline = pipeline_with(video_processor=VideoProcessor(vae_scale_factor=16))
    (processor,) = wrap_processors(pipeline, VaeImageProcessor)
    video = torch.randn(1, 3, 5, 8, 8, dtype=torch.bfloat16)
    assert pipeline.video_processor.postprocess_video(video=video, output_type="device") is video
    assert output_range([processor]) == NORMALIZED


@pytest.mark.parametrize("output_type", ["np", "pt"])
def test_other_output_types_return_what_the_parent_returns(output_type: str) -> None:
    processor, images, video = wrapped_image_processor(), torch.randn(2, 3, 8, 8), torch.randn(1, 3, 5, 8, 8)
    pipeline = pipeline_with(video_processor=VideoProcessor())
    wrap_processors(pipeline, VaeImageProcessor)
    flags = [True, False]
    pairs = [
        (
            processor.postprocess(images, output_type=output_type, do_denormalize=flags),
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
    assert processor.seen_ranges == set()


def test_a_wrapped_processor_keeps_its_class_and_configuration() -> None:
    processor = wrapped_image_processor(vae_scale_factor=16, do_normalize=False)
    assert isinstance(processor, VaeImageProcessor)
    assert isinstance(processor, DeviceOutputProcessor)
    assert (processor.config.vae_scale_factor, processor.config.do_normalize) == (16, False)


def test_a_processor_that_does_not_normalize_returns_the_unit_range() -> None:
    processor, images = wrapped_image_processor(do_normalize=False), torch.rand(1, 3, 8, 8)
    assert processor.postprocess(images, output_type="device") is images
    assert output_range([processor]) == UNIT


def test_a_batch_with_censored_images_is_denormalized_like_the_parent_does() -> None:
    processor, images = (
        wrapped_image_processor(),
        torch.tensor([-3.0, -1.0, 0.25, 1.0]).view(1, 1, 2, 2).repeat(2, 3, 1, 1),
    )
    images[1] = 0
    mixed = processor.postprocess(images, output_type="device", do_denormalize=[True, False])
    assert output_range([processor]) == UNIT
    expected = VaeImageProcessor().postprocess(images, "pt", [True, False])
    torch.testing.assert_close(mixed, expected, rtol=0, atol=0)


def test_a_batch_of_censored_images_stays_black() -> None:
    processor, images = wrapped_image_processor(), torch.zeros(2, 3, 8, 8)
    assert not processor.postprocess(images, output_type="device", do_denormalize=[False, False]).any()
    assert output_range([processor]) == UNIT


def test_no_range_or_two_ranges_in_one_call_is_an_error() -> None:
    processor, images = wrapped_image_processor(), torch.zeros(1, 3, 8, 8)
    with pytest.raises(MediaContractError, match="0 value ranges"):
        output_range([processor])
    processor.postprocess(images, output_type="device", do_denormalize=[False])
    processor.postprocess(images, output_type="device")
    with pytest.raises(MediaContractError, match="2 value ranges"):
        output_range([processor])
    processor.reset()
    processor.postprocess(images, output_type="device")
    assert output_range([processor]) == NORMALIZED


def test_attributes_that_are_not_output_processors_are_left_unchanged() -> None:
    encoder_input = object()
    pipeline = pipeline_with(image_processor=encoder_input, mask_processor=VaeImageProcessor())
    assert wrap_processors(pipeline, VaeImageProcessor) == []
    assert pipeline.image_processor is encoder_input
    assert type(pipeline.mask_processor) is VaeImageProcessor
