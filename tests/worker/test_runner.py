"""The runner against diffusers itself: same bytes, whatever the pipeline, the batch and the fall-back."""

import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from diffusers import StableDiffusionImg2ImgPipeline
from PIL import Image

from omni_cli.errors import EngineError, ForwardError, MediaContractError, RequestCancelled
from omni_cli.media import Kind
from omni_cli.request import Adapter
from tests.worker.conftest import levels, load, plain, planned, reference, run

# diffusers' Euler scheduler hands a tensor to numpy in an old way.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SMALL = {"height": 32, "width": 64, "num_inference_steps": 2}
FIELDS: dict[str, dict[str, Any]] = {
    "stable_diffusion": SMALL,
    "stable_diffusion_xl": SMALL,
    "stable_diffusion_3": SMALL,
    "flux": SMALL | {"guidance_scale": 3.0},
    "qwen_image": SMALL,
    "hunyuan_image": SMALL | {"height": 64, "width": 128},
    "kandinsky_3": SMALL | {"height": 64, "width": 128},
    "wan": SMALL | {"num_frames": 9, "guidance_scale": 3.0},
    "wan_ti2v": SMALL | {"height": 64, "num_frames": 5},
    "ltx": SMALL | {"height": 64, "num_frames": 9},
}
BATCHABLE = [name for name in FIELDS if name != "kandinsky_3"]
VIDEOS = ("wan", "wan_ti2v", "ltx")


@pytest.mark.parametrize("name", FIELDS)
def test_bytes_are_those_of_diffusers(name: str, runner_of: Callable[..., Any], plain_of: Callable[..., Any]) -> None:
    media = run(runner_of(name), planned(prompt="a red circle, grüße 猫", **FIELDS[name]))[0]
    expected = reference(plain_of(name), 5, prompt="a red circle, grüße 猫", **FIELDS[name])
    assert media.spec.kind is (Kind.VIDEO if name in VIDEOS else Kind.IMAGE)
    np.testing.assert_array_equal(levels(media), expected)
    assert expected.std() > 30  # a picture with contrast: an empty one would prove nothing


