"""Requests with images, clips, masks, embeddings and latents give the same bytes as plain diffusers."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from omni_cli.errors import ForwardError, InputUnreadable
from omni_cli.inputs import InputFile
from omni_cli.worker.pipeline.input_loading import read_input
from omni_cli.worker.pipeline.input_prefetcher import InputPrefetcher
from omni_cli.worker.runner import DiffusersRunner
from tests.factories import planned
from tests.worker.conftest import levels, load, reference, run

# diffusers' Euler scheduler passes a tensor to numpy in a deprecated way.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SIZE = {"height": 32, "width": 64, "num_inference_steps": 2}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pictures of another size than requested, a mask, a clip and a clip of masks."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        Image.fromarray(rng.integers(0, 256, (50, 70, 3), np.uint8)).save(folder / f"{name}.png")
    Image.fromarray(np.tile(np.array([0, 255], np.uint8), (50, 35))).save(folder / "mask.png")
    for name in ("clip", "masks"):
        with av.open(str(folder / f"{name}.mkv"), "w") as container:
            stream: Any = container.add_stream("ffv1", rate=8)
            stream.width, stream.height, stream.pix_fmt = 64, 32, "bgr0"
            for _ in range(7):
                frame = av.VideoFrame.from_ndarray(rng.integers(0, 256, (32, 64, 3), np.uint8), "rgb24")
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    return folder


def picture(path: Path, mode: str = "RGB") -> Image.Image:
    return Image.open(path).convert(mode)


def frames(path: Path, count: int) -> list[Image.Image]:
    with av.open(str(path)) as container:
        return [frame.to_image() for frame in container.decode(video=0)][:count]


Compare = Callable[..., None]


@pytest.fixture
def assert_same(runner_of: Callable[..., Any], plain_of: Callable[..., Any]) -> Compare:
    """Return a function of (model, fields, diffusers' arguments) that compares the runner's bytes with diffusers'."""

    def compare(name: str, fields: dict[str, Any], keywords: dict[str, Any], **both: Any) -> None:
        media = run(runner_of(name), planned(**fields, **both))[0]
        np.testing.assert_array_equal(levels(media), reference(plain_of(name), 5, **keywords, **both))

    return compare


def test_an_image_with_a_strength(assert_same: Compare, inputs: Path) -> None:
    fields, keywords = {"image": str(inputs / "a.png")}, {"image": picture(inputs / "a.png")}
    assert_same("flux_img2img", fields, keywords, prompt="x", strength=0.5, **SIZE)


def test_an_inpainting_mask(assert_same: Compare, inputs: Path) -> None:
    pair = ("a.png", "mask.png")
    fields = dict(zip(("image", "mask"), (str(inputs / name) for name in pair), strict=True))
    keywords = {"image": picture(inputs / "a.png"), "mask_image": picture(inputs / "mask.png", "L")}
    assert_same("stable_diffusion_inpaint", fields, keywords, prompt="x", **SIZE)


def test_an_image_to_edit(assert_same: Compare, inputs: Path) -> None:
    # By default such a pipeline scales the picture up to a megapixel, which takes a minute here.
    fields = {"image": str(inputs / "a.png"), "extra": {"_auto_resize": False}}
    keywords = {"image": picture(inputs / "a.png"), "_auto_resize": False, "max_area": 32 * 64}
    assert_same("flux_kontext", fields, keywords, prompt="x", **SIZE)


def test_a_first_and_a_last_frame(assert_same: Compare, inputs: Path) -> None:
    fields = {"image": str(inputs / "a.png"), "last_image": str(inputs / "b.png")}
    keywords = {"image": picture(inputs / "a.png"), "last_image": picture(inputs / "b.png")}
    assert_same("wan_flf2v", fields, keywords, prompt="x", num_frames=5, **SIZE)


def test_num_frames_limits_the_frames_of_an_input_clip(
    runner_of: Callable[..., Any], plain_of: Callable[..., Any], inputs: Path
) -> None:
    both = {"prompt": "x", "strength": 1.0, **SIZE}
    clip = str(inputs / "clip.mkv")
    for count in (5, 7):
        media = run(runner_of("wan_v2v"), planned(video=clip, num_frames=count, **both))[0]
        expected = reference(plain_of("wan_v2v"), 5, video=frames(inputs / "clip.mkv", count), **both)
        np.testing.assert_array_equal(levels(media), expected)


def test_a_clip_with_a_clip_of_masks_and_reference_images_in_extra(assert_same: Compare, inputs: Path) -> None:
    fields = {
        "video": str(inputs / "clip.mkv"),
        "mask": str(inputs / "masks.mkv"),
        "extra": {"reference_images": [{"image": str(inputs / "a.png")}, {"image": str(inputs / "b.png")}]},
    }
    keywords = {
        "video": frames(inputs / "clip.mkv", 5),
        "mask": [frame.convert("L") for frame in frames(inputs / "masks.mkv", 5)],
        "reference_images": [picture(inputs / "a.png"), picture(inputs / "b.png")],
    }
    assert_same("wan_vace", fields, keywords, prompt="x", num_frames=5, **SIZE)


def embeds(pipeline: Any, names: tuple[str, ...], **keywords: Any) -> dict[str, torch.Tensor]:
    """Return the embeddings that the pipeline computes, by `__call__` argument."""
    with torch.inference_mode():
        tensors = pipeline.encode_prompt(**keywords)
    return {name: tensor.clone() for name, tensor in zip(names, tensors, strict=False) if tensor is not None}


@pytest.mark.parametrize(
    ("name", "names", "how"),
    [
        ("flux", ("prompt_embeds", "pooled_prompt_embeds"), {"prompt": "x", "prompt_2": None}),
        (
            "stable_diffusion",
            ("prompt_embeds", "negative_prompt_embeds"),
            {
                "prompt": "x",
                "negative_prompt": "y",
                "device": "cpu",
                "num_images_per_prompt": 1,
                "do_classifier_free_guidance": True,
            },
        ),
        (
            "pixart_sigma",
            (
                "prompt_embeds",
                "prompt_attention_mask",
                "negative_prompt_embeds",
                "negative_prompt_attention_mask",
            ),
            {"prompt": "x", "negative_prompt": "y"},
        ),
    ],
)
def test_embeddings_give_the_same_pixels_as_their_texts(
    name: str,
    names: tuple[str, ...],
    how: dict[str, Any],
    runner_of: Callable[..., Any],
    plain_of: Callable[..., Any],
    tmp_path: Path,
) -> None:
    tensors = embeds(plain_of(name), names, **how)
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, tmp_path / "e.safetensors")
    media = run(runner_of(name), planned(prompt_embeds=str(tmp_path / "e.safetensors"), **SIZE))[0]
    texts = {key: how[key] for key in ("prompt", "negative_prompt") if key in how}
    binning = {"use_resolution_binning": False} if name == "pixart_sigma" else {}
    np.testing.assert_array_equal(levels(media), reference(plain_of(name), 5, **texts, **SIZE, **binning))


