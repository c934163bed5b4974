"""Input files before anything runs."""

import os

import pytest
from PIL import Image

from omni_cli.request import Adapter


@pytest.fixture
def check(planner, ask, card, tmp_path):
    """check(image=...) gives the messages of the problems, for a card that takes every input."""
    one = planner(card=type(card)(pipeline="X", kind=card.kind, defaults=card.defaults))

    def messages(**fields) -> list[str]:
        return [
            f"{p.field}: {p.message}".replace(str(tmp_path), "HERE")
            for p in one.check(ask(id=os.urandom(9).hex(), **fields))
        ]

    return messages


@pytest.fixture
def picture(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "ok.png")
    return tmp_path / "ok.png"


def test_pictures_that_open_are_fine_relative_to_the_prompt_file(check, picture):
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
    assert check(image="a\0b") == ['image: "HERE/a\\x00b" cannot be a path: embedded null byte']
    assert len(check(image="cut.png")) == 1


def test_a_picture_is_judged_by_its_header_alone(check, tmp_path):
    """A header that promises 20000 x 20000 pixels must not be decoded; past Pillow's limit it is an error."""
    for name, side in (("big.pgm", 10_000), ("bomb.pgm", 20_000)):
        (tmp_path / name).write_bytes(b"P5 %d %d 255\n" % (side, side))
    assert check(image="big.pgm") == []
    (message,) = check(image="bomb.pgm")
    assert "could be decompression bomb" in message


def test_videos_are_looked_at_as_files(check, tmp_path):
    (tmp_path / "v.mp4").write_bytes(b"anything")
    assert check(video="v.mp4") == []
    assert check(video="none.mp4") == ['video: "HERE/none.mp4" cannot be read: No such file or directory']


def test_a_lora_is_a_file_a_folder_or_the_hubs_business(check, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.safetensors").write_bytes(b"weights")
    assert check(lora=[Adapter(path="folder"), Adapter(path="file.safetensors"), Adapter(path="user/on-hub")]) == []
    assert check(lora=[Adapter(path="gone.safetensors")]) == [
        'lora: "HERE/gone.safetensors" cannot be read: No such file or directory'
    ]
