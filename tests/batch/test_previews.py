"""Preview files: complete at every moment, removed with their request, and never in the way of the run."""

import os
import subprocess
import sys
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
from omni_cli.executor.protocol import PreviewImage
from omni_cli.request import PlannedRequest
from tests.batch.conftest import PATIENCE_S
from tests.factories import planned

ROOT = Path(__file__).parent.parent.parent


def clip(id_: str, *files: str, width: int = 64, height: int = 32) -> PlannedRequest:
    return planned(id_, *files, width=width, height=height, format="mp4")


def picture(id_: str, level: int = 200, step: int = 1) -> PreviewImage:
    return PreviewImage(id_, step, 8, width=8, height=4, pixels=bytes([level, 10, 20]) * 32)


class EventLog:
    """An observer whose events a test can wait for."""

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
def event_log() -> EventLog:
    return EventLog()


@pytest.fixture
def previews(tmp_path: Path, event_log: EventLog) -> Iterator[Previews]:
    with Previews(OutputConfig(output_dir=str(tmp_path)), event_log) as previews:
        yield previews


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_preview_is_beside_its_output_and_is_removed_with_the_request(
    previews: Previews, event_log: EventLog, tmp_path: Path
) -> None:
    request = clip("a", "deep/a-0.png", "deep/a-1.png")
    previews.open([request])
    previews.submit(picture("a", step=3))
    (event,) = event_log.wait(1)
    assert isinstance(event, PreviewWritten)
    assert (event.id, event.path, event.step, event.total) == ("a", "deep/a-0.preview.png", 3, 8)
    with Image.open(tmp_path / event.path) as image:
        assert image.size == (64, 32)
        assert np.asarray(image)[5, 5].tolist() == [200, 10, 20]
    assert names(tmp_path) == ["deep/a-0.preview.png"]
    previews.close(request)
    assert names(tmp_path) == []


def test_a_large_output_has_a_preview_of_bounded_size(previews: Previews, event_log: EventLog, tmp_path: Path) -> None:
    previews.open([clip("a", width=2048, height=1024)])
    previews.submit(picture("a"))
    event_log.wait(1)
    with Image.open(tmp_path / "a.preview.png") as image:
        assert image.size == (384, 192)


def test_a_later_preview_replaces_the_file_atomically(previews: Previews, event_log: EventLog, tmp_path: Path) -> None:
    previews.open([clip("a")])
    previews.submit(picture("a", level=10))
    event_log.wait(1)
    path = tmp_path / "a.preview.png"
    with path.open("rb") as reader:  # an open reader still sees all of the old one
        previews.submit(picture("a", level=250))
        event_log.wait(2)
        with Image.open(reader) as old, Image.open(path) as new:
            assert (np.asarray(old)[0, 0, 0], np.asarray(new)[0, 0, 0]) == (10, 250)


def test_of_waiting_previews_only_the_latest_is_written(tmp_path: Path) -> None:
    entered, go = threading.Event(), threading.Event()
    written: list[int] = []

    def observe(event: AnyEvent) -> None:
        assert isinstance(event, PreviewWritten)
        written.append(event.step)
        entered.set()
        assert go.wait(PATIENCE_S)

    with Previews(OutputConfig(output_dir=str(tmp_path)), observe) as previews:
        previews.open([clip("a")])
        previews.submit(picture("a", step=1))
        assert entered.wait(PATIENCE_S)
        for step in (2, 3, 4):
            previews.submit(picture("a", step=step))
        go.set()
        done = previews._thread.submit(lambda: None)
        done.result(PATIENCE_S)
    assert written == [1, 4]


def test_a_preview_after_the_end_of_its_request_is_not_written(
    previews: Previews, event_log: EventLog, tmp_path: Path
) -> None:
    request = clip("a")
    previews.open([request])
    previews.close(request)
    previews.submit(picture("a"))
    previews.submit(picture("stranger"))
    previews.open([clip("b")])
    previews.submit(picture("b"))
    event_log.wait(1)
    assert names(tmp_path) == ["b.preview.png"]


