"""Metadata in files: the parameters text, the JSON document, and where each format keeps them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image

from omni_cli.request import Adapter, GenerationRequest, InputRecord, ModelInfo, Provenance
from omni_cli.writers.metadata import Metadata, truncate
from omni_cli.writers.samples import Frames
from tests.writers.conftest import two_samples

PROMPTS = {
    "emoji": "🎈👩‍👩‍👧 a balloon",
    "right to left": "בלון אדום \u202eabc",
    "control": "bell\x07 esc\x1b[31m tab\t line\r\nend\x7f",
    "markup": "[red]x[/red] <lora:a:1> ; # = \\ 100% 'q' \"q\"",
    "latin": "crème brûlée",
    "long": "word " * 20_000,
}


def user_comment(path: Path) -> str:
    with Image.open(path) as image:
        comment = image.getexif().get_ifd(0x8769)[0x9286]
    assert comment[:8] == b"UNICODE\0"
    return comment[8:].decode("utf-16-be")


def test_parameters_text_has_the_form_that_other_tools_read(metadata: Callable[..., Metadata]) -> None:
    built = metadata(negative_prompt="blur", num_inference_steps=20, guidance_scale=5.0, fps=16.0, num_frames=9)
    first, second, last = built.parameters().split("\n")
    assert (first, second) == ("a red ball", "Negative prompt: blur")
    assert last.startswith("Steps: 20, CFG scale: 5, Seed: 7, Size: 64x48, Frames: 9, FPS: 16, Model: ")
    assert 'Model: "org/model: v1", Version: omni-gen ' in last


def test_document_has_the_request_of_this_one_sample(model: ModelInfo) -> None:
    document = json.loads(Metadata.of(two_samples(), model, 1).document)
    request = msgspec.convert(document["request"], GenerationRequest)
    assert (request.seed, request.num_outputs, request.prompt) == (11, 1, "a red ball")
    assert document["fingerprint"] == "f00d"
    assert document["model"] == {
        "id": "org/model: v1", "revision": "abc", "pipeline": "WanPipeline", "dtype": "bfloat16",
    }  # fmt: skip


def test_metadata_do_not_depend_on_names_and_places(model: ModelInfo) -> None:
    def texts(folder: str, offload: str, **names: Any) -> tuple[str, str]:
        planned = two_samples(
            image=f"{folder}/a.png",
            lora=[Adapter(path=f"{folder}/style"), Adapter(path="owner/style")],
            extra={"control_image": {"image": f"{folder}/b.png"}, "others": [{"mask": f"{folder}/c.png"}]},
        )
        records = tuple(InputRecord(field="image", name=name, sha256="0f", bytes=3) for name in ("a.png", "b.png"))
        request = msgspec.structs.replace(planned.request, **names)
        planned = msgspec.structs.replace(planned, request=request, inputs=records)
        tuning = {"components": {"vae": f"{folder}/v.gguf"}, "offload": offload}
        local = msgspec.structs.replace(model, id=f"{folder}/m")
        built = Metadata.of(planned, local, 1, Provenance(model=f"{folder}/m", tuning=tuning))
        return built.document, built.parameters()

    document, parameters = texts("/home/me/private", "model", id="one", output="x.png", model="/home/me/m")
    assert (document, parameters) == texts("/elsewhere", "none", id="two")
    assert "/home" not in document + parameters
    assert "Model: m," in parameters
    read = json.loads(document)
    assert [adapter["path"] for adapter in read["request"]["lora"]] == ["style", "owner/style"]
    assert read["request"]["extra"] == {"control_image": {"image": "b.png"}, "others": [{"mask": "c.png"}]}
    assert read["inputs"][0] == {"field": "image", "name": "a.png", "sha256": "0f", "bytes": 3}
    assert (read["model"]["id"], read["model"]["local"]) == ("m", True)
    assert read["made"]["tuning"] == {"components": {"vae": "v.gguf"}}


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_png_keeps_any_prompt(
    still: Callable[..., Frames], metadata: Callable[..., Metadata], written: Callable[..., Path], prompt: str
) -> None:
    with Image.open(written(still(), "png", metadata(prompt=prompt))) as image:
        image.load()
    assert image.info["parameters"].startswith(prompt + "\n")
    assert "\nSeed: 7, Size: 64x48, " in image.info["parameters"]
    assert json.loads(image.info["omni_gen"])["request"]["prompt"] == prompt


@pytest.mark.parametrize("form", ["jpeg", "webp"])
@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_exif_keeps_the_prompt_or_says_where_it_was_cut(
    still: Callable[..., Frames],
    metadata: Callable[..., Metadata],
    written: Callable[..., Path],
    form: str,
    prompt: str,
) -> None:
    text = user_comment(written(still(), form, metadata(prompt=prompt)))
    head, settings = text.rsplit("\n", 1)
    assert settings.startswith("Seed: 7, Size: 64x48, Model: ")
    if len(prompt) < 1000:
        assert head == prompt
    else:
        assert head.startswith(prompt[:30_000])
        assert head.endswith("… [cut: 100000 characters do not fit here]")


@pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])
@pytest.mark.parametrize("form", ["mp4", "webm"])
def test_video_containers_keep_any_prompt(
    clip: Callable[..., Frames],
    metadata: Callable[..., Metadata],
    written: Callable[..., Path],
    decode: Callable,
    form: str,
    encoder: str,
) -> None:
    prompt = "".join(PROMPTS.values()) + "\0"
    comment = decode(written(clip(), form, metadata(prompt=prompt), encoder=encoder)).comment
    assert json.loads(comment)["request"]["prompt"] == prompt


@pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])
def test_gif_keeps_any_prompt_in_ascii_and_still_plays(
    clip: Callable[..., Frames], metadata: Callable[..., Metadata], written: Callable[..., Path], encoder: str
) -> None:
    prompt = "".join(PROMPTS.values())
    with Image.open(written(clip(), "gif", metadata(prompt=prompt), encoder=encoder)) as image:
        assert json.loads(image.info["comment"].decode("ascii"))["request"]["prompt"] == prompt
        assert (image.n_frames, image.info["loop"]) == (5, 0)


@pytest.mark.parametrize("form", ["png", "jpeg", "webp"])
def test_image_without_metadata_has_no_text(
    still: Callable[..., Frames], written: Callable[..., Path], form: str
) -> None:
    with Image.open(written(still(), form, None)) as image:
        image.load()
    assert not {"parameters", "omni_gen", "exif"} & set(image.info)


@pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])
@pytest.mark.parametrize("form", ["mp4", "webm", "gif"])
def test_video_without_metadata_has_no_text(
    clip: Callable[..., Frames], written: Callable[..., Path], decode: Callable, form: str, encoder: str
) -> None:
    path = written(clip(), form, None, encoder=encoder)
    assert decode(path).comment is None
    assert b"omni-gen" not in path.read_bytes()


def test_lone_surrogate_is_kept_in_the_document_and_replaced_in_the_text(metadata: Callable[..., Metadata]) -> None:
    built = metadata(prompt="a\ud800b")
    assert json.loads(built.document)["request"]["prompt"] == "a\ud800b"
    assert built.parameters().startswith("a?b\n")
    built.document.encode()


def test_nul_is_replaced_in_the_text_and_kept_in_the_document(metadata: Callable[..., Metadata]) -> None:
    built = metadata(prompt="a\0b")
    assert built.parameters().startswith("a␀b\n")
    assert json.loads(built.document)["request"]["prompt"] == "a\0b"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-be"])
@pytest.mark.parametrize("limit", [0, 5, 60, 200, 333, 1001])
def test_text_is_cut_to_its_limit_between_characters(
    metadata: Callable[..., Metadata], limit: int, encoding: str
) -> None:
    text = metadata(prompt="🎈é" * 500).parameters(limit, encoding)
    assert len(text.encode(encoding)) <= limit
    assert limit < 333 or text.split("… [cut:")[0].strip("🎈é") == ""
    assert truncate("a🎈", 4, "utf-8") == "a"
