"""Input files: upright RGB, and errors that name the field and the file."""

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from omni_cli.errors import ForwardError
from omni_cli.worker.inputs import read_image, read_mask, read_video

RED, BLUE = (255, 0, 0), (0, 0, 255)


def test_a_picture_is_turned_upright_and_rgb(tmp_path: Path) -> None:
    stored = Image.new("RGB", (4, 2), RED)
    stored.paste(BLUE, (0, 0, 2, 2))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the top of the scene is the left of the file turned clockwise
    stored.save(tmp_path / "in.png", exif=exif)
    image = read_image(str(tmp_path / "in.png"), "image")
    assert (image.mode, image.size) == ("RGB", (2, 4))
    assert image.getpixel((0, 0)) == BLUE
    assert image.getpixel((0, 3)) == RED


def test_grey_palette_and_alpha_become_rgb(tmp_path: Path) -> None:
    for mode in ("L", "P", "RGBA", "LA", "1"):
        Image.new(mode, (2, 2)).save(tmp_path / f"{mode}.png")
        assert read_image(str(tmp_path / f"{mode}.png"), "image").mode == "RGB"


def test_a_mask_is_grey_levels(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2), (255, 255, 255)).save(tmp_path / "m.png")
    mask = read_mask(str(tmp_path / "m.png"), "mask")
    assert (mask.mode, mask.getpixel((0, 0))) == ("L", 255)


def test_a_clip_is_all_its_frames_in_order(tmp_path: Path) -> None:
    path = tmp_path / "in.mkv"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=8)
        stream.width, stream.height, stream.pix_fmt = 16, 8, "bgr0"
        for level in (10, 120, 250):
            frame = av.VideoFrame.from_ndarray(np.full((8, 16, 3), level, np.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    frames = read_video(str(path), "video")
    assert [frame.getpixel((3, 3)) for frame in frames] == [(v, v, v) for v in (10, 120, 250)]
    assert frames[0].size == (16, 8)


@pytest.mark.parametrize(("read", "field"), [(read_image, "last_image"), (read_mask, "mask"), (read_video, "video")])
def test_an_unusable_file_is_named_with_its_field(read: Any, field: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.bin"
    bad.write_bytes(b"\x00not media at all\xff" * 10)
    for path, words in ((tmp_path / "none.png", "no such file"), (tmp_path, "no such file"), (bad, "read")):
        with pytest.raises(ForwardError, match=words) as caught:
            read(str(path), field)
        assert str(caught.value).startswith(f"{field} {str(path)!r}: ")


def test_a_truncated_picture_is_an_error(tmp_path: Path) -> None:
    Image.effect_noise((64, 64), 50).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:1000])
    with pytest.raises(ForwardError, match="cannot be read"):
        read_image(str(tmp_path / "half.png"), "image")


def test_a_sound_file_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        frame.rate = 8000
        container.mux(stream.encode(frame))
    with pytest.raises(ForwardError, match="no video stream"):
        read_video(str(path), "video")
