"""Frames that come before their video is finished: one file per sample, the same as the whole's, or none."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omni_cli.batch import Desk, Stop, Storage, render
from omni_cli.config import OutputConfig
from omni_cli.errors import ForwardError, NonFiniteOutput, RequestCancelled
from omni_cli.executor.feed import FramePiece
from omni_cli.executor.protocol import Handle, Output
from omni_cli.media import ColorModel, Kind, MediaHeader
from omni_cli.request import GenerationRequest, PlannedRequest, Result
from tests.batch.conftest import MODEL, PATIENCE_S, FakeExecutor, Memory
from tests.disks import fill, small_disk

SIDE = 16


def movie(id_: str, samples: int = 1, format_: str = "mp4") -> PlannedRequest:
    names = tuple(f"{id_}-{number}.{format_}" for number in range(samples))
    request = GenerationRequest(id=id_, format=format_, fps=8.0, num_frames=9, num_outputs=samples)
    return PlannedRequest(request=request, index=0, seeds=tuple(range(samples)), files=names, fingerprint="f")


def pixels(samples: int, first: int, count: int, first_sample: int = 0) -> bytes:
    """Frames of one level each: 20 times their number, and a little more for each sample."""
    return b"".join(
        bytes([20 * frame + sample]) * (SIDE * SIDE * 3)
        for sample in range(first_sample, first_sample + samples)
        for frame in range(first, first + count)
    )


def header(samples: int, count: int) -> MediaHeader:
    return MediaHeader(
        kind=Kind.VIDEO,
        dtype="uint8",
        shape=(samples, count, SIDE, SIDE, 3),
        color=ColorModel.RGB,
        value_range=(0.0, 255.0),
    )


class Source:
    """Speaks as the executor about one request."""

    def __init__(self, handle: Handle, memory: Memory) -> None:
        self.handle = handle
        self.samples = len(handle.planned.files)
        self.memory = memory
        self.held: list[int] = []

    def piece(self, first: int, count: int, samples: int = 0, first_sample: int = 0) -> None:
        samples = samples or self.samples
        self.held.append(first)
        self.handle.feed.put(
            FramePiece(
                header(samples, count),
                memoryview(pixels(samples, first, count, first_sample)),
                lambda: self.held.remove(first),
                first_sample,
                first,
            )
        )

    def pieces(self) -> None:
        for first, count in ((0, 1), (1, 4), (5, 4)):
            self.piece(first, count)

    def ready(self, **fields: Any) -> None:
        self.handle.output_ready.set_result(
            self.output(**{"header": header(self.samples, 9), "buffer": memoryview(b""), "pieces": 3, **fields})
        )

    def whole(self) -> None:
        self.ready(buffer=memoryview(pixels(self.samples, 0, 9)), pieces=0)

    def output(self, **fields: Any) -> Output:
        return self.memory.output(self.handle.planned, **fields)


def expected(desk: Desk, planned: PlannedRequest, memory: Memory) -> Source:
    handle = Handle(planned, f"b/{planned.id}")
    desk.expect(handle)
    return Source(handle, memory)


def ended(desk: Desk) -> Result:
    entry = desk.ended.get(timeout=PATIENCE_S)
    assert isinstance(entry, Result), entry
    return entry


def files(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


@pytest.fixture
def desk(tmp_path: Path, rows: list[Result]) -> Iterator[Desk]:
    """Without metadata: files of the same frames are the same."""
    config = OutputConfig(output_dir=str(tmp_path), metadata=False)
    with Desk(config, lambda request: MODEL, rows.append, lambda event: None, writers=2) as desk:
        yield desk


@pytest.fixture
def reference(desk: Desk, memory: Memory, tmp_path: Path) -> Callable[[], list[bytes]]:
    """The files of a whole output of two samples."""

    def make() -> list[bytes]:
        expected(desk, movie("w", 2), memory).whole()
        return [(tmp_path / file.path).read_bytes() for file in ended(desk).files]

    return make


def test_pieces_become_the_files_of_the_whole_output(
    desk: Desk, memory: Memory, rows: list[Result], tmp_path: Path, reference: Callable[[], list[bytes]]
) -> None:
    whole = reference()
    source = expected(desk, movie("a", 2), memory)
    source.pieces()
    source.ready()
    result = ended(desk)
    assert (result.status, [file.frames for file in result.files]) == ("done", [9, 9])
    # The embedded request differs by its id and nothing else.
    assert [(tmp_path / file.path).read_bytes() for file in result.files] == whole
    assert (source.held, memory.held, rows[-1]) == ([], [], result)
    assert result.timings.encode > 0


def test_nothing_is_seen_and_nothing_is_held_before_the_video_is_finished(
    desk: Desk, memory: Memory, tmp_path: Path
) -> None:
    source = expected(desk, movie("a"), memory)
    source.piece(0, 1)
    while source.held:
        threading.Event().wait(0.001)
    assert all(name.endswith(".omni-tmp") for name in files(tmp_path))
    source.piece(1, 4)
    source.piece(5, 4)
    source.ready()
    assert ended(desk).status == "done"
    assert files(tmp_path) == ["a-0.mp4"]


def test_a_clip_that_starts_anew_voids_what_came_before(
    desk: Desk, memory: Memory, tmp_path: Path, reference: Callable[[], list[bytes]]
) -> None:
    whole = reference()
    source = expected(desk, movie("a", 2), memory)
    source.piece(0, 1)
    source.piece(1, 4)
    source.pieces()
    source.piece(0, 9, samples=1, first_sample=1)
    source.ready()
    result = ended(desk)
    assert [(tmp_path / file.path).read_bytes() for file in result.files] == whole


def test_an_output_that_comes_whole_after_all_voids_its_pieces(desk: Desk, memory: Memory, tmp_path: Path) -> None:
    source = expected(desk, movie("a"), memory)
    source.piece(0, 1)
    source.whole()
    result = ended(desk)
    assert (result.status, result.files[0].frames, files(tmp_path)) == ("done", 9, ["a-0.mp4"])


@pytest.mark.parametrize("error", [NonFiniteOutput("NaN in frame 5"), ForwardError("no"), RequestCancelled("stop")])
def test_a_request_that_ends_badly_leaves_no_part_of_a_file(
    desk: Desk, memory: Memory, tmp_path: Path, error: Exception
) -> None:
    source = expected(desk, movie("a", 2), memory)
    source.piece(0, 1)
    source.piece(1, 4)
    source.handle.output_ready.set_exception(error)
    assert ended(desk).status in ("failed", "cancelled")
    assert (files(tmp_path), source.held) == ([], [])


def test_frames_that_are_missing_fail_the_request(desk: Desk, memory: Memory, tmp_path: Path) -> None:
    source = expected(desk, movie("a"), memory)
    source.piece(0, 1)
    source.piece(5, 4)
    source.ready()
    result = ended(desk)
    assert result.error is not None
    assert (result.error.kind, source.held, files(tmp_path)) == ("write_failed", [], [])
    assert "1 of its first 5 frames have come" in result.error.message


def test_one_thread_serves_many_clips_whose_pieces_come_in_turns(memory: Memory, tmp_path: Path) -> None:
    with Desk(
        OutputConfig(output_dir=str(tmp_path)), lambda request: MODEL, lambda row: None, lambda event: None, writers=1
    ) as desk:
        sources = [expected(desk, movie(id_), memory) for id_ in "abc"]
        for first, count in ((0, 1), (1, 4), (5, 4)):
            for source in sources:
                source.piece(first, count)
                while source.held:  # as a ring with one slot
                    threading.Event().wait(0.001)
        for source in sources:
            source.ready()
        assert sorted(ended(desk).id for _ in sources) == ["a", "b", "c"]
    assert files(tmp_path) == ["a-0.mp4", "b-0.mp4", "c-0.mp4"]


def test_a_desk_that_closes_early_leaves_no_part_of_a_file_and_gives_memory_back(
    memory: Memory, tmp_path: Path
) -> None:
    with Desk(
        OutputConfig(output_dir=str(tmp_path)), lambda request: MODEL, lambda row: None, lambda event: None, writers=1
    ) as desk:
        source = expected(desk, movie("a"), memory)
        source.piece(0, 1)
    source.piece(1, 4)
    assert (files(tmp_path), source.held) == ([], [])


def test_frames_that_a_full_disk_did_not_take_are_rendered_again_when_there_is_room(
    executor: FakeExecutor, memory: Memory, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as root:
        storage = Storage(root, PATIENCE_S, note=lambda text: ballast.unlink(missing_ok=True), first_delay=0.01)
        ballast = fill(root)

        def on_submit(id_: str) -> None:
            executor.begin(id_)
            source = Source(executor.handles[id_], memory)
            source.pieces()
            source.ready()

        executor.on_submit = on_submit
        config = OutputConfig(output_dir=str(root))
        with Desk(
            config,
            lambda request: MODEL,
            lambda row: None,
            lambda event: None,
            writers=1,
            storage=storage,
            rerender=True,
        ) as desk:
            (result,) = render([[movie("a")]], executor, desk, Stop(), window=1)  # type: ignore[arg-type]
        assert (result.status, result.files[0].frames, executor.submitted) == ("done", 9, [["a"], ["a"]])
        assert files(root) == ["a-0.mp4"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_stop_keeps_what_there_is_of_a_running_video_if_that_was_asked_for(
    executor: FakeExecutor, memory: Memory, rows: list[Result], tmp_path: Path, keep: bool
) -> None:
    stop, config, first = Stop(), OutputConfig(output_dir=str(tmp_path), keep_partial=keep), threading.Event()
    executor.cancel = lambda handle: handle.output_ready.set_exception(RequestCancelled("stopped"))  # type: ignore[attr-defined]

    def on_submit(id_: str) -> None:
        executor.begin(id_)
        source = Source(executor.handles[id_], memory)
        source.piece(0, 1)
        source.piece(1, 4)
        while source.held:
            threading.Event().wait(0.001)
        if id_ == "a":
            first.set()
            return
        assert first.wait(PATIENCE_S)
        stop.request()
        if not keep:  # a running forward is finished
            for handle in executor.handles.values():
                Source(handle, memory).piece(5, 4)
                Source(handle, memory).ready()

    executor.on_submit = lambda id_: None
    original = executor.submit

    def submit(requests: Any, **more: Any) -> Any:
        handles = original(requests, **more)
        threading.Thread(target=on_submit, args=(requests[0].id,)).start()
        return handles

    executor.submit = submit  # type: ignore[method-assign]
    with Desk(config, lambda request: MODEL, rows.append, lambda event: None, writers=1) as desk:
        results = list(render([[movie("a")], [movie("b")]], executor, desk, stop, window=2))  # type: ignore[arg-type]
    assert {result.status for result in results} == {"cancelled" if keep else "done"}
    if keep:
        assert files(tmp_path) == ["a-0.partial.mp4", "b-0.partial.mp4"]
        assert sorted((row.id, row.files[0].path, row.files[0].frames) for row in rows) == [
            ("a", "a-0.partial.mp4", 5),
            ("b", "b-0.partial.mp4", 5),
        ]
        assert rows[0].notes == (f"cancelled: the first 5 frames are kept in {rows[0].files[0].path}",)
    else:
        assert files(tmp_path) == ["a-0.mp4", "b-0.mp4"]