def test_a_pipeline_without_processor_text_and_card_is_still_run(
    runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    media = run(runner_of("ddim"), planned(num_inference_steps=3))[0]
    np.testing.assert_array_equal(levels(media), reference(plain_of("ddim"), 5, num_inference_steps=3))


@pytest.mark.parametrize("name", BATCHABLE)
def test_batched_samples_are_those_made_alone(name: str, runner_of: Callable[..., Any]) -> None:
    runner = runner_of(name)
    first = planned((1, 2), 0, prompt="a red circle", **FIELDS[name])
    second = planned((3,), 1, prompt="a much longer prompt about a blue square that moves to the left", **FIELDS[name])
    together = [levels(media) for media in run(runner, first, second)]
    assert [len(batch) for batch in together] == [2, 1]
    alone = [
        levels(run(runner, planned((seed,), prompt=request.request.prompt, **FIELDS[name]))[0])[0]
        for request in (first, second)
        for seed in request.seeds
    ]
    for sample, single in zip([*together[0], *together[1]], alone, strict=True):
        assert np.abs(sample.astype(int) - single.astype(int)).max() <= 1
    assert np.abs(alone[0].astype(int) - alone[1].astype(int)).mean() > 3  # another seed is another picture


def test_a_batch_is_one_call_and_a_pipeline_that_cannot_share_gets_one_per_sample(
    runner_of: Callable[..., Any],
) -> None:
    def steps_of(name: str) -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        requests = [planned((1, 2), 0, prompt="x", **FIELDS[name]), planned((3,), 1, prompt="y", **FIELDS[name])]
        runner_of(name).execute_model(requests, lambda step, total: seen.append((step, total)), lambda: False)
        return seen

    assert steps_of("wan") == [(1, 2), (2, 2)]
    assert steps_of("kandinsky_3") == [(step, 6) for step in range(1, 7)]


def test_requests_that_differ_in_a_keyword_keep_their_order(runner_of: Callable[..., Any]) -> None:
    runner = runner_of("flux")
    fields = [FIELDS["flux"] | {"num_inference_steps": steps} for steps in (2, 1, 2)]
    requests = [planned((index,), index, prompt="x", **field) for index, field in enumerate(fields)]
    for request, media in zip(requests, run(runner, *requests), strict=True):
        alone = levels(run(runner, request)[0])
        assert np.abs(levels(media).astype(int) - alone.astype(int)).max() <= 1


@pytest.mark.parametrize("name", ["wan", "flux"])
def test_bfloat16_is_at_most_one_level_from_diffusers(
    name: str, runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    media = run(runner_of(name, "bfloat16"), planned(prompt="x", **FIELDS[name]))[0]
    assert media.data.dtype == torch.bfloat16
    expected = reference(plain_of(name, torch.bfloat16), 5, prompt="x", **FIELDS[name])
    assert np.abs(levels(media).astype(int) - expected.astype(int)).max() <= 1


def test_a_safety_checker_that_fires_on_one_image_blackens_it_and_no_other(
    tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_model("stable_diffusion"), tmp_path / "strict")
    pipeline, fields = plain(folder), FIELDS["stable_diffusion"]
    checker, seen = pipeline.safety_checker, []
    checker.visual_projection.register_forward_hook(lambda module, args, output: seen.append(output))
    quiet = {"prompt": ["x", "x"], **fields}
    with torch.no_grad():
        checker.special_care_embeds_weights.fill_(9.0)
        checker.concept_embeds_weights.fill_(9.0)
        reference(pipeline, [1, 2], **quiet)
        checker.concept_embeds[0] = seen[0][1]  # the second picture itself is the forbidden concept
        likeness = torch.cosine_similarity(seen[0][0], seen[0][1], dim=0)
        checker.concept_embeds_weights[0] = (1 + likeness) / 2
    pipeline.save_pretrained(folder, safe_serialization=True)

    media = run(load(str(folder), dtype="float32"), planned((1, 2), prompt="x", **fields))[0]
    expected = reference(pipeline, [1, 2], **quiet)
    assert expected[0].std() > 30
    assert not expected[1].any()
    np.testing.assert_array_equal(levels(media), expected)


def test_input_images_reach_the_pipeline(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 64, 3), dtype=np.uint8))
    picture.save(tmp_path / "in.png")
    runner = load(str(tiny_model("stable_diffusion")), dtype="float32", pipeline="StableDiffusionImg2ImgPipeline")
    fields = {"prompt": "x", "num_inference_steps": 4, "strength": 0.5}
    media = run(runner, planned(image=str(tmp_path / "in.png"), **fields))[0]
    same = StableDiffusionImg2ImgPipeline(**plain(tiny_model("stable_diffusion")).components)
    same.set_progress_bar_config(disable=True)
    expected = reference(same, 5, image=picture, **fields)
    np.testing.assert_array_equal(levels(media), expected)


@pytest.mark.parametrize("name", ["wan", "ddim"])
def test_cancelling_stops_at_the_next_step_and_the_runner_goes_on(name: str, runner_of: Callable[..., Any]) -> None:
    runner, seen = runner_of(name), []
    request = (
        planned(num_inference_steps=4)
        if name == "ddim"
        else planned(prompt="x", **FIELDS[name] | {"num_inference_steps": 4})
    )
    with pytest.raises(RequestCancelled, match="step 2 of 4"):
        runner.execute_model([request], lambda step, total: seen.append(step), lambda: len(seen) == 2)
    assert seen == [1, 2]
    assert len(run(runner, request)) == 1


def test_a_batch_that_is_cancelled_before_it_begins_makes_no_step(runner_of: Callable[..., Any]) -> None:
    with pytest.raises(RequestCancelled):
        runner_of("wan").execute_model([planned(prompt="x", **FIELDS["wan"])], pytest.fail, lambda: True)


def test_a_size_that_the_pipeline_would_round_is_an_error_and_not_another_size(runner_of: Callable[..., Any]) -> None:
    with pytest.raises(MediaContractError, match="num_frames 10 was asked for and the pipeline made 9"):
        run(runner_of("ltx"), planned(prompt="x", **FIELDS["ltx"] | {"num_frames": 10}))


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        (
            "flux",
            {"extra": {"max_sequence_lenght": 64}},
            r"FluxPipeline takes no extra.max_sequence_lenght.*'max_sequence_length'",
        ),
        ("flux", {"extra": {"output_type": "pil"}}, "takes no extra.output_type"),
        ("hunyuan_image", {"guidance_scale": 2.0}, "takes no guidance_scale.*'distilled_guidance_scale'"),
        ("flux", {"image": "/nowhere.png"}, "takes no image"),
        ("stable_diffusion", {"height": 33}, "StableDiffusionPipeline: ValueError: .*divisible by 8"),
    ],
)
def test_what_a_pipeline_cannot_take_is_named(
    name: str, fields: dict[str, Any], words: str, runner_of: Callable[..., Any]
) -> None:
    with pytest.raises(ForwardError, match=words):
        run(runner_of(name), planned(prompt="x", **FIELDS[name] | fields))


