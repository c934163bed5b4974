"""Frames that arrive before their video is complete, with real workers: order, memory, deaths, cancels, errors."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import NonFiniteOutput, RequestCancelled
from omni_cli.events import AnyEvent, OutputArrived
from omni_cli.executor.frame_stream import FramePiece
from omni_cli.executor.local import LocalExecutor
from omni_cli.executor.protocol import Handle
from omni_cli.request import PlannedRequest
from tests.executor.fake_worker import FakeClock
from tests.factories import planned

TIMEOUT_S = 60.0
SIDE, FRAMES = 512, 8
PIECE = 2 * SIDE * SIDE * 3
ENGINE = EngineConfig(runner="tests.executor.runners:StreamingRunner")
MODEL = ModelConfig(device="cpu")
CLOCK = FakeClock()
NARROW = {"max_inflight_bytes": 2 * PIECE, "forward_timeout": 3.0}
"""Room for two pieces, and a forward timeout."""


def clip(id_: str, **fields: Any) -> PlannedRequest:
    defaults = {"prompt": "", "height": SIDE, "width": SIDE, "num_frames": FRAMES}
    return planned(id_, format="mp4", **{**defaults, **fields})


class Reader:
    """Records the pieces of a request as (first frame, levels), and releases them unless `keep` is set."""

    def __init__(self, handle: Handle, keep: bool = False) -> None:
        self.pieces: list[tuple[int, list[int]]] = []
        self.kept: list[FramePiece] = []
        self._keep = keep
        self._changed = threading.Condition()
        handle.frame_stream.listen(self._take)

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

    def wait_for(self, count: int, timeout: float = TIMEOUT_S) -> bool:
        """Return whether `count` pieces arrive within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.pieces) >= count, timeout)


def pieces(level: int) -> list[tuple[int, list[int]]]:
    """Return the pieces of a whole clip whose first frame has this level."""
    return [(frame, [level + frame, level + frame + 1]) for frame in range(0, FRAMES, 2)]


Open = Callable[..., tuple[LocalExecutor, list[AnyEvent]]]


@pytest.fixture(scope="module")
def _executors() -> Iterator[Callable[..., tuple[LocalExecutor, list[AnyEvent]]]]:
    """Start one executor for each set of settings, shared by the tests."""
    executors: dict[tuple[tuple[str, Any], ...], tuple[LocalExecutor, list[AnyEvent]]] = {}

    def make(**settings: Any) -> tuple[LocalExecutor, list[AnyEvent]]:
        key = tuple(settings.items())
        if key not in executors:
            events: list[AnyEvent] = []
            executor = LocalExecutor(msgspec.structs.replace(ENGINE, **settings), events.append, clock=CLOCK)
            executors[key] = executor, events
            executor.load(MODEL).loaded.result(TIMEOUT_S)
        executors[key][1].clear()
        return executors[key]

    yield make
    for executor, _ in executors.values():
        executor.shutdown()


@pytest.fixture(autouse=True)
def _no_leaks() -> None:
    """Check nothing: the executors are shared. The next module's tests would see what they leave."""


@pytest.fixture
def open_executor(_executors: Open) -> Open:
    return _executors


@pytest.mark.parametrize("async_output", [True, False])
def test_frames_arrive_in_order_and_the_output_has_their_header(open_executor: Open, async_output: bool) -> None:
    executor, events = open_executor(async_output=async_output)
    handles = executor.submit([clip("a"), clip("b", seeds=(100,))])
    readers = [Reader(handle) for handle in handles]
    outputs = [handle.output_ready.result(TIMEOUT_S) for handle in handles]
    assert [reader.pieces for reader in readers] == [pieces(5), pieces(100)]
    for output in outputs:
        assert (output.header.shape, output.header.dtype, output.pieces) == ((1, FRAMES, SIDE, SIDE, 3), "uint8", 4)
        assert (bytes(output.buffer), output.notes) == (b"", ("streamed",))
        output.release()
    arrived = [event for event in events if isinstance(event, OutputArrived)]
    assert [(event.bytes, event.copied) for event in arrived] == [(4 * PIECE, 0)] * 2
    assert all(event.d2h.seconds > 0 for event in arrived)


