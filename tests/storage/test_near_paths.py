"""Input paths that nearly exist, and files that are not what their names say."""

import unicodedata
from pathlib import Path

import pytest
from PIL import Image

from omni_cli.errors import Diagnostic
from omni_cli.inputs import InputFile, InputKind
from omni_cli.planner.checks.input_files import input_fault
from omni_cli.storage.file_types import foreign_content
from omni_cli.storage.near_paths import near_miss


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with a few pictures."""
    for name in ("pictures/Upper.png", "pictures/photo.png", "frames/001.png", "Shots/a.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    Image.new("RGB", (4, 4)).save(tmp_path / "pictures" / unicodedata.normalize("NFD", "café.png"))
    Image.new("RGB", (4, 4)).save(tmp_path / "pictures" / unicodedata.normalize("NFC", "über.png"))
    return tmp_path


@pytest.mark.parametrize(
    ("path", "there", "why"),
    [
        ("pictures/upper.png", "pictures/Upper.png", "upper and lower case differ"),
        ("PICTURES/photo.PNG", "pictures/photo.png", "upper and lower case differ"),
        ("shots/A.jpg", "Shots/a.jpg", "upper and lower case differ"),
        ("pictures/caf\u00e9.png", "pictures/cafe\u0301.png", "its accents are composed differently"),
        ("pictures/u\u0308ber.png", "pictures/\u00fcber.png", "its accents are composed differently"),
        ("pictures/photo.png ", "pictures/photo.png", "a blank before or after the name differs"),
        ("pictures/ photo.png", "pictures/photo.png", "a blank before or after the name differs"),
        ("frames\\001.png", "frames/001.png", "folders are separated with /"),
        ("Pictures\\photo.png", "pictures/photo.png", "folders are separated with /, upper and lower case differ"),
    ],
)
def test_other_spelling_of_a_missing_path_is_named(here: Path, path: str, there: str, why: str) -> None:
    remedy = near_miss(str(here / path))
    assert remedy.startswith(f'there is "{here}/{there}": {why}')


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("C:\\Users\\me\\a.png", "it is a path of Windows; give the path that the file has on this machine"),
        ("d:/pics/a.png", "it is a path of Windows; give the path that the file has on this machine"),
        ("no\\such.png", "separate folders with /"),
        ("pictures/photo.jpg", 'there is "photo.png"'),
        ("pictures/foto.png", 'did you mean "photo.png"?'),
        ("pictures/other/photo.png", 'there is no "other" in "HERE/pictures"'),
        ("pictures/zzzzzz", ""),
        ("pictures/photo.png/x.png", ""),
    ],
)
def test_what_is_there_instead_is_said(here: Path, path: str, remedy: str) -> None:
    assert near_miss(str(here / path)).replace(str(here), "HERE") == remedy


def fault(path: Path, kind: InputKind = InputKind.IMAGE) -> str:
    """Return the fault of an input file as it is printed."""
    found = input_fault(InputFile("image", str(path), kind))
    assert isinstance(found, Diagnostic)
    return str(found)


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4665f5f4\nsize 99\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "is a HEIC picture; convert it to PNG or JPEG"),
        ("a.jpg", b"\0\0\0\x1cftypmif1\0\0\0\0", "is a HEIC picture; convert it to PNG or JPEG"),
        ("v.svg", b'<svg xmlns="http://www.w3.org/2000/svg"/>', "is an SVG drawing; convert it to PNG"),
        ("v.png", b'\xef\xbb\xbf<?xml version="1.0"?>\n<svg/>', "is an SVG drawing; convert it to PNG"),
        ("a.png", LFS, "is a git-lfs pointer, not the file itself; run `git lfs pull` where it was cloned"),
        (
            "a.png",
            b"\n <!DOCTYPE html><html>403",
            "is an HTML page, such as a server sends instead of a file",
        ),
        ("a.png", b"%PDF-1.7\n", "is a PDF document"),
        ("a.png", b"PK\x03\x04....", "is an archive; unpack it"),
        ("a.jxl", b"\xff\x0a....", "is a JPEG XL picture"),
        ("a.png", b"plain words", "is not an image that Pillow can read"),
    ],
)
def test_file_that_is_no_picture_is_named_for_what_it_is(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert fault(tmp_path / name).startswith(words)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.mp4", InputKind.VIDEO),
        ("a.gif", InputKind.VIDEO),
        ("a.safetensors", InputKind.TENSORS),
        ("a.npy", InputKind.TENSOR),
        ("style.safetensors", InputKind.LORA),
        ("m.png", InputKind.MASK),
    ],
)
def test_pointer_is_named_whatever_kind_of_input_it_stands_for(name: str, kind: InputKind, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(LFS)
    assert fault(tmp_path / name, kind).startswith("is a git-lfs pointer")


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_pictures_that_can_be_read_are_no_foreign_content(format_: str, tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a", format_)
    assert foreign_content((tmp_path / "a").read_bytes()[:512]) is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("file:///home/me/a.png", "is a URL; give the path alone, without file://"),
        ("https://example.com/a.png", "is a URL; download it first"),
    ],
)
def test_url_is_refused_with_what_to_do(path: str, words: str) -> None:
    found = input_fault(InputFile("image", path, InputKind.IMAGE))
    assert str(found) == words
