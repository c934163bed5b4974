"""Input files are read as upright 8-bit images, and errors name the field and the file."""

import subprocess
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import imageio_ffmpeg
import numpy as np
import pytest
import torch
from diffusers.utils import load_image
from PIL import Image
from safetensors.torch import save_file

from omni_cli.errors import InputUnreadable
from omni_cli.inputs import InputFile, InputKind
from omni_cli.worker.pipeline import input_loading
from omni_cli.worker.pipeline.input_loading import read_input

RED, BLUE = (255, 0, 0), (0, 0, 255)


def read(path: Path | str, kind: str = "image", frames: int | None = None, field: str = "image") -> Any:
    return read_input(InputFile(field, str(path), InputKind(kind)), frames)


def encode(path: Path, levels: tuple[int, ...] = (10, 120, 250), codec: str = "ffv1") -> None:
    """Write a clip of 16x8 frames, each of one grey level."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=Fraction(8))
        stream.width, stream.height, stream.pix_fmt = 16, 8, "bgr0" if codec == "ffv1" else "yuv420p"
        for level in levels:
            frame = av.VideoFrame.from_ndarray(np.full((8, 16, 3), level, np.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def test_an_image_is_turned_upright_and_converted_to_rgb(tmp_path: Path) -> None:
    stored = Image.new("RGB", (4, 2), RED)
    stored.paste(BLUE, (0, 0, 2, 2))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the file must be turned clockwise
    stored.save(tmp_path / "in.png", exif=exif)
    image = read(tmp_path / "in.png")
    assert (image.mode, image.size) == ("RGB", (2, 4))
    assert image.getpixel((0, 0)) == BLUE
    assert image.getpixel((0, 3)) == RED


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "1", "RGB", "CMYK", "PA"])
def test_images_equal_those_of_load_image(mode: str, tmp_path: Path) -> None:
    """Alpha is dropped and not composited, as in diffusers' own examples."""
    rng = np.random.default_rng(0)
    source = Image.fromarray(rng.integers(0, 256, (9, 7, 4), np.uint8), "RGBA").convert(
        "RGB" if mode == "CMYK" else "RGBA"
    )
    picture = (
        source.convert("L").convert("LA")
        if mode == "LA"
        else source.convert("P").convert("PA")
        if mode == "PA"
        else source.convert(mode)
    )
    path = tmp_path / ("in.jpg" if mode == "CMYK" else "in.tif" if mode == "PA" else "in.png")
    picture.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Pillow's advice on palettes with transparency
        expected = load_image(str(path))
    assert (read(path).mode, read(path).tobytes()) == ("RGB", expected.tobytes())
    assert read(path, "mask").mode == "L"


def test_16_bit_grey_is_scaled_and_not_clipped(tmp_path: Path) -> None:
    levels = np.array([[0, 255, 256, 32768, 65535]], np.uint16)
    Image.fromarray(levels).save(tmp_path / "in.png")
    Image.fromarray(levels.astype(np.int32), "I").save(tmp_path / "in.tif")
    for name in ("in.png", "in.tif"):
        assert [pixel[0] for pixel in np.asarray(read(tmp_path / name))[0]] == [0, 0, 1, 128, 255]
        assert np.asarray(read(tmp_path / name, "mask")).tolist() == [[0, 0, 1, 128, 255]]
    Image.fromarray(np.ones((2, 2), np.float32), "F").save(tmp_path / "float.tif")
    with pytest.raises(InputUnreadable, match="save it with 8 or 16 bits"):
        read(tmp_path / "float.tif")


def test_a_mask_is_grey_levels(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2), (255, 255, 255)).save(tmp_path / "m.png")
    mask = read(tmp_path / "m.png", "mask")
    assert (mask.mode, mask.getpixel((0, 0))) == ("L", 255)


def test_a_clip_has_all_its_frames_or_the_first_few(tmp_path: Path) -> None:
    encode(tmp_path / "in.mkv")
    frames = read(tmp_path / "in.mkv", "video")
    assert [frame.getpixel((3, 3)) for frame in frames] == [(v, v, v) for v in (10, 120, 250)]
    assert frames[0].size == (16, 8)
    assert len(read(tmp_path / "in.mkv", "video", frames=2)) == 2
    masks = read(tmp_path / "in.mkv", "mask", frames=2)
    assert [(mask.mode, mask.getpixel((3, 3))) for mask in masks] == [("L", 10), ("L", 120)]