def test_a_pipeline_that_takes_a_list_of_embeddings_gets_one(
    runner_of: Callable[..., Any], plain_of: Callable[..., Any], tmp_path: Path
) -> None:
    with torch.inference_mode():
        (positive,), (negative,) = plain_of("z_image").encode_prompt(
            "x", device=torch.device("cpu"), do_classifier_free_guidance=True, negative_prompt="y"
        )
    pair = {"prompt_embeds": positive[None].clone(), "negative_prompt_embeds": negative[None].clone()}
    save_file(pair, tmp_path / "e.safetensors")
    media = run(runner_of("z_image"), planned(prompt_embeds=str(tmp_path / "e.safetensors"), **SIZE))[0]
    expected = reference(plain_of("z_image"), 5, prompt="x", negative_prompt="y", **SIZE)
    np.testing.assert_array_equal(levels(media), expected)


def test_each_output_gets_its_latents_in_the_models_dtype(
    runner_of: Callable[..., Any], plain_of: Callable[..., Any], tmp_path: Path
) -> None:
    latents = torch.randn(2, 4, 4, 8, generator=torch.Generator().manual_seed(1))
    np.save(tmp_path / "l.npy", latents.double().numpy())
    media = run(
        runner_of("stable_diffusion"), planned(seeds=(5, 6), prompt="x", latents=str(tmp_path / "l.npy"), **SIZE)
    )[0]
    outputs = levels(media)
    for seed, output, one in zip((5, 6), outputs, latents, strict=True):
        expected = reference(plain_of("stable_diffusion"), seed, prompt="x", latents=one[None], **SIZE)
        np.testing.assert_array_equal(output[None], expected)
    assert (outputs[0] != outputs[1]).any()