def test_unreleased_pieces_block_the_decoder(open_executor: Open) -> None:
    executor, _ = open_executor(**NARROW)
    (handle,) = executor.submit([clip("a", num_frames=20)])
    reader = Reader(handle, keep=True)
    assert reader.wait_for(2)
    assert not reader.wait_for(3, 0.3)
    assert not handle.compute_done.done(), "its forward is not over"
    reader.kept[0].release()
    assert reader.wait_for(3)
    assert not reader.wait_for(4, 0.3)
    released = {0}
    while not handle.output_ready.done():
        for piece in [piece for piece in reader.kept if piece.first_frame not in released]:
            released.add(piece.first_frame)
            piece.release()
        reader.wait_for(len(reader.pieces) + 1, 0.05)
    assert [first for first, _ in reader.pieces] == list(range(0, 20, 2))


def test_worker_that_dies_between_two_frames_restarts_the_clip(open_executor: Open, tmp_path: Path) -> None:
    executor, _ = open_executor()
    (handle,) = executor.submit([clip("a", prompt=f"kill {tmp_path / 'dead'}")])
    reader = Reader(handle)
    output = handle.output_ready.result(TIMEOUT_S)
    assert reader.pieces[-4:] == pieces(5)
    assert reader.pieces[:-4] in ([], pieces(5)[:1]), "pieces of the first attempt"
    assert (output.pieces, output.attempts) == (4, 2)
    output.release()


def test_nan_in_a_later_frame_fails_the_request_and_names_the_frame(open_executor: Open) -> None:
    executor, _ = open_executor()
    bad, good = executor.submit([clip("a", prompt="nan"), clip("b", seeds=(50,))])
    first, second = Reader(bad), Reader(good)
    error = bad.output_ready.exception(TIMEOUT_S)
    assert isinstance(error, NonFiniteOutput)
    assert "the first in frame 2 of sample 0" in str(error)
    good.output_ready.result(TIMEOUT_S).release()
    assert first.pieces == pieces(5)[:1]
    assert second.pieces == pieces(50)


def test_forward_ends_once_no_request_needs_more_frames(open_executor: Open) -> None:
    executor, _ = open_executor(async_output=False)
    (handle,) = executor.submit([clip("a", prompt="nan", num_frames=1000, height=128, width=128)])
    reader = Reader(handle)
    assert isinstance(handle.output_ready.exception(TIMEOUT_S), NonFiniteOutput)
    (after,) = executor.submit([clip("b", seeds=(9,))])
    Reader(after)
    assert after.output_ready.result(TIMEOUT_S).pieces == 4
    assert len(reader.pieces) == 1


def test_decode_that_is_repeated_at_once_replaces_the_pieces(open_executor: Open) -> None:
    executor, _ = open_executor()
    (handle,) = executor.submit([clip("a", prompt="whole")])
    reader = Reader(handle)
    output = handle.output_ready.result(TIMEOUT_S)
    assert reader.pieces == pieces(5)[:1]
    assert (output.pieces, len(output.buffer)) == (0, FRAMES * SIDE * SIDE * 3)
    output.release()


def test_cancel_between_two_frames_ends_the_decode_and_releases_later_pieces(
    open_executor: Open, tmp_path: Path
) -> None:
    executor, _ = open_executor(**NARROW)
    (handle,) = executor.submit([clip("a", prompt=f"wait {tmp_path / 'never'}")])
    reader = Reader(handle)
    assert reader.wait_for(1)
    executor.cancel(handle)
    assert isinstance(handle.output_ready.exception(TIMEOUT_S), RequestCancelled)
    (after,) = executor.submit([clip("b", seeds=(9,))])
    other = Reader(after)
    after.output_ready.result(TIMEOUT_S).release()
    assert (reader.pieces, other.pieces) == (pieces(5)[:1], pieces(9))


def test_each_piece_restarts_the_forward_timeout(open_executor: Open) -> None:
    executor, _ = open_executor(**NARROW)
    (handle,) = executor.submit([clip("a", num_frames=12)])
    reader = Reader(handle, keep=True)
    for number in range(6):
        assert reader.wait_for(number + 1)
        CLOCK.now += NARROW["forward_timeout"] - 1  # the time that the writer takes
        reader.kept[number].release()
    assert handle.output_ready.result(TIMEOUT_S).attempts == 1
