"""Planning of pipeline calls: what may share one, and the keywords of each."""

from typing import Any

import numpy as np
import pytest
import torch

from omni_cli.errors import MediaContractError
from omni_cli.media import Kind, Layout, Media
from omni_cli.models.cards import Card
from omni_cli.worker.calls import Sample, keywords, per_sample, plan
from omni_cli.worker.collect import media_of, split
from tests.worker.conftest import planned

PARAMETERS = ("prompt", "negative_prompt", "height", "width", "num_frames", "guidance_scale", "generator", "max_area")
CARD = Card(pipeline="P", kind=Kind.VIDEO, batchable=True, parameters=PARAMETERS)


class Output:
    """Looks like an output object of diffusers."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


def test_same_keywords_share_a_call_and_others_do_not() -> None:
    requests = [
        planned((1, 2), 0, prompt="a", height=64),
        planned((3,), 1, prompt="b", height=64),
        planned((4,), 2, prompt="c", height=128),
        planned((5,), 3, prompt="d", negative_prompt="", height=64),
    ]
    calls = plan(requests, CARD)
    assert [(call.owners, [sample.prompt for sample in call.samples]) for call in calls] == [
        ((0, 0, 1), ["a", "a", "b"]),
        ((2,), ["c"]),
        ((3,), ["d"]),
    ]


def test_without_batching_each_sample_is_a_call() -> None:
    card = Card(pipeline="P", kind=Kind.VIDEO, parameters=PARAMETERS)
    calls = plan([planned((1, 1), 0, prompt="a"), planned((1,), 1, prompt="a")], card)
    assert [(call.owners, len(call.samples)) for call in calls] == [((0,), 1), ((0,), 1), ((1,), 1)]


def test_one_sample_is_a_plain_value_and_several_are_lists() -> None:
    one = per_sample([Sample("a", None, 7)])
    assert one["prompt"] == "a"
    assert one["generator"].initial_seed() == 7
    assert "negative_prompt" not in one
    two = per_sample([Sample("a", "x", 7), Sample("b", "", 8)])
    assert (two["prompt"], two["negative_prompt"]) == (["a", "b"], ["x", ""])
    assert [generator.initial_seed() for generator in two["generator"]] == [7, 8]
    assert {generator.device.type for generator in two["generator"]} == {"cpu"}


def test_keywords_are_named_as_the_pipeline_names_them() -> None:
    card = Card(pipeline="P", kind=Kind.VIDEO, call={"clean": False}, parameters=("video_length", "frame_rate", "mu"))
    request = planned(num_frames=9, fps=24.0, extra={"mu": 1}).request
    assert keywords(request, card) == {"clean": False, "video_length": 9, "frame_rate": 24, "mu": 1}
    assert keywords(planned(fps=23.976).request, card)["frame_rate"] == 23.976


def test_a_rate_and_a_single_frame_are_no_news_to_an_image_pipeline() -> None:
    card = Card(pipeline="P", kind=Kind.IMAGE, parameters=("height",))
    assert keywords(planned(fps=8.0, num_frames=1, height=64).request, card) == {"height": 64}


def test_the_area_goes_with_the_size_unless_it_is_given() -> None:
    assert keywords(planned(height=64, width=32).request, CARD)["max_area"] == 2048
    assert keywords(planned(height=64, width=32, extra={"max_area": 9}).request, CARD)["max_area"] == 9


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
def test_what_a_pipeline_returns_becomes_media(output_type: str, value: Any, layout: Layout) -> None:
    card = Card(pipeline="P", kind=Kind.VIDEO, output_type=output_type)
    media = media_of(Output(frames=value), card, None, expected=2)
    assert (media.spec.layout, media.batch, isinstance(media.data, torch.Tensor)) == (layout, 2, True)


def test_audio_is_samples_per_channel() -> None:
    card = Card(pipeline="P", kind=Kind.AUDIO, output_type="pt")
    media = media_of(Output(audios=torch.zeros(2, 900)), card, None, expected=2, sample_rate=16000)
    assert (media.spec.layout, tuple(media.data.shape)) == (Layout.BCS, (2, 1, 900))
    with pytest.raises(MediaContractError, match="audio needs a sample rate"):
        media_of(Output(audios=torch.zeros(2, 900)), card, None, expected=2)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(3, 3, 5, 6), "expected 2 samples on axis B, found 3"),
        (torch.zeros(2, 5, 5, 6), "colour model RGB needs 3 channels"),
        (torch.zeros(2, 3, 5), r"shape \[2, 3, 5\]"),
        (torch.zeros(2, 3, 5, 6, dtype=torch.int32), "needs a floating dtype"),
        ([torch.zeros(3, 5, 6), torch.zeros(3, 5, 7)], "samples of shapes"),
        ([], "samples of shapes"),
        ([object()] * 2, "it is a object, not a tensor"),
    ],
)
def test_malformed_output_names_the_rule(value: Any, words: str) -> None:
    card = Card(pipeline="P", kind=Kind.IMAGE)
    with pytest.raises(MediaContractError, match=words):
        media_of(Output(images=value), card, None, expected=2)


def test_an_output_without_media_is_an_error() -> None:
    with pytest.raises(MediaContractError, match="Output has none of frames, images"):
        media_of(Output(text="hello"), CARD, None, expected=1)


def test_splitting_gives_views_where_samples_stand_together_and_copies_where_not() -> None:
    card = Card(pipeline="P", kind=Kind.IMAGE)

    def batch(*values: float) -> Media:
        data = torch.stack([torch.full((3, 2, 2), float(value)) for value in values])
        return media_of(Output(images=data), card, None, expected=len(values))

    first, second = batch(1, 2, 3), batch(4)
    together, scattered = split([first, second], (0, 0, 1, 1), 2)
    assert together.data[:, 0, 0, 0].tolist() == [1, 2]
    assert together.data.data_ptr() == first.data.data_ptr()
    assert scattered.data[:, 0, 0, 0].tolist() == [3, 4]
