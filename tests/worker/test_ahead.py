"""Inputs read ahead: in another thread, within a budget, once, and every fault where it belongs. Scripted readers, no clocks."""

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
from omni_cli.worker.ahead import Ahead
from tests.worker.conftest import planned

PATIENCE_S = 30.0


class Reader:
    """Gives a picture of 100 x 1 x 3 bytes for any file; says which, where, and waits where it is told to."""

    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []
        self._begun: dict[str, threading.Event] = {}
        self._gates: dict[str, threading.Event] = {}
        self.faults: set[str] = set()

    def begun(self, name: str) -> threading.Event:
        return self._begun.setdefault(name, threading.Event())

    def gate(self, name: str) -> threading.Event:
        return self._gates.setdefault(name, threading.Event())

    def __call__(self, file: InputFile, frames: int | None) -> Any:
        name = Path(file.path).name
        self.read.append((name, threading.current_thread().name))
        self.begun(name).set()
        if name in self._gates:
            assert self._gates[name].wait(PATIENCE_S)
        if name in self.faults:
            raise InputUnreadable(f"{file.name} {name}: cannot be read")
        return Image.new("RGB", (100, 1))


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def asking(tmp_path: Path) -> Callable[..., PlannedRequest]:
    def request(*names: str, **fields: Any) -> PlannedRequest:
        for name in names:
            (tmp_path / name).touch()
        return planned(image=[str(tmp_path / name) for name in names], **fields)

    return request


def files(request: PlannedRequest) -> list[InputFile]:
    assert isinstance(request.request.image, list)
    return [InputFile("image", path, InputKind.IMAGE) for path in request.request.image]


def take(ahead: Ahead, request: PlannedRequest) -> list[Any]:
    return [ahead.take(file) for file in files(request)]


def test_what_waits_is_read_by_the_inputs_thread_while_the_taker_does_something_else(
    reader: Reader, asking: Callable[..., PlannedRequest]
) -> None:
    ahead, a, b = Ahead(reader), asking("a"), asking("b")
    ahead.expect([a])
    ahead.expect([b])
    assert reader.begun("b").wait(PATIENCE_S)  # nobody has taken anything yet
    take(ahead, a)
    take(ahead, b)
    assert reader.read == [("a", "inputs"), ("b", "inputs")]
    ahead.close()


def test_what_is_being_read_is_waited_for_and_not_read_again(
    reader: Reader, asking: Callable[..., PlannedRequest]
) -> None:
    ahead, a = Ahead(reader), asking("a")
    gate = reader.gate("a")
    ahead.expect([a])
    assert reader.begun("a").wait(PATIENCE_S)
    taken: list[Any] = []
    taker = threading.Thread(target=lambda: taken.extend(take(ahead, a)))
    taker.start()
    gate.set()
    taker.join(PATIENCE_S)
    assert [picture.size for picture in taken] == [(100, 1)]
    assert reader.read == [("a", "inputs")]
    ahead.close()


def test_what_has_not_been_begun_is_read_by_whoever_takes_it(
    reader: Reader, asking: Callable[..., PlannedRequest]
) -> None:
    ahead, a, b = Ahead(reader), asking("a"), asking("b")
    gate = reader.gate("a")
    ahead.expect([a, b])
    assert reader.begun("a").wait(PATIENCE_S)
    take(ahead, b)
    assert reader.read == [("a", "inputs"), ("b", threading.current_thread().name)]
    gate.set()
    ahead.close()


def test_no_more_is_read_ahead_than_there_is_room_for(reader: Reader, asking: Callable[..., PlannedRequest]) -> None:
    ahead, requests = Ahead(reader, budget=500, kept=0), [asking(name) for name in "abcd"]
    ahead.expect(requests)
    assert reader.begun("b").wait(PATIENCE_S)
    take(ahead, requests[0])
    take(ahead, requests[1])  # two pictures of 300 bytes are over 500: the third is not begun
    assert [name for name, _ in reader.read] == ["a", "b"]
    ahead.forget([requests[0]])
    assert reader.begun("c").wait(PATIENCE_S)
    take(ahead, requests[2])
    assert [name for name, _ in reader.read] == ["a", "b", "c"]
    ahead.close()


def test_a_file_of_many_requests_is_read_once_until_it_changes(
    reader: Reader, asking: Callable[..., PlannedRequest]
) -> None:
    ahead, a, other = Ahead(reader), asking("a"), asking("a", prompt="other")
    for request in (a, other, a):
        take(ahead, request)
        ahead.forget([request])
    assert len(reader.read) == 1
    path = files(a)[0].path
    os.utime(path, (1, 1))
    take(ahead, a)
    assert len(reader.read) == 2


def test_what_nobody_waits_for_goes_oldest_first(reader: Reader, asking: Callable[..., PlannedRequest]) -> None:
    ahead, requests = Ahead(reader, kept=600), {name: asking(name) for name in "abc"}
    for name in "abac":  # b was used longest ago when c wants its place
        take(ahead, requests[name])
    for name in "acb":
        take(ahead, requests[name])
    assert "".join(name for name, _ in reader.read) == "abcb"


def test_a_fault_is_its_takers_and_the_next_one_reads_again(
    reader: Reader, asking: Callable[..., PlannedRequest]
) -> None:
    ahead, bad, good = Ahead(reader), asking("bad"), asking("good")
    reader.faults.add("bad")
    ahead.expect([bad, good])
    assert reader.begun("good").wait(PATIENCE_S)
    with pytest.raises(InputUnreadable, match="image bad: cannot be read"):
        take(ahead, bad)
    assert len(take(ahead, good)) == 1
    reader.faults.clear()
    assert len(take(ahead, bad)) == 1
    assert [name for name, _ in reader.read] == ["bad", "good", "bad"]
    ahead.close()


def test_what_is_cancelled_is_not_read(reader: Reader, asking: Callable[..., PlannedRequest]) -> None:
    ahead, a, b, c = Ahead(reader), asking("a"), asking("b"), asking("c")
    gate = reader.gate("a")
    ahead.expect([a, b, c])
    assert reader.begun("a").wait(PATIENCE_S)
    ahead.forget([b])
    gate.set()
    assert reader.begun("c").wait(PATIENCE_S)
    assert [name for name, _ in reader.read] == ["a", "c"]
    ahead.close()


def test_each_taker_has_a_copy_of_its_own(tmp_path: Path) -> None:
    tensor, picture = torch.zeros(2), Image.new("L", (2, 2))
    ahead = Ahead(lambda file, frames: {"t": tensor, "list": [picture]})
    file = InputFile("image", str(tmp_path), InputKind.IMAGE)
    first = ahead.take(file)
    first["t"] += 1
    first["list"][0].putpixel((0, 0), 9)
    second = ahead.take(file)
    assert second["t"].tolist() == [0, 0]
    assert second["list"][0].getpixel((0, 0)) == 0


def test_a_clip_is_wanted_by_its_number_of_frames(tmp_path: Path) -> None:
    asked: list[int | None] = []
    ahead = Ahead(lambda file, frames: asked.append(frames) or [])
    for kind, frames in ((InputKind.VIDEO, 3), (InputKind.VIDEO, 3), (InputKind.VIDEO, 5), (InputKind.IMAGE, 7)):
        ahead.take(InputFile("x", str(tmp_path / "v"), kind), frames)
    assert asked == [3, 5, None]
