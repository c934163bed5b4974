"""Frames that leave before their video is finished, with workers that are real: order, memory, deaths, cancels, errors."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import NonFiniteOutput, RequestCancelled
from omni_cli.events import AnyEvent, OutputReady
from omni_cli.executor.feed import FramePiece
from omni_cli.executor.local import LocalExecutor
from omni_cli.executor.protocol import Handle
from omni_cli.request import GenerationRequest, PlannedRequest

PATIENCE_S = 60.0
SIDE, FRAMES = 512, 8
PIECE = 2 * SIDE * SIDE * 3
ENGINE = EngineConfig(runner="tests.executor.runners:Slices")
MODEL = ModelConfig(device="cpu")
NARROW = {"max_inflight_bytes": 2 * PIECE, "forward_timeout": 3.0}
"""Room for two pieces; a forward without a sign of life is killed."""


def planned(id_: str, prompt: str = "", seed: int = 7, **fields: Any) -> PlannedRequest:
    size = {"height": SIDE, "width": SIDE, "num_frames": FRAMES, "format": "mp4"}
    request = GenerationRequest(id=id_, prompt=prompt, num_outputs=1, **{**size, **fields})
    return PlannedRequest(request=request, index=0, seeds=(seed,), files=(), fingerprint="")


class Reader:
    """Takes the pieces of a request; keeps them as (first frame, levels), and gives their memory back unless told not to."""

    def __init__(self, handle: Handle, keep: bool = False) -> None:
        self.pieces: list[tuple[int, list[int]]] = []
        self.kept: list[FramePiece] = []
        self._keep = keep
        self._changed = threading.Condition()
        handle.feed.listen(self._take)

    def _take(self, piece: FramePiece) -> None:
        size = SIDE * SIDE * 3
        levels = [piece.buffer[number * size] for number in range(len(piece.buffer) // size)]
        if not self._keep:
            piece.release()
        with self._changed:
            self.pieces.append((piece.first_frame, levels))
            if self._keep:
                self.kept.append(piece)
            self._changed.notify_all()

    def wait_for(self, count: int, timeout: float = PATIENCE_S) -> bool:
        """True once so many pieces have come."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.pieces) >= count, timeout)


def pieces(level: int) -> list[tuple[int, list[int]]]:
    """What a whole clip of a sample of this level leaves in."""
    return [(frame, [level + frame, level + frame + 1]) for frame in range(0, FRAMES, 2)]


Open = Callable[..., tuple[LocalExecutor, list[AnyEvent]]]


@pytest.fixture(scope="module")
def _executors() -> Iterator[Callable[..., tuple[LocalExecutor, list[AnyEvent]]]]:
    """One executor for each set of settings; none is harmed, a worker that dies is replaced."""
    made: dict[tuple[tuple[str, Any], ...], tuple[LocalExecutor, list[AnyEvent]]] = {}

    def make(**settings: Any) -> tuple[LocalExecutor, list[AnyEvent]]:
        key = tuple(settings.items())
        if key not in made:
            events: list[AnyEvent] = []
            executor = LocalExecutor(msgspec.structs.replace(ENGINE, **settings), events.append)
            made[key] = executor, events
            executor.load(MODEL).loaded.result(PATIENCE_S)
        made[key][1].clear()
        return made[key]

    yield make
    for executor, _ in made.values():
        executor.close()


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> None:
    """Executors are shared: what they leave is seen when the next module's tests begin."""


@pytest.fixture
def open_executor(_executors: Open) -> Open:
    return _executors


@pytest.mark.parametrize("async_output", [True, False])
def test_frames_come_in_order_and_the_output_says_what_they_are(open_executor: Open, async_output: bool) -> None:
    executor, events = open_executor(async_output=async_output)
    handles = executor.submit([planned("a", seed=7), planned("b", seed=100)])
    readers = [Reader(handle) for handle in handles]
    outputs = [handle.output_ready.result(PATIENCE_S) for handle in handles]
    assert [reader.pieces for reader in readers] == [pieces(7), pieces(100)]
    for output in outputs:
        assert (output.header.shape, output.header.dtype, output.pieces) == ((1, FRAMES, SIDE, SIDE, 3), "uint8", 4)
        assert (bytes(output.buffer), output.notes) == (b"", ("streamed",))
        output.release()
    told = [event for event in events if isinstance(event, OutputReady)]
    assert [(event.bytes, event.copied) for event in told] == [(4 * PIECE, 0)] * 2
    assert all(event.d2h.seconds > 0 for event in told)


