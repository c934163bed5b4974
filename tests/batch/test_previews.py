"""Previews on disk: there while a request is at work, whole at every moment, gone with its output, and never in the way."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from omni_cli.batch import Previews
from omni_cli.batch import previews as previews_module
from omni_cli.config import OutputConfig
from omni_cli.events import AnyEvent, Note, PreviewWritten
from omni_cli.executor.protocol import Preview
from omni_cli.request import GenerationRequest, PlannedRequest
from tests.batch.conftest import PATIENCE_S


def planned(id_: str, *files: str, size: tuple[int, int] = (64, 32)) -> PlannedRequest:
    request = GenerationRequest(id=id_, width=size[0], height=size[1])
    return PlannedRequest(request=request, index=0, seeds=(1,), files=files or (f"{id_}.mp4",), fingerprint="")


def picture(id_: str, level: int = 200, step: int = 1) -> Preview:
    return Preview(id_, step, 8, width=8, height=4, pixels=bytes([level, 10, 20]) * 32)


class Seen:
    """An observer that can be waited for."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []
        self._changed = threading.Condition()

    def __call__(self, event: AnyEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, count: int, kind: type[AnyEvent] = PreviewWritten) -> list[AnyEvent]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._of(kind)) >= count, PATIENCE_S)
            return self._of(kind)

    def _of(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def previews(tmp_path: Path, seen: Seen) -> Iterator[Previews]:
    with Previews(OutputConfig(output_dir=str(tmp_path)), seen) as previews:
        yield previews


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_preview_lies_beside_its_output_in_the_outputs_shape_and_goes_with_the_request(
    previews: Previews, seen: Seen, tmp_path: Path
) -> None:
    request = planned("a", "deep/a-0.png", "deep/a-1.png")
    previews.open([request])
    previews.take(picture("a", step=3))
    (event,) = seen.wait(1)
    assert isinstance(event, PreviewWritten)
    assert (event.id, event.path, event.step, event.total) == ("a", "deep/a-0.preview.png", 3, 8)
    with Image.open(tmp_path / event.path) as image:
        assert image.size == (64, 32)
        assert np.asarray(image)[5, 5].tolist() == [200, 10, 20]
    assert names(tmp_path) == ["deep/a-0.preview.png"]
    previews.close(request)
    assert names(tmp_path) == []


def test_a_large_output_has_a_preview_of_bounded_size(previews: Previews, seen: Seen, tmp_path: Path) -> None:
    previews.open([planned("a", size=(2048, 1024))])
    previews.take(picture("a"))
    seen.wait(1)
    with Image.open(tmp_path / "a.preview.png") as image:
        assert image.size == (384, 192)


def test_a_later_preview_replaces_the_file_in_one_go(previews: Previews, seen: Seen, tmp_path: Path) -> None:
    previews.open([planned("a")])
    previews.take(picture("a", level=10))
    seen.wait(1)
    path = tmp_path / "a.preview.png"
    with path.open("rb") as reader:  # whoever looks at the old one sees all of it
        previews.take(picture("a", level=250))
        seen.wait(2)
        with Image.open(reader) as old, Image.open(path) as new:
            assert (np.asarray(old)[0, 0, 0], np.asarray(new)[0, 0, 0]) == (10, 250)


def test_only_the_latest_of_those_that_wait_is_written(tmp_path: Path) -> None:
    entered, go = threading.Event(), threading.Event()
    written: list[int] = []

    def observe(event: AnyEvent) -> None:
        assert isinstance(event, PreviewWritten)
        written.append(event.step)
        entered.set()
        assert go.wait(PATIENCE_S)

    with Previews(OutputConfig(output_dir=str(tmp_path)), observe) as previews:
        previews.open([planned("a")])
        previews.take(picture("a", step=1))
        assert entered.wait(PATIENCE_S)
        for step in (2, 3, 4):
            previews.take(picture("a", step=step))
        go.set()
        done = previews._thread.submit(lambda: None)
        done.result(PATIENCE_S)
    assert written == [1, 4]


def test_a_preview_that_comes_after_the_end_does_not_appear(previews: Previews, seen: Seen, tmp_path: Path) -> None:
    request = planned("a")
    previews.open([request])
    previews.close(request)
    previews.take(picture("a"))
    previews.take(picture("stranger"))
    previews.open([planned("b")])
    previews.take(picture("b"))
    seen.wait(1)
    assert names(tmp_path) == ["b.preview.png"]


def test_a_request_that_ends_while_its_preview_is_encoded_leaves_none(
    previews: Previews, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, encode = planned("a"), previews_module._encode

    def encode_and_end(*args: Any) -> None:
        encode(*args)
        previews.close(request)

    monkeypatch.setattr(previews_module, "_encode", encode_and_end)
    previews.open([request])
    previews.take(picture("a"))
    previews._thread.submit(lambda: None).result(PATIENCE_S)
    assert names(tmp_path) == []
    assert seen.events == []


def test_previews_that_are_to_be_kept_stay(tmp_path: Path, seen: Seen) -> None:
    request = planned("a")
    with Previews(OutputConfig(output_dir=str(tmp_path), keep_previews=True), seen) as previews:
        previews.open([request])
        previews.take(picture("a"))
        seen.wait(1)
        previews.close(request)
    assert names(tmp_path) == ["a.preview.png"]


def test_what_a_run_that_is_cut_off_leaves_open_goes_too(tmp_path: Path, seen: Seen) -> None:
    with Previews(OutputConfig(output_dir=str(tmp_path)), seen) as previews:
        previews.open([planned("a")])
        previews.take(picture("a"))
        seen.wait(1)
    assert names(tmp_path) == []
    previews.take(picture("a"))  # too late, and no harm


@pytest.mark.parametrize("link", [False, True])
def test_a_file_that_is_no_preview_is_neither_replaced_nor_removed(
    previews: Previews, seen: Seen, tmp_path: Path, link: bool
) -> None:
    path, elsewhere = tmp_path / "a.preview.png", tmp_path / "mine.png"
    elsewhere.write_bytes(b"mine")
    if link:
        path.symlink_to(elsewhere)
    else:
        path.write_bytes(b"mine")
    request = planned("a")
    previews.open([request])
    previews.take(picture("a"))
    (note,) = seen.wait(1, Note)
    assert isinstance(note, Note)
    assert "a preview was not written" in note.text
    previews.close(request)
    assert (path.read_bytes(), elsewhere.read_bytes(), path.is_symlink()) == (b"mine", b"mine", link)


def test_an_output_that_takes_the_name_of_a_preview_is_not_removed_with_it(
    previews: Previews, seen: Seen, tmp_path: Path
) -> None:
    request = planned("a")
    previews.open([request])
    previews.take(picture("a"))
    seen.wait(1)
    (tmp_path / "a.preview.png").write_bytes(b"another request's output")
    previews.close(request)
    assert (tmp_path / "a.preview.png").read_bytes() == b"another request's output"


def test_two_requests_with_one_stem_do_not_share_a_preview(previews: Previews, seen: Seen, tmp_path: Path) -> None:
    first, second = planned("1", "a.png"), planned("2", "a.mp4")
    previews.open([first])
    previews.open([second])
    previews.take(picture("2"))
    previews.take(picture("1"))
    (event,) = seen.wait(1)
    assert isinstance(event, PreviewWritten)
    assert event.id == "1"
    previews.close(second)
    assert names(tmp_path) == ["a.preview.png"]


def test_what_goes_wrong_is_told_once(previews: Previews, seen: Seen, tmp_path: Path) -> None:
    (tmp_path / "in-the-way").write_bytes(b"")
    previews.open([planned("a", "in-the-way/a.png"), planned("b", "../b.png"), planned("c")])
    previews.take(picture("a"))
    previews.take(picture("b"))
    previews.take(Preview("c", 1, 8, width=8, height=8, pixels=b"short"))
    previews.take(Preview("c", 1, 8, fault="ValueError: no"))
    previews._thread.submit(lambda: None).result(PATIENCE_S)
    assert len(seen.wait(1, Note)) == 1
    assert names(tmp_path) == ["in-the-way"]
    assert not (tmp_path.parent / "b.preview.png").exists()
