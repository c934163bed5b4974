"""Invocations: which samples share a call, and the arguments of each call."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from omni_cli.errors import MediaContractError
from omni_cli.media import Kind, Layout, Media
from omni_cli.models.cards import Card
from omni_cli.models.registry import known_card
from omni_cli.planner.batches import shape_of
from omni_cli.worker.pipeline.invocation import Sample, call_arguments, plan_invocations, sample_arguments
from omni_cli.worker.pipeline.media_from_output import join_samples, media_from_output, samples_by_request
from tests.factories import planned
from tests.worker.conftest import levels, reference, run

PARAMETERS = ("prompt", "negative_prompt", "height", "width", "num_frames", "guidance_scale", "generator", "max_area")
CARD = Card(pipeline="P", kind=Kind.VIDEO, batchable=True, parameters=PARAMETERS)


class Output:
    """A fake output object of diffusers."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


def test_requests_with_a_batch_key_share_one_invocation() -> None:
    requests = [
        planned(seeds=(1, 2), batch_key="k", prompt="a"),
        planned(index=1, seeds=(3,), batch_key="k", prompt="b"),
    ]
    (call,) = plan_invocations(requests, CARD)
    assert (call.owners, [sample.prompt for sample in call.samples]) == ((0, 0, 1), ["a", "a", "b"])


def test_a_request_without_a_batch_key_is_rendered_sample_by_sample() -> None:
    calls = plan_invocations([planned(seeds=(1, 2), prompt="a"), planned(index=1, seeds=(1,), prompt="a")], CARD)
    assert [(call.owners, [sample.seed for sample in call.samples]) for call in calls] == [
        ((0,), [1]),
        ((0,), [2]),
        ((1,), [1]),
    ]


def test_one_sample_is_a_plain_value_and_several_are_lists() -> None:
    one = sample_arguments([Sample("a", None, 7)])
    assert one["prompt"] == "a"
    assert one["generator"].initial_seed() == 7
    assert "negative_prompt" not in one
    two = sample_arguments([Sample("a", "x", 7), Sample("b", "", 8)])
    assert (two["prompt"], two["negative_prompt"]) == (["a", "b"], ["x", ""])
    assert [generator.initial_seed() for generator in two["generator"]] == [7, 8]
    assert {generator.device.type for generator in two["generator"]} == {"cpu"}


def test_fields_are_passed_by_the_pipelines_parameter_names() -> None:
    card = Card(pipeline="P", kind=Kind.VIDEO, call={"clean": False}, parameters=("video_length", "frame_rate", "mu"))
    request = planned(num_frames=9, fps=24.0, extra={"mu": 1}).request
    assert call_arguments(request, card) == {"clean": False, "video_length": 9, "frame_rate": 24, "mu": 1}
    assert call_arguments(planned(fps=23.976).request, card)["frame_rate"] == 23.976


def test_an_image_pipeline_ignores_fps_and_a_single_frame() -> None:
    card = Card(pipeline="P", kind=Kind.IMAGE, parameters=("height",))
    assert call_arguments(planned(fps=8.0, num_frames=1, height=64).request, card) == {"height": 64}


def test_max_area_follows_the_size_unless_extra_sets_it() -> None:
    assert call_arguments(planned(height=64, width=32).request, CARD)["max_area"] == 2048
    assert call_arguments(planned(height=64, width=32, extra={"max_area": 9}).request, CARD)["max_area"] == 9


@pytest.mark.parametrize(
    ("output_type", "value", "layout"),
    [
        ("device", torch.zeros(2, 3, 4, 5, 6), Layout.BCTHW),
        ("device", [torch.zeros(3, 4, 5, 6)] * 2, Layout.BCTHW),
        ("device", [torch.zeros(1, 3, 4, 5, 6)] * 2, Layout.BCTHW),
        ("device", torch.zeros(2, 3, 5, 6), Layout.BCHW),
        ("pt", torch.zeros(2, 4, 3, 5, 6), Layout.BTCHW),
        ("np", np.zeros((2, 4, 5, 6, 3), np.float32), Layout.BTHWC),
        ("np", [np.zeros((5, 6, 3), np.float32)] * 2, Layout.BHWC),
    ],
)
def test_every_kind_of_output_becomes_media(output_type: str, value: Any, layout: Layout) -> None:
    card = Card(pipeline="P", kind=Kind.VIDEO, output_type=output_type)
    media = media_from_output(Output(frames=value), card, None, expected=2)
    assert (media.spec.layout, media.batch, isinstance(media.data, torch.Tensor)) == (layout, 2, True)


