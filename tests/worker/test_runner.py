"""DiffusersRunner gives the same bytes as diffusers itself, for every pipeline, batch and fall-back."""

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

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, ForwardError, MediaContractError, RequestCancelled
from omni_cli.media import Kind
from omni_cli.request import Adapter
from omni_cli.worker.runner import DiffusersRunner
from omni_cli.worker.sleeping_models import SleepingModels
from tests.factories import planned
from tests.worker.conftest import levels, load, plain, reference, run

# diffusers' Euler scheduler passes a tensor to numpy in a deprecated way.
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
def test_pixels_equal_those_of_diffusers(
    name: str, runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    media = run(runner_of(name), planned(prompt="a red circle, grüße 猫", **FIELDS[name]))[0]
    expected = reference(plain_of(name), 5, prompt="a red circle, grüße 猫", **FIELDS[name])
    assert media.spec.kind is (Kind.VIDEO if name in VIDEOS else Kind.IMAGE)
    np.testing.assert_array_equal(levels(media), expected)
    assert expected.std() > 30  # a picture with contrast, because an empty one would prove nothing


def test_a_pipeline_without_a_processor_prompt_or_card_runs(
    runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    media = run(runner_of("ddim"), planned(num_inference_steps=3))[0]
    np.testing.assert_array_equal(levels(media), reference(plain_of("ddim"), 5, num_inference_steps=3))


@pytest.mark.parametrize("name", BATCHABLE)
def test_batched_samples_equal_samples_rendered_alone(name: str, runner_of: Callable[..., Any]) -> None:
    runner = runner_of(name)
    first = planned(seeds=(1, 2), batch_key="k", prompt="a red circle", **FIELDS[name])
    longer = "a much longer prompt about a blue square that moves to the left"
    second = planned(index=1, seeds=(3,), batch_key="k", prompt=longer, **FIELDS[name])
    together = [levels(media) for media in run(runner, first, second)]
    assert [len(batch) for batch in together] == [2, 1]
    alone = [
        levels(run(runner, planned(seeds=(seed,), prompt=request.request.prompt, **FIELDS[name]))[0])[0]
        for request in (first, second)
        for seed in request.seeds
    ]
    for sample, single in zip([*together[0], *together[1]], alone, strict=True):
        assert np.abs(sample.astype(int) - single.astype(int)).max() <= 1
    assert np.abs(alone[0].astype(int) - alone[1].astype(int)).mean() > 3  # another seed is another picture


def test_requests_with_a_batch_key_are_one_call_and_others_one_call_per_sample(runner_of: Callable[..., Any]) -> None:
    def steps_of(name: str, batch_key: str) -> list[tuple[int, int]]:
        steps: list[tuple[int, int]] = []
        requests = [
            planned(seeds=(1, 2), batch_key=batch_key, prompt="x", **FIELDS[name]),
            planned(index=1, seeds=(3,), batch_key=batch_key, prompt="y", **FIELDS[name]),
        ]
        runner_of(name).execute_model(requests, lambda step, total: steps.append((step, total)), lambda: False)
        return steps

    assert steps_of("wan", "k") == [(1, 2), (2, 2)]
    assert steps_of("kandinsky_3", "") == [(step, 6) for step in range(1, 7)]


def test_requests_that_differ_in_a_field_keep_their_order(runner_of: Callable[..., Any]) -> None:
    runner = runner_of("flux")
    fields = [FIELDS["flux"] | {"num_inference_steps": steps} for steps in (2, 1, 2)]
    requests = [planned(index=index, seeds=(index,), prompt="x", **field) for index, field in enumerate(fields)]
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


def test_a_safety_checker_blackens_only_the_image_it_flags(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model("stable_diffusion"), tmp_path / "strict")
    pipeline, fields = plain(folder), FIELDS["stable_diffusion"]
    checker, embeddings = pipeline.safety_checker, []
    checker.visual_projection.register_forward_hook(lambda module, args, output: embeddings.append(output))
    fields_of_both = {"prompt": ["x", "x"], **fields}
    with torch.no_grad():
        checker.special_care_embeds_weights.fill_(9.0)
        checker.concept_embeds_weights.fill_(9.0)
        reference(pipeline, [1, 2], **fields_of_both)
        checker.concept_embeds[0] = embeddings[0][1]  # the embedding of the second picture is the flagged concept
        similarity = torch.cosine_similarity(embeddings[0][0], embeddings[0][1], dim=0)
        checker.concept_embeds_weights[0] = (1 + similarity) / 2
    pipeline.save_pretrained(folder, safe_serialization=True)

    media = run(load(str(folder), dtype="float32"), planned(seeds=(1, 2), batch_key="k", prompt="x", **fields))[0]
    expected = reference(pipeline, [1, 2], **fields_of_both)
    assert expected[0].std() > 30
    assert not expected[1].any()
    np.testing.assert_array_equal(levels(media), expected)


def test_input_images_are_passed_to_the_pipeline(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 64, 3), dtype=np.uint8))
    picture.save(tmp_path / "in.png")
    runner = load(str(tiny_model("stable_diffusion")), dtype="float32", pipeline="StableDiffusionImg2ImgPipeline")
    fields = {"prompt": "x", "num_inference_steps": 4, "strength": 0.5}
    media = run(runner, planned(image=str(tmp_path / "in.png"), **fields))[0]
    expected_pipeline = StableDiffusionImg2ImgPipeline(**plain(tiny_model("stable_diffusion")).components)
    expected_pipeline.set_progress_bar_config(disable=True)
    expected = reference(expected_pipeline, 5, image=picture, **fields)
    np.testing.assert_array_equal(levels(media), expected)


