"""Names of other tools are told what they mean here; where that is not known there is no guess."""

import pytest

from omni_cli.prompts.foreign_names import unknown_field_advice


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("text", 'here it is "prompt": rename it, or pass --field prompt=text'),
        ("Prompt Text", 'here it is "prompt": rename it, or pass --field prompt="Prompt Text"'),
        ("init_image", 'here it is "image": rename it, or pass --field image=init_image'),
        ("num_images", 'here it is "num_outputs": rename it, or pass --field num_outputs=num_images'),
        ("length", 'here it is "num_frames": rename it, or pass --field num_frames=length'),
        ("lora_path", 'here it is "lora": rename it, or pass --field lora=lora_path'),
        ("Prompt", 'did you mean "prompt"?'),
        ("negativePrompt", 'did you mean "negative_prompt"?'),
        ("num-frames", 'did you mean "num_frames"?'),
        ("guidanceScale", 'did you mean "guidance_scale"?'),
        ("promt", 'did you mean "prompt"?'),
        ("hieght", 'did you mean "height"?'),
        ("sampler_name", "it is a setting of the run: --scheduler"),
        ("shift", "it is a setting of the run: --flow-shift"),
        ("eta", 'pass it on to the pipeline: {"extra": {"eta": ...}}'),
        ("max_sequence_length", 'pass it on to the pipeline: {"extra": {"max_sequence_length": ...}}'),
        ("duration", 'here it is "seconds": rename it, or pass --field seconds=duration'),
        ("aspect_ratio", 'give width and height, or size as in "832x480"'),
        ("lora_scale", 'give it with the adapter: {"path": "...", "weight": 0.8}'),
    ],
)
def test_a_name_of_another_tool_is_told_what_it_means(name, advice):
    assert unknown_field_advice(name) == advice


@pytest.mark.parametrize(
    "name", ["tag", "category", "metadata", "image_type", "dimension", "include", "x", "", "日本", "note"]
)
def test_a_name_that_means_nothing_gets_no_guess(name):
    assert unknown_field_advice(name).startswith("--extra-columns keep")