def test_an_error_of_the_pipeline_lists_the_shapes_of_the_requests_tensors(
    runner_of: Callable[..., Any], tmp_path: Path
) -> None:
    tensors = {"prompt_embeds": torch.zeros(1, 4, 7), "pooled_prompt_embeds": torch.zeros(1, 32)}
    save_file(tensors, tmp_path / "e.safetensors")
    with pytest.raises(ForwardError) as caught:
        run(runner_of("flux"), planned(prompt_embeds=str(tmp_path / "e.safetensors"), **SIZE))
    shapes = "input tensors: pooled_prompt_embeds float32 [1, 32], prompt_embeds float32 [1, 4, 7]"
    assert shapes in str(caught.value)
    save_file({"generator": torch.zeros(1, 4)}, tmp_path / "g.safetensors")
    with pytest.raises(ForwardError, match=r"takes no prompt_embeds\.generator"):
        run(runner_of("flux"), planned(prompt_embeds=str(tmp_path / "g.safetensors"), **SIZE))


def test_inputs_of_queued_requests_are_decoded_during_the_forward_pass(
    tiny_model: Callable[[str], Path], inputs: Path
) -> None:
    """The steps of `a` wait until the inputs of `b` and `bad` have been read; the error of `bad` fails `bad` alone."""
    decoded: dict[str, threading.Event] = {name: threading.Event() for name in ("a.png", "b.png", "bad.png")}
    threads: dict[str, str] = {}

    def reading(file: InputFile, frames: int | None) -> Any:
        name = Path(file.path).name
        threads[name] = threading.current_thread().name
        try:
            return read_input(file, frames)
        finally:
            decoded[name].set()

    (inputs / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n, and then nothing")
    runner = load(str(tiny_model("flux_img2img")))
    runner._inputs = InputPrefetcher(reading)
    fields = {"prompt": "x", "strength": 0.5, **SIZE}
    requests = {name: planned(image=str(inputs / f"{name}.png"), **fields) for name in ("a", "bad", "b")}
    for request in requests.values():
        runner.prefetch([request])

    def step(step: int, total: int) -> None:
        assert decoded["bad.png"].wait(PATIENCE_S)
        assert decoded["b.png"].wait(PATIENCE_S)

    medias = {"a": runner.execute_model([requests["a"]], step, lambda: False)}
    runner.discard([requests["a"]])
    with pytest.raises(InputUnreadable, match=r"^image '.*bad\.png': this is no image file"):
        run(runner, requests["bad"])
    runner.discard([requests["bad"]])
    medias["b"] = run(runner, requests["b"])
    assert threads["b.png"] == threads["bad.png"] == "inputs"
    assert (levels(medias["a"][0]) != levels(medias["b"][0])).any()
    runner.close()


def test_close_ends_the_inputs_thread(inputs: Path) -> None:
    others = set(threading.enumerate())
    runner = DiffusersRunner()
    runner.prefetch([planned(image=str(inputs / "a.png"))])
    threads = set(threading.enumerate()) - others
    assert [thread.name for thread in threads] == ["inputs"]
    runner.close()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
