"""Names of fields, and fields that hold lists or objects."""

import json

import pytest

from omni_cli.request import Adapter, GenerationRequest


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"steps": 5}, {"num_inference_steps": 5}),
        ({"cfg_scale": 5}, {"guidance_scale": 5.0}),
        ({"n": 2}, {"num_outputs": 2}),
        ({"num_images_per_prompt": 2}, {"num_outputs": 2}),
        ({"num_videos_per_prompt": 2}, {"num_outputs": 2}),
        ({"size": "832x480"}, {"width": 832, "height": 480}),
        ({"size": "auto"}, {}),
        ({"custom_id": "x"}, {"id": "x"}),
        ({"request_id": "x"}, {"id": "x"}),
        ({"id": 17}, {"id": "17"}),
        ({"image_path": "a.png"}, {"image": "a.png"}),
        ({"lora": "a.safetensors"}, {"lora": [Adapter(path="a.safetensors")]}),
        ({"lora": {"path": "a", "weight": 0.5}}, {"lora": [Adapter(path="a", weight=0.5)]}),
        ({"lora": ["a", {"path": "b"}]}, {"lora": [Adapter(path="a"), Adapter(path="b")]}),
        ({"lora": []}, {"lora": []}),
        ({"image": ["a.png", "b.png"]}, {"image": ["a.png", "b.png"]}),
        (
            {"extra": {"eta": 0.5, "nested": {"prompt": [None, True]}}},
            {"extra": {"eta": 0.5, "nested": {"prompt": [None, True]}}},
        ),
        ({"num_frames": 17.0, "seed": None}, {"num_frames": 17}),
        ({"format": "PNG"}, {"format": "png"}),
        ({"output": "clips/a.mp4"}, {"output": "clips/a.mp4"}),
    ],
)
def test_aliases_and_shorthands_fill_the_fields(requests, row, wanted):
    assert requests(json.dumps({"prompt": "p", **row})) == [GenerationRequest(prompt="p", **wanted)]


def test_items_of_lists_and_objects_are_located_on_their_own(problems):
    row = (
        '{"image": ["a", ""], "lora": [{"path": "b", "weight": "1"}], '
        '"extra": {"x": [1, 1e999], "x": 2, "seed": 1, "a b": 1, "n": 18446744073709551616}}'
    )
    assert problems(row) == [
        "1:17: image[1]: is empty; give the path of a file",
        '1:55: lora[0].weight: expected a finite number, got "1"',
        "1:81: extra.x[1]: 1e999 is too large; give text, a finite number, true, false, null, a list or an object",
        '1:89: extra: "x" is given twice; keep one',
        '1:97: extra: "seed" is a field of the request; move it out of extra',
        '1:108: extra: "a b" is no keyword; use letters, digits and _',
        "1:123: extra.n: 18446744073709551616 is too large; a whole number must fit 64 bits",
    ]