def test_pieces_that_nobody_gives_back_hold_the_decoder_and_not_the_memory(open_executor: Open) -> None:
    executor, _ = open_executor(**NARROW)
    (handle,) = executor.submit([planned("a", num_frames=20)])
    reader = Reader(handle, keep=True)
    assert reader.wait_for(2)
    assert not reader.wait_for(3, 0.3)
    assert not handle.compute_done.done(), "its forward is not over"
    reader.kept[0].release()
    assert reader.wait_for(3)
    assert not reader.wait_for(4, 0.3)
    given = {0}
    while not handle.output_ready.done():
        for piece in [piece for piece in reader.kept if piece.first_frame not in given]:
            given.add(piece.first_frame)
            piece.release()
        reader.wait_for(len(reader.pieces) + 1, 0.05)
    assert [first for first, _ in reader.pieces] == list(range(0, 20, 2))


def test_a_worker_that_dies_between_two_frames_begins_the_clip_again(open_executor: Open, tmp_path: Path) -> None:
    executor, _ = open_executor()
    (handle,) = executor.submit([planned("a", f"kill {tmp_path / 'dead'}")])
    reader = Reader(handle)
    output = handle.output_ready.result(PATIENCE_S)
    assert reader.pieces[-4:] == pieces(7)
    assert reader.pieces[:-4] in ([], pieces(7)[:1]), "what had come of the first attempt"
    assert (output.pieces, output.attempts) == (4, 2)
    output.release()


def test_not_a_number_in_a_later_frame_fails_the_request_and_names_the_frame(open_executor: Open) -> None:
    executor, _ = open_executor()
    spoilt, sound = executor.submit([planned("a", "nan"), planned("b", seed=50)])
    first, second = Reader(spoilt), Reader(sound)
    error = spoilt.output_ready.exception(PATIENCE_S)
    assert isinstance(error, NonFiniteOutput)
    assert "the first in frame 2 of sample 0" in str(error)
    sound.output_ready.result(PATIENCE_S).release()
    assert first.pieces == pieces(7)[:1]
    assert second.pieces == pieces(50)


def test_the_forward_ends_where_nobody_has_a_use_for_more_frames(open_executor: Open) -> None:
    executor, _ = open_executor(async_output=False)
    (handle,) = executor.submit([planned("a", "nan", num_frames=1000, height=128, width=128)])
    reader = Reader(handle)
    assert isinstance(handle.output_ready.exception(PATIENCE_S), NonFiniteOutput)
    (after,) = executor.submit([planned("b", seed=9)])
    Reader(after)
    assert after.output_ready.result(PATIENCE_S).pieces == 4
    assert len(reader.pieces) == 1


def test_a_decode_that_is_repeated_whole_voids_what_came_before(open_executor: Open) -> None:
    executor, _ = open_executor()
    (handle,) = executor.submit([planned("a", "whole")])
    reader = Reader(handle)
    output = handle.output_ready.result(PATIENCE_S)
    assert reader.pieces == pieces(7)[:1]
    assert (output.pieces, len(output.buffer)) == (0, FRAMES * SIDE * SIDE * 3)
    output.release()


def test_a_cancel_between_two_frames_ends_the_decode_and_later_pieces_go_back(
    open_executor: Open, tmp_path: Path
) -> None:
    executor, _ = open_executor(**NARROW)
    (handle,) = executor.submit([planned("a", f"wait {tmp_path / 'never'}")])
    reader = Reader(handle)
    assert reader.wait_for(1)
    executor.cancel(handle)
    assert isinstance(handle.output_ready.exception(PATIENCE_S), RequestCancelled)
    (after,) = executor.submit([planned("b", seed=9)])
    other = Reader(after)
    after.output_ready.result(PATIENCE_S).release()
    assert (reader.pieces, other.pieces) == (pieces(7)[:1], pieces(9))


def test_a_forward_whose_frames_come_is_not_stuck(open_executor: Open) -> None:
    executor, _ = open_executor(**NARROW)
    (handle,) = executor.submit([planned("a", num_frames=12)])
    reader = Reader(handle, keep=True)
    for number in range(6):
        assert reader.wait_for(number + 1)
        reader.wait_for(number + 3, NARROW["forward_timeout"] / 3)  # the time that the writer takes
        reader.kept[number].release()
    assert handle.output_ready.result(PATIENCE_S).attempts == 1