def test_a_request_that_ends_while_its_preview_is_encoded_has_none(
    previews: Previews, event_log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, encode = clip("a"), previews_module._encode

    def encode_and_end(*args: Any) -> bytes:
        data = encode(*args)
        previews.close(request)
        return data

    monkeypatch.setattr(previews_module, "_encode", encode_and_end)
    previews.open([request])
    previews.submit(picture("a"))
    previews._thread.submit(lambda: None).result(PATIENCE_S)
    assert names(tmp_path) == []
    assert event_log.events == []


def test_keep_previews_keeps_them(tmp_path: Path, event_log: EventLog) -> None:
    request = clip("a")
    with Previews(OutputConfig(output_dir=str(tmp_path), keep_previews=True), event_log) as previews:
        previews.open([request])
        previews.submit(picture("a"))
        event_log.wait(1)
        previews.close(request)
    assert names(tmp_path) == ["a.preview.png"]


def test_closing_removes_the_previews_of_open_requests(tmp_path: Path, event_log: EventLog) -> None:
    with Previews(OutputConfig(output_dir=str(tmp_path)), event_log) as previews:
        previews.open([clip("a")])
        previews.submit(picture("a"))
        event_log.wait(1)
    assert names(tmp_path) == []
    previews.submit(picture("a"))  # too late: ignored


@pytest.mark.parametrize("link", [False, True])
def test_a_file_that_is_not_a_preview_is_neither_replaced_nor_removed(
    previews: Previews, event_log: EventLog, tmp_path: Path, link: bool
) -> None:
    path, elsewhere = tmp_path / "a.preview.png", tmp_path / "mine.png"
    elsewhere.write_bytes(b"mine")
    if link:
        path.symlink_to(elsewhere)
    else:
        path.write_bytes(b"mine")
    request = clip("a")
    previews.open([request])
    previews.submit(picture("a"))
    (note,) = event_log.wait(1, Note)
    assert isinstance(note, Note)
    assert "a preview was not written" in note.text
    previews.close(request)
    assert (path.read_bytes(), elsewhere.read_bytes(), path.is_symlink()) == (b"mine", b"mine", link)


def test_an_output_with_the_name_of_a_preview_is_not_removed(
    previews: Previews, event_log: EventLog, tmp_path: Path
) -> None:
    request = clip("a")
    previews.open([request])
    previews.submit(picture("a"))
    event_log.wait(1)
    (tmp_path / "a.preview.png").write_bytes(b"another request's output")
    previews.close(request)
    assert (tmp_path / "a.preview.png").read_bytes() == b"another request's output"


def test_of_two_requests_with_one_stem_only_the_first_has_previews(
    previews: Previews, event_log: EventLog, tmp_path: Path
) -> None:
    first, second = clip("1", "a.png"), clip("2", "a.mp4")
    previews.open([first])
    previews.open([second])
    previews.submit(picture("2"))
    previews.submit(picture("1"))
    (event,) = event_log.wait(1)
    assert isinstance(event, PreviewWritten)
    assert event.id == "1"
    previews.close(second)
    assert names(tmp_path) == ["a.preview.png"]


def test_only_the_first_error_is_reported(previews: Previews, event_log: EventLog, tmp_path: Path) -> None:
    (tmp_path / "in-the-way").write_bytes(b"")
    previews.open([clip("a", "in-the-way/a.png"), clip("b", "../b.png"), clip("c")])
    previews.submit(picture("a"))
    previews.submit(picture("b"))
    previews.submit(PreviewImage("c", 1, 8, width=8, height=8, pixels=b"short"))
    previews.submit(PreviewImage("c", 1, 8, fault="ValueError: no"))
    previews._thread.submit(lambda: None).result(PATIENCE_S)
    assert len(event_log.wait(1, Note)) == 1
    assert names(tmp_path) == ["in-the-way"]
    assert not (tmp_path.parent / "b.preview.png").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities per thread")
def test_a_process_that_is_already_nicer_keeps_its_niceness() -> None:
    code = (
        "import os, threading; from omni_cli.batch.previews import lower_thread_priority; os.nice(12); "
        "lower_thread_priority(); print(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))"
    )
    before = os.getpriority(os.PRIO_PROCESS, 0)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(done.stdout) == min(19, before + 12)