@pytest.mark.parametrize("name", ["wan", "ddim"])
def test_a_cancelled_batch_stops_at_the_next_step_and_the_next_batch_runs(
    name: str, runner_of: Callable[..., Any]
) -> None:
    runner, steps = runner_of(name), []
    request = (
        planned(num_inference_steps=4)
        if name == "ddim"
        else planned(prompt="x", **FIELDS[name] | {"num_inference_steps": 4})
    )
    with pytest.raises(RequestCancelled, match="step 2 of 4"):
        runner.execute_model([request], lambda step, total: steps.append(step), lambda: len(steps) == 2)
    assert steps == [1, 2]
    assert len(run(runner, request)) == 1


def test_a_batch_that_is_cancelled_before_it_begins_runs_no_step(runner_of: Callable[..., Any]) -> None:
    with pytest.raises(RequestCancelled):
        runner_of("wan").execute_model([planned(prompt="x", **FIELDS["wan"])], pytest.fail, lambda: True)


def test_a_size_that_the_pipeline_rounds_is_an_error(runner_of: Callable[..., Any]) -> None:
    with pytest.raises(MediaContractError, match="num_frames 10 was requested and the pipeline made 9"):
        run(runner_of("ltx"), planned(prompt="x", **FIELDS["ltx"] | {"num_frames": 10}))


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        (
            "flux",
            {"extra": {"max_sequence_lenght": 64}},
            r"FluxPipeline takes no extra.max_sequence_lenght.*max_sequence_length",
        ),
        ("flux", {"extra": {"output_type": "pil"}}, "takes no extra.output_type"),
        ("hunyuan_image", {"guidance_scale": 2.0}, "takes no guidance_scale.*distilled_guidance_scale"),
        ("flux", {"image": "/nowhere.png"}, "takes no image"),
        ("stable_diffusion", {"height": 33}, "StableDiffusionPipeline: ValueError: .*divisible by 8"),
    ],
)
def test_a_field_that_the_pipeline_does_not_accept_is_named_in_the_error(
    name: str, fields: dict[str, Any], words: str, runner_of: Callable[..., Any]
) -> None:
    with pytest.raises(ForwardError, match=words):
        run(runner_of(name), planned(prompt="x", **FIELDS[name] | fields))


