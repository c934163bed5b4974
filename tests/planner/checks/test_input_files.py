"""Checks of input files."""

import os

import av
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from omni_cli.request import Adapter


@pytest.fixture
def check(planner, ask, card, tmp_path):
    """check(image=...) gives the messages of the problems, for a card that takes every input."""
    one = planner(card=type(card)(pipeline="X", kind=card.kind, defaults=card.defaults))

    def messages(**fields) -> list[str]:
        return [
            f"{p.field}: {p.cause}".replace(str(tmp_path), "HERE")
            for p in one.check(ask(id=os.urandom(9).hex(), **fields))
        ]

    return messages


def clip(path, width=16, height=8, rate=8, frames=2):
    """Write a clip of black frames."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for _ in range(frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((height, width, 3), np.uint8), "rgb24")))
        container.mux(stream.encode(None))


@pytest.fixture
def picture(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "ok.png")
    return tmp_path / "ok.png"


def test_readable_pictures_pass(check, picture):
    assert check(image="ok.png", last_image=str(picture), mask="./ok.png") == []
    assert check(image=["ok.png", "ok.png"]) == []


def test_each_faulty_picture_is_named(check, picture, tmp_path):
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "empty.png").touch()
    (tmp_path / "cut.png").write_bytes(picture.read_bytes()[:12])
    os.mkfifo(tmp_path / "pipe.png")
    assert check(image=["ok.png", "none.png", "text.png"], last_image="empty.png", mask="pipe.png") == [
        'image: "HERE/none.png" cannot be read: No such file or directory',
        'image: "HERE/text.png" is not an image that Pillow can read',
        'last_image: "HERE/empty.png" is empty',
        'mask: "HERE/pipe.png" is a device, pipe or socket, not a file',
    ]
    assert check(image=".") == ['image: "HERE" is a folder']
    assert check(image="/dev/zero") == ['image: "/dev/zero" is a device, pipe or socket, not a file']
    assert check(image="https://example.com/a.png") == [
        'image: "https://example.com/a.png" is a URL; download it first'
    ]
    assert check(image="data:image/png;base64,AAAA") == [
        'image: "data:image/png;base64,AAAA" is a data URI; write it to a file'
    ]
    assert check(image="a\0b") == ['image: "HERE/a\\x00b" cannot be a path: a path holds no NUL character']
    assert len(check(image="cut.png")) == 1


def test_picture_is_checked_without_decoding_it(check, tmp_path):
    """A header that promises 20000 x 20000 pixels must not be decoded; past Pillow's limit it is an error."""
    for name, side in (("big.pgm", 10_000), ("bomb.pgm", 20_000)):
        (tmp_path / name).write_bytes(b"P5 %d %d 255\n" % (side, side))
    assert check(image="big.pgm") == []
    (message,) = check(image="bomb.pgm")
    assert "could be decompression bomb" in message


def test_unreadable_videos_are_problems(check, tmp_path):
    clip(tmp_path / "v.mp4")
    (tmp_path / "bad.mp4").write_bytes(b"anything")
    assert check(video="v.mp4") == []
    assert check(video="none.mp4") == ['video: "HERE/none.mp4" cannot be read: No such file or directory']
    assert check(video="bad.mp4") == [
        'video: "HERE/bad.mp4" cannot be read as a video: Invalid data found when processing input'
    ]


def test_clip_may_be_an_animation_or_a_folder_of_frames(check, picture, tmp_path):
    first, *rest = (Image.new("L", (4, 4), level) for level in (0, 100, 200))
    first.save(tmp_path / "a.gif", save_all=True, append_images=rest)
    (tmp_path / "frames").mkdir()
    (tmp_path / "none").mkdir()
    assert check(video="a.gif") == []
    assert check(video="none") == ['video: "HERE/none" is a folder without pictures']
    picture.rename(tmp_path / "frames" / "1.png")
    assert check(video="frames") == []


def test_tensor_files_are_checked_by_their_headers(check, tmp_path):
    save_file({"prompt_embeds": torch.zeros(1, 4, 8)}, tmp_path / "ok.safetensors")
    whole = (tmp_path / "ok.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-1])
    (tmp_path / "short.safetensors").write_bytes(whole[:20])
    (tmp_path / "junk.safetensors").write_bytes(b"\x08" + bytes(7) + b"no json!")
    (tmp_path / "a.pt").write_bytes(b"PK")
    np.save(tmp_path / "ok.npy", np.zeros((1, 4, 2, 2), np.float32))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "ok.npy").read_bytes()[:-1])
    np.save(tmp_path / "pickle.npy", np.array([{}], object), allow_pickle=True)
    assert check(prompt=None, prompt_embeds="ok.safetensors", latents="ok.npy") == []
    for name, words in {
        "cut.safetensors": "cannot be read as safetensors: Error while deserializing header: incomplete metadata",
        "short.safetensors": "cannot be read as safetensors: ",
        "junk.safetensors": "cannot be read as safetensors: Error while deserializing header: invalid JSON",
        "a.pt": "is neither a .safetensors nor a .npy file",
        "cut.npy": "cannot be read as .npy",
        "pickle.npy": "cannot be read as .npy",
    }.items():
        (message,) = check(latents=name)
        assert message.startswith(f'latents: "HERE/{name}" {words}')


def test_files_in_extra_are_checked(check, picture):
    assert check(extra={"control_image": {"image": "ok.png"}, "mask_image": [{"mask": "ok.png"}]}) == []
    assert check(extra={"control_image": {"image": "none.png"}}) == [
        'extra: control_image: "HERE/none.png" cannot be read: No such file or directory'
    ]


def test_lora_file_is_checked_and_a_hub_id_is_not(check, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.safetensors").write_bytes(b"weights")
    assert check(lora=[Adapter(path="folder"), Adapter(path="file.safetensors"), Adapter(path="user/on-hub")]) == []
    assert check(lora=[Adapter(path="gone.safetensors")]) == [
        'lora: "HERE/gone.safetensors" cannot be read: No such file or directory'
    ]