def test_extra_keywords_reach_the_pipeline(runner_of: Callable[..., Any], plain_of: Callable[..., Any]) -> None:
    media = run(runner_of("flux"), planned(prompt="x" * 40, extra={"max_sequence_length": 8}, **FIELDS["flux"]))[0]
    expected = reference(plain_of("flux"), 5, prompt="x" * 40, max_sequence_length=8, **FIELDS["flux"])
    np.testing.assert_array_equal(levels(media), expected)
    assert (expected != reference(plain_of("flux"), 5, prompt="x" * 40, **FIELDS["flux"])).any()


def test_the_rate_is_passed_to_a_pipeline_that_is_conditioned_on_it(
    runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    media = run(runner_of("ltx"), planned(prompt="x", fps=12.0, **FIELDS["ltx"]))[0]
    np.testing.assert_array_equal(
        levels(media), reference(plain_of("ltx"), 5, prompt="x", frame_rate=12, **FIELDS["ltx"])
    )


def test_a_pipeline_without_lora_says_so(runner_of: Callable[..., Any]) -> None:
    with pytest.raises(ForwardError, match="DDIMPipeline takes no LoRA"):
        run(runner_of("ddim"), planned(num_inference_steps=2, lora=[Adapter(path="a.safetensors")]))


@pytest.mark.parametrize(("name", "words"), [("a.bin", r"only \.safetensors"), ("none.safetensors", "no such file")])
def test_a_lora_that_cannot_be_used_is_named(
    name: str, words: str, runner_of: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "a.bin").write_bytes(b"x")
    with pytest.raises(ForwardError, match=words):
        run(runner_of("flux"), planned(prompt="x", lora=[Adapter(path=str(tmp_path / name))], **FIELDS["flux"]))


def test_loras_count_for_the_requests_that_name_them_and_no_other(
    tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    pipeline, fields = plain(tiny_model("flux")), {"prompt": "x", **FIELDS["flux"]}
    pipeline.transformer.add_adapter(peft.LoraConfig(r=2, init_lora_weights=False, target_modules=["to_q", "to_v"]))
    layers = {key: value * 3 for key, value in peft.get_peft_model_state_dict(pipeline.transformer).items()}
    pipeline.save_lora_weights(str(tmp_path), transformer_lora_layers=layers)
    lora = str(tmp_path / "pytorch_lora_weights.safetensors")
    pipeline = plain(tiny_model("flux"))
    without = reference(pipeline, 5, **fields)
    pipeline.load_lora_weights(str(tmp_path), adapter_name="a")
    pipeline.set_adapters(["a"], [0.5])
    with_it = reference(pipeline, 5, **fields)
    assert (with_it != without).any()

    runner = load(str(tiny_model("flux")))
    for _ in range(2):
        media = run(runner, planned(lora=[Adapter(path=lora, weight=0.5)], **fields))[0]
        np.testing.assert_array_equal(levels(media), with_it)
        np.testing.assert_array_equal(levels(run(runner, planned(**fields))[0]), without)
    (tmp_path / "bad.safetensors").write_bytes(b"junk")
    with pytest.raises(ForwardError, match=r"bad\.safetensors' cannot be loaded"):
        run(runner, planned(lora=[Adapter(path=lora), Adapter(path=str(tmp_path / "bad.safetensors"))], **fields))
    np.testing.assert_array_equal(levels(run(runner, planned(**fields))[0]), without)


def test_sleep_and_wake_up_change_no_pixel(runner_of: Callable[..., Any]) -> None:
    runner, request = runner_of("wan"), planned(prompt="x", **FIELDS["wan"])
    before = levels(run(runner, request)[0])
    runner.sleep()
    runner.wake_up()
    runner.synchronize()
    np.testing.assert_array_equal(levels(run(runner, request)[0]), before)


def test_close_drops_the_model(tiny_model: Callable[[str], Path]) -> None:
    runner = load(str(tiny_model("ltx")))
    pipeline = weakref.ref(runner._model.pipeline)
    assert pipeline() is not None
    runner.close()
    assert pipeline() is None
    with pytest.raises(EngineError, match="no model is loaded"):
        run(runner, planned(prompt="x"))