@pytest.mark.parametrize(("rotation", "size"), [(90, (8, 16)), (180, (16, 8)), (270, (8, 16))])
def test_a_rotated_clip_is_turned_upright(rotation: int, size: tuple[int, int], tmp_path: Path) -> None:
    with av.open(str(tmp_path / "in.mp4"), "w") as container:
        stream: Any = container.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt = 16, 8, "yuv420p"
        levels = np.repeat(np.array([[[250] * 8 + [10] * 8]], np.uint8).reshape(1, 16), 8, axis=0)
        frame = av.VideoFrame.from_ndarray(np.repeat(levels[..., None], 3, axis=2), "rgb24")
        container.mux([*stream.encode(frame), *stream.encode(None)])
    rotated = tmp_path / "rotated.mp4"
    ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-display_rotation", str(rotation)]
    subprocess.run([*ffmpeg, "-i", tmp_path / "in.mp4", "-c", "copy", rotated], check=True)
    subprocess.run([*ffmpeg[:3], "-i", rotated, tmp_path / "upright.png"], check=True)
    (picture,) = read(rotated, "video")
    assert picture.size == size
    assert picture.tobytes() == Image.open(tmp_path / "upright.png").convert("RGB").tobytes()


def test_an_animation_and_a_folder_of_frames_are_clips(tmp_path: Path) -> None:
    pictures = [Image.new("RGB", (4, 2), (level, 0, 0)) for level in (0, 100, 200)]
    for name in ("in.gif", "in.webp", "in.png"):
        lossless = {"lossless": True} if name == "in.webp" else {}
        pictures[0].save(tmp_path / name, save_all=True, append_images=pictures[1:], **lossless)
    (tmp_path / "frames").mkdir()
    for index, picture in enumerate(pictures):
        picture.save(tmp_path / "frames" / f"{index + 8}.png")
    for name in ("in.gif", "in.webp", "in.png", "frames"):
        assert [frame.getpixel((0, 0)) for frame in read(tmp_path / name, "video")] == [
            (level, 0, 0) for level in (0, 100, 200)
        ], name
    pictures[0].resize((8, 8)).save(tmp_path / "frames" / "99.png")
    with pytest.raises(InputUnreadable, match="frame 3 is 8x8 and the first is 4x2"):
        read(tmp_path / "frames", "video")


def test_a_clip_above_the_byte_limit_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_loading, "MAX_CLIP_BYTES", 2 * 16 * 8 * 3)
    encode(tmp_path / "in.mkv")
    with pytest.raises(InputUnreadable, match="cut the clip, or give num_frames"):
        read(tmp_path / "in.mkv", "video")
    assert len(read(tmp_path / "in.mkv", "video", frames=2)) == 2


def test_a_decompression_bomb_is_rejected_by_its_header(tmp_path: Path) -> None:
    (tmp_path / "bomb.pgm").write_bytes(b"P5 20000 20000 255\n")
    with pytest.raises(InputUnreadable, match="more than 178956970 pixels"):
        read(tmp_path / "bomb.pgm")


def test_tensors_are_read_with_their_names_and_types(tmp_path: Path) -> None:
    tensors = {
        "prompt_embeds": torch.rand(1, 4, 8, dtype=torch.bfloat16),
        "prompt_attention_mask": torch.ones(1, 4).long(),
    }
    save_file(tensors, tmp_path / "a.safetensors")
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32).reshape(1, 2, 3))
    tensors_read = read(tmp_path / "a.safetensors", "tensors")
    assert {name: (tensor.dtype, torch.equal(tensor, tensors[name])) for name, tensor in tensors_read.items()} == {
        "prompt_embeds": (torch.bfloat16, True),
        "prompt_attention_mask": (torch.int64, True),
    }
    assert read(tmp_path / "a.npy", "tensor").tolist() == [[[0, 1, 2], [3, 4, 5]]]
    named = read_input(InputFile("extra", str(tmp_path / "a.safetensors"), InputKind.TENSOR, "prompt_attention_mask"))
    assert named.tolist() == [[1, 1, 1, 1]]
    with pytest.raises(InputUnreadable, match="holds 2 tensors and none is named latents"):
        read(tmp_path / "a.safetensors", "tensor", field="latents")
    np.save(tmp_path / "code.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(InputUnreadable, match="pickle"):
        read(tmp_path / "code.npy", "tensor")


@pytest.mark.parametrize("kind", ["image", "mask", "video", "tensor", "tensors"])
def test_an_unusable_file_is_named_with_its_field(kind: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"\x00not media at all\xff" * 10)
    for path in (tmp_path / "none.safetensors", bad):
        with pytest.raises(InputUnreadable, match=r"read|no such file") as caught:
            read(path, kind, field="last_image")
        assert str(caught.value).startswith(f"last_image {str(path)!r}: ")


def test_a_truncated_picture_is_an_error(tmp_path: Path) -> None:
    Image.effect_noise((64, 64), 50).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:1000])
    with pytest.raises(InputUnreadable, match="cannot be read"):
        read(tmp_path / "half.png")


def test_an_audio_file_is_not_a_video(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        frame.rate = 8000
        container.mux(stream.encode(frame))
    with pytest.raises(InputUnreadable, match="no video stream"):
        read(path, "video")
