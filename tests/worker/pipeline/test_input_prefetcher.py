"""InputPrefetcher reads queued inputs once, within a budget, in its own thread."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from omni_cli.errors import InputUnreadable
from omni_cli.inputs import InputFile, InputKind
from omni_cli.request import PlannedRequest
from omni_cli.worker.pipeline.input_prefetcher import InputPrefetcher
from tests.factories import planned

PATIENCE_S = 30.0


class Reader:
    """A fake `read_input`: returns a picture of 300 bytes, records file and thread, and blocks on a file's gate."""

    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []
        self._started: dict[str, threading.Event] = {}
        self._gates: dict[str, threading.Event] = {}
        self.broken: set[str] = set()

    def started(self, name: str) -> threading.Event:
        return self._started.setdefault(name, threading.Event())

    def gate(self, name: str) -> threading.Event:
        return self._gates.setdefault(name, threading.Event())

    def __call__(self, file: InputFile, frames: int | None) -> Any:
        name = Path(file.path).name
        self.read.append((name, threading.current_thread().name))
        self.started(name).set()
        if name in self._gates:
            assert self._gates[name].wait(PATIENCE_S)
        if name in self.broken:
            raise InputUnreadable(f"{file.name} {name}: cannot be read")
        return Image.new("RGB", (100, 1))


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., PlannedRequest]:
    def request(*names: str, **fields: Any) -> PlannedRequest:
        for name in names:
            (tmp_path / name).touch()
        return planned(image=[str(tmp_path / name) for name in names], **fields)

    return request


def files(request: PlannedRequest) -> list[InputFile]:
    assert isinstance(request.request.image, list)
    return [InputFile("image", path, InputKind.IMAGE) for path in request.request.image]


def read_all(prefetcher: InputPrefetcher, request: PlannedRequest) -> list[Any]:
    return [prefetcher.read(file) for file in files(request)]


def test_queued_inputs_are_read_by_the_inputs_thread(
    reader: Reader, request_for: Callable[..., PlannedRequest]
) -> None:
    prefetcher, a, b = InputPrefetcher(reader), request_for("a"), request_for("b")
    prefetcher.prefetch([a])
    prefetcher.prefetch([b])
    assert reader.started("b").wait(PATIENCE_S)  # before anything is read by the main thread
    read_all(prefetcher, a)
    read_all(prefetcher, b)
    assert reader.read == [("a", "inputs"), ("b", "inputs")]
    prefetcher.close()


def test_a_file_that_is_being_read_is_waited_for_and_not_read_again(
    reader: Reader, request_for: Callable[..., PlannedRequest]
) -> None:
    prefetcher, a = InputPrefetcher(reader), request_for("a")
    gate = reader.gate("a")
    prefetcher.prefetch([a])
    assert reader.started("a").wait(PATIENCE_S)
    pictures: list[Any] = []
    reading = threading.Thread(target=lambda: pictures.extend(read_all(prefetcher, a)))
    reading.start()
    gate.set()
    reading.join(PATIENCE_S)
    assert [picture.size for picture in pictures] == [(100, 1)]
    assert reader.read == [("a", "inputs")]
    prefetcher.close()


def test_a_file_that_is_still_queued_is_read_by_the_calling_thread(
    reader: Reader, request_for: Callable[..., PlannedRequest]
) -> None:
    prefetcher, a, b = InputPrefetcher(reader), request_for("a"), request_for("b")
    gate = reader.gate("a")
    prefetcher.prefetch([a, b])
    assert reader.started("a").wait(PATIENCE_S)
    read_all(prefetcher, b)
    assert reader.read == [("a", "inputs"), ("b", threading.current_thread().name)]
    gate.set()
    prefetcher.close()