def test_audio_has_a_channel_axis_and_needs_a_sample_rate() -> None:
    card = Card(pipeline="P", kind=Kind.AUDIO, output_type="pt")
    media = media_from_output(Output(audios=torch.zeros(2, 900)), card, None, expected=2, sample_rate=16000)
    assert (media.spec.layout, tuple(media.data.shape)) == (Layout.BCS, (2, 1, 900))
    with pytest.raises(MediaContractError, match="audio needs a sample rate"):
        media_from_output(Output(audios=torch.zeros(2, 900)), card, None, expected=2)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(3, 3, 5, 6), "expected 2 samples on axis B, got 3"),
        (torch.zeros(2, 5, 5, 6), "colour model RGB needs 3 channels"),
        (torch.zeros(2, 3, 5), r"shape \[2, 3, 5\]"),
        (torch.zeros(2, 3, 5, 6, dtype=torch.int32), "needs a floating dtype"),
        ([torch.zeros(3, 5, 6), torch.zeros(3, 5, 7)], "samples of shapes"),
        ([], "Output has no tensor or array of image among its fields: images"),
        ([object()] * 2, "has no tensor or array of image among its fields: images"),
    ],
)
def test_malformed_output_is_an_error_that_names_the_rule(value: Any, words: str) -> None:
    card = Card(pipeline="P", kind=Kind.IMAGE)
    with pytest.raises(MediaContractError, match=words):
        media_from_output(Output(images=value), card, None, expected=2)


def test_an_output_without_media_is_an_error() -> None:
    with pytest.raises(MediaContractError, match="no tensor or array of video among its fields: text"):
        media_from_output(Output(text="hello"), CARD, None, expected=1)


def test_adjacent_samples_of_a_request_are_a_view_and_others_a_copy() -> None:
    card = Card(pipeline="P", kind=Kind.IMAGE)

    def batch(*values: float) -> Media:
        data = torch.stack([torch.full((3, 2, 2), float(value)) for value in values])
        return media_from_output(Output(images=data), card, None, expected=len(values))

    first, second = batch(1, 2, 3), batch(4)
    together, scattered = map(join_samples, samples_by_request([first, second], (0, 0, 1, 1), 2))
    assert together.data[:, 0, 0, 0].tolist() == [1, 2]
    assert together.data.data_ptr() == first.data.data_ptr()
    assert scattered.data[:, 0, 0, 0].tolist() == [3, 4]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "pipeline", "extra"),
    [
        ("stable_diffusion_3", "StableDiffusion3Pipeline", {"prompt_2": "a blue square", "negative_prompt_3": "fog"}),
        ("stable_diffusion_xl", "StableDiffusionXLPipeline", {"prompt_2": "a blue square", "negative_prompt_2": "fog"}),
        ("flux", "FluxPipeline", {"prompt_2": "a blue square"}),
    ],
)
def test_samples_of_a_request_with_further_prompts_are_those_of_diffusers_alone(
    name: str, pipeline: str, extra: dict[str, str], runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    fields = {"prompt": "a red circle", "height": 32, "width": 32, "num_inference_steps": 2}
    if "negative" in "".join(extra):
        fields["negative_prompt"] = "grey"
    card = known_card(pipeline)
    assert card is not None
    request = planned(seeds=(1, 2), extra=extra, **fields)
    request = msgspec.structs.replace(request, shape=shape_of(request.request, card))
    (media,) = run(runner_of(name), request)
    first, second = (reference(plain_of(name), seed, **fields, **extra) for seed in (1, 2))
    np.testing.assert_array_equal(levels(media), np.concatenate([first, second]))
    unlike = reference(plain_of(name), 1, **fields)
    assert (first != unlike).any(), "the further prompts must matter"
