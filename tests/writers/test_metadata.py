import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from PIL import Image

from omni_cli.config import OutputConfig
from omni_cli.request import GenerationRequest, ModelInfo, PlannedRequest
from omni_cli.writers.finalize import Frames
from omni_cli.writers.metadata import Metadata, cut
from omni_cli.writers.write import write_output

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


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(frames: Frames, form: str, metadata: Metadata | None, **options: object) -> Path:
        settings = OutputConfig(**options)  # type: ignore[arg-type]
        name = f"x.{form}"
        write_output(frames, tmp_path / name, name=name, format=form, fps=8, options=settings, metadata=metadata)
        return tmp_path / name

    return write


def test_parameters_have_the_form_other_tools_read(metadata: Callable[..., Metadata]) -> None:
    made = metadata(negative_prompt="blur", num_inference_steps=20, guidance_scale=5.0, fps=16.0, num_frames=9)
    first, second, last = made.parameters().split("\n")
    assert (first, second) == ("a red ball", "Negative prompt: blur")
    assert last.startswith("Steps: 20, CFG scale: 5, Seed: 7, Size: 64x48, Frames: 9, FPS: 16, Model: ")
    assert 'Model: "org/model: v1", Version: omni-gen ' in last


def test_document_renders_this_one_sample_again(planned: Callable[..., PlannedRequest], model: ModelInfo) -> None:
    document = json.loads(Metadata.of(planned(), model, 1).document)
    request = msgspec.convert(document["request"], GenerationRequest)
    assert (request.seed, request.num_outputs, request.prompt) == (11, 1, "a red ball")
    assert (document["sample"], document["fingerprint"]) == (1, "f00d")
    assert document["model"]["revision"] == "abc"


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_png_gives_any_prompt_back(
    still: Callable[..., Frames], metadata: Callable[..., Metadata], written: Callable[..., Path], prompt: str
) -> None:
    with Image.open(written(still(), "png", metadata(prompt=prompt))) as image:
        image.load()
    assert image.info["parameters"].startswith(prompt + "\n")
    assert "\nSeed: 7, Size: 64x48, " in image.info["parameters"]
    assert json.loads(image.info["omni_gen"])["request"]["prompt"] == prompt


@pytest.mark.parametrize("form", ["jpeg", "webp"])
@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_exif_gives_the_prompt_back_or_says_where_it_was_cut(
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
def test_containers_give_any_prompt_back(
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
def test_gif_gives_any_prompt_back_in_ascii_and_still_plays(
    clip: Callable[..., Frames], metadata: Callable[..., Metadata], written: Callable[..., Path], encoder: str
) -> None:
    prompt = "".join(PROMPTS.values())
    with Image.open(written(clip(), "gif", metadata(prompt=prompt), encoder=encoder)) as image:
        assert json.loads(image.info["comment"].decode("ascii"))["request"]["prompt"] == prompt
        assert (image.n_frames, image.info["loop"]) == (5, 0)


@pytest.mark.parametrize("form", ["png", "jpeg", "webp"])
def test_images_without_metadata_say_nothing(
    still: Callable[..., Frames], written: Callable[..., Path], form: str
) -> None:
    with Image.open(written(still(), form, None)) as image:
        image.load()
    assert not {"parameters", "omni_gen", "exif"} & set(image.info)


@pytest.mark.parametrize("encoder", ["pyav", "ffmpeg"])
@pytest.mark.parametrize("form", ["mp4", "webm", "gif"])
def test_videos_without_metadata_say_nothing(
    clip: Callable[..., Frames], written: Callable[..., Path], decode: Callable, form: str, encoder: str
) -> None:
    path = written(clip(), form, None, encoder=encoder)
    assert decode(path).comment is None
    assert b"omni-gen" not in path.read_bytes()


def test_a_lone_surrogate_is_kept_in_the_document_and_replaced_in_the_text(metadata: Callable[..., Metadata]) -> None:
    made = metadata(prompt="a\ud800b")
    assert json.loads(made.document)["request"]["prompt"] == "a\ud800b"
    assert made.parameters().startswith("a?b\n")
    made.document.encode()


def test_nul_is_shown_in_the_text_and_kept_in_the_document(metadata: Callable[..., Metadata]) -> None:
    made = metadata(prompt="a\0b")
    assert made.parameters().startswith("a␀b\n")
    assert json.loads(made.document)["request"]["prompt"] == "a\0b"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-be"])
@pytest.mark.parametrize("limit", [0, 5, 60, 200, 333, 1001])
def test_a_cut_text_keeps_within_its_limit_and_no_character_is_split(
    metadata: Callable[..., Metadata], limit: int, encoding: str
) -> None:
    text = metadata(prompt="🎈é" * 500).parameters(limit, encoding)
    assert len(text.encode(encoding)) <= limit
    assert limit < 333 or text.split("… [cut:")[0].strip("🎈é") == ""
    assert cut("a🎈", 4, "utf-8") == "a"