def test_extra_arguments_are_passed_to_the_pipeline(
    runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    media = run(runner_of("flux"), planned(prompt="x" * 40, extra={"max_sequence_length": 8}, **FIELDS["flux"]))[0]
    expected = reference(plain_of("flux"), 5, prompt="x" * 40, max_sequence_length=8, **FIELDS["flux"])
    np.testing.assert_array_equal(levels(media), expected)
    assert (expected != reference(plain_of("flux"), 5, prompt="x" * 40, **FIELDS["flux"])).any()


def test_fps_is_passed_to_a_pipeline_that_is_conditioned_on_it(
    runner_of: Callable[..., Any], plain_of: Callable[..., Any]
) -> None:
    media = run(runner_of("ltx"), planned(prompt="x", fps=12.0, **FIELDS["ltx"]))[0]
    np.testing.assert_array_equal(
        levels(media), reference(plain_of("ltx"), 5, prompt="x", frame_rate=12, **FIELDS["ltx"])
    )


def test_lora_for_a_pipeline_without_lora_support_is_an_error(runner_of: Callable[..., Any]) -> None:
    with pytest.raises(ForwardError, match="DDIMPipeline takes no LoRA"):
        run(runner_of("ddim"), planned(num_inference_steps=2, lora=[Adapter(path="a.safetensors")]))


@pytest.mark.parametrize(("name", "words"), [("a.bin", r"only \.safetensors"), ("none.safetensors", "no such file")])
def test_a_lora_that_cannot_be_loaded_is_named_in_the_error(
    name: str, words: str, runner_of: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "a.bin").write_bytes(b"x")
    with pytest.raises(ForwardError, match=words):
        run(runner_of("flux"), planned(prompt="x", lora=[Adapter(path=str(tmp_path / name))], **FIELDS["flux"]))


def test_loras_affect_only_the_requests_that_name_them(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
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


def test_a_model_that_was_switched_away_from_wakes_up_unless_its_files_have_changed(
    tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    folder, other = tmp_path / "flux", str(tiny_model("wan"))
    shutil.copytree(tiny_model("flux"), folder)
    runner, request = load(str(folder), dtype="float32"), planned(prompt="x", **FIELDS["flux"])
    first, before = runner._model.pipeline, levels(run(runner, request)[0])
    load_into(runner, other)
    load_into(runner, str(folder))
    assert runner._model.pipeline is first
    np.testing.assert_array_equal(levels(run(runner, request)[0]), before)
    load_into(runner, other)
    config = folder / "scheduler" / "scheduler_config.json"
    config.write_text(config.read_text().replace('"shift": ', '"shift": 1'))
    load_into(runner, str(folder))
    assert runner._model.pipeline is not first
    runner.close()
    assert other not in [model.model for model in runner._asleep._sleepers]


def load_into(runner: DiffusersRunner, model: str) -> None:
    """Switch `runner` to `model`."""
    runner.load(ModelConfig(model=model, device="cpu", dtype="float32"), EngineConfig(), lambda _: None)


def test_a_model_for_which_host_memory_has_no_room_is_released(tiny_model: Callable[[str], Path]) -> None:
    runner = load(str(tiny_model("flux")), dtype="float32")
    runner._asleep = SleepingModels(lambda: 0)
    pipeline = weakref.ref(runner._model.pipeline)
    load_into(runner, str(tiny_model("wan")))
    assert pipeline() is None
    runner.close()


def test_close_releases_the_model(tiny_model: Callable[[str], Path]) -> None:
    runner = load(str(tiny_model("ltx")))
    pipeline = weakref.ref(runner._model.pipeline)
    assert pipeline() is not None
    runner.close()
    assert pipeline() is None
    with pytest.raises(EngineError, match="no model is loaded"):
        run(runner, planned(prompt="x"))