def test_prefetching_pauses_while_the_budget_is_used_up(
    reader: Reader, request_for: Callable[..., PlannedRequest]
) -> None:
    prefetcher, requests = (
        InputPrefetcher(reader, prefetch_bytes=500, idle_bytes=0),
        [request_for(name) for name in "abcd"],
    )
    prefetcher.prefetch(requests)
    assert reader.started("b").wait(PATIENCE_S)
    read_all(prefetcher, requests[0])
    read_all(prefetcher, requests[1])  # two pictures of 300 bytes exceed 500: the third is not prefetched
    assert [name for name, _ in reader.read] == ["a", "b"]
    prefetcher.discard([requests[0]])
    assert reader.started("c").wait(PATIENCE_S)
    read_all(prefetcher, requests[2])
    assert [name for name, _ in reader.read] == ["a", "b", "c"]
    prefetcher.close()


def test_a_file_of_many_requests_is_read_once_until_it_changes(
    reader: Reader, request_for: Callable[..., PlannedRequest]
) -> None:
    prefetcher, a, other = InputPrefetcher(reader), request_for("a"), request_for("a", prompt="other")
    for request in (a, other, a):
        read_all(prefetcher, request)
        prefetcher.discard([request])
    assert len(reader.read) == 1
    path = files(a)[0].path
    os.utime(path, (1, 1))
    read_all(prefetcher, a)
    assert len(reader.read) == 2


def test_files_without_a_queued_request_are_evicted_oldest_first(
    reader: Reader, request_for: Callable[..., PlannedRequest]
) -> None:
    prefetcher, requests = InputPrefetcher(reader, idle_bytes=600), {name: request_for(name) for name in "abc"}
    for name in "abac":  # b is the least recently used when c is added
        read_all(prefetcher, requests[name])
    for name in "acb":
        read_all(prefetcher, requests[name])
    assert "".join(name for name, _ in reader.read) == "abcb"


def test_a_read_error_fails_only_its_reader_and_the_next_reader_tries_again(
    reader: Reader, request_for: Callable[..., PlannedRequest]
) -> None:
    prefetcher, bad, good = InputPrefetcher(reader), request_for("bad"), request_for("good")
    reader.broken.add("bad")
    prefetcher.prefetch([bad, good])
    assert reader.started("good").wait(PATIENCE_S)
    with pytest.raises(InputUnreadable, match="image bad: cannot be read"):
        read_all(prefetcher, bad)
    assert len(read_all(prefetcher, good)) == 1
    reader.broken.clear()
    assert len(read_all(prefetcher, bad)) == 1
    assert [name for name, _ in reader.read] == ["bad", "good", "bad"]
    prefetcher.close()


def test_a_discarded_request_is_not_read(reader: Reader, request_for: Callable[..., PlannedRequest]) -> None:
    prefetcher, a, b, c = InputPrefetcher(reader), request_for("a"), request_for("b"), request_for("c")
    gate = reader.gate("a")
    prefetcher.prefetch([a, b, c])
    assert reader.started("a").wait(PATIENCE_S)
    prefetcher.discard([b])
    gate.set()
    assert reader.started("c").wait(PATIENCE_S)
    assert [name for name, _ in reader.read] == ["a", "c"]
    prefetcher.close()


def test_each_reader_gets_a_copy(tmp_path: Path) -> None:
    tensor, picture = torch.zeros(2), Image.new("L", (2, 2))
    prefetcher = InputPrefetcher(lambda file, frames: {"t": tensor, "list": [picture]})
    file = InputFile("image", str(tmp_path), InputKind.IMAGE)
    first = prefetcher.read(file)
    first["t"] += 1
    first["list"][0].putpixel((0, 0), 9)
    second = prefetcher.read(file)
    assert second["t"].tolist() == [0, 0]
    assert second["list"][0].getpixel((0, 0)) == 0


def test_a_clip_is_cached_per_number_of_frames(tmp_path: Path) -> None:
    frame_counts: list[int | None] = []
    prefetcher = InputPrefetcher(lambda file, frames: frame_counts.append(frames) or [])
    for kind, frames in ((InputKind.VIDEO, 3), (InputKind.VIDEO, 3), (InputKind.VIDEO, 5), (InputKind.IMAGE, 7)):
        prefetcher.read(InputFile("x", str(tmp_path / "v"), kind), frames)
    assert frame_counts == [3, 5, None]
