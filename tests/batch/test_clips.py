"""Frames that arrive before their video is finished: the same files as from a whole output, or none."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from omni_cli.batch import DiskRetry, OutputWriter, Stop, render
from omni_cli.errors import ForwardError, NonFiniteOutput, RequestCancelled
from omni_cli.executor.frame_stream import FramePiece
from omni_cli.executor.protocol import Handle, Output
from omni_cli.media import Kind, MediaHeader
from omni_cli.request import PlannedRequest, Result
from tests.batch.conftest import PATIENCE_S, FakeExecutor, MakeWriter, OutputMemory, next_row
from tests.disks import fill, small_disk
from tests.factories import media_header, planned

SIDE = 16


def movie(id_: str, samples: int = 1, format_: str = "mp4") -> PlannedRequest:
    files = [f"{id_}-{number}.{format_}" for number in range(samples)]
    return planned(id_, *files, format=format_, fps=8.0, num_frames=9)


def pixels(samples: int, first: int, count: int, first_sample: int = 0) -> bytes:
    """Frames of one level each: 20 times their number, and a little more for each sample."""
    return b"".join(
        bytes([20 * frame + sample]) * (SIDE * SIDE * 3)
        for sample in range(first_sample, first_sample + samples)
        for frame in range(first, first + count)
    )


def header(samples: int, count: int) -> MediaHeader:
    return media_header((samples, count, SIDE, SIDE, 3), Kind.VIDEO)


class StreamedOutput:
    """The executor's side of one request whose frames come in pieces."""

    def __init__(self, handle: Handle, memory: OutputMemory) -> None:
        self.handle = handle
        self.samples = len(handle.planned.files)
        self.memory = memory
        self.unreleased: list[int] = []

    def put(self, first: int, count: int, samples: int = 0, first_sample: int = 0) -> None:
        """Put `count` frames from `first` on, of `samples` samples (0: all) from `first_sample` on."""
        samples = samples or self.samples
        self.unreleased.append(first)
        self.handle.frame_stream.put(
            FramePiece(
                header(samples, count),
                memoryview(pixels(samples, first, count, first_sample)),
                lambda: self.unreleased.remove(first),
                first_sample,
                first,
            )
        )

    def put_all(self) -> None:
        """Put the nine frames of every sample in three pieces."""
        for first, count in ((0, 1), (1, 4), (5, 4)):
            self.put(first, count)

    def finish(self, **fields: Any) -> None:
        """Resolve the request: all its frames were put."""
        self.handle.output_ready.set_result(
            self.output(**{"header": header(self.samples, 9), "buffer": memoryview(b""), "pieces": 3, **fields})
        )

    def finish_whole(self) -> None:
        """Resolve the request with all frames in one buffer."""
        self.finish(buffer=memoryview(pixels(self.samples, 0, 9)), pieces=0)

    def output(self, **fields: Any) -> Output:
        return self.memory.output(self.handle.planned, **fields)


def expect(writer: OutputWriter, planned: PlannedRequest, memory: OutputMemory) -> StreamedOutput:
    handle = Handle(planned, f"b/{planned.id}")
    writer.expect(handle)
    return StreamedOutput(handle, memory)


def files(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


@pytest.fixture
def writer(make_writer: MakeWriter) -> Iterator[OutputWriter]:
    """A writer without metadata, so that files of the same frames are identical."""
    with make_writer(writers=2, metadata=False) as writer:
        yield writer


@pytest.fixture
def whole_files(writer: OutputWriter, memory: OutputMemory, tmp_path: Path) -> Callable[[], list[bytes]]:
    """The files of an output of two samples that comes whole."""

    def make() -> list[bytes]:
        expect(writer, movie("w", 2), memory).finish_whole()
        return [(tmp_path / file.path).read_bytes() for file in next_row(writer).files]

    return make


def test_pieces_become_the_same_files_as_a_whole_output(
    writer: OutputWriter,
    memory: OutputMemory,
    rows: list[Result],
    tmp_path: Path,
    whole_files: Callable[[], list[bytes]],
) -> None:
    whole = whole_files()
    stream = expect(writer, movie("a", 2), memory)
    stream.put_all()
    stream.finish()
    result = next_row(writer)
    assert (result.status, [file.frames for file in result.files]) == ("done", [9, 9])
    assert [(tmp_path / file.path).read_bytes() for file in result.files] == whole
    assert (stream.unreleased, memory.unreleased, rows[-1]) == ([], [], result)
    assert result.timings.encode > 0


def test_before_the_end_pieces_are_released_and_only_a_hidden_file_exists(
    writer: OutputWriter, memory: OutputMemory, tmp_path: Path
) -> None:
    stream = expect(writer, movie("a"), memory)
    stream.put(0, 1)
    while stream.unreleased:
        threading.Event().wait(0.001)
    assert all(name.endswith(".omni-tmp") for name in files(tmp_path))
    stream.put(1, 4)
    stream.put(5, 4)
    stream.finish()
    assert next_row(writer).status == "done"
    assert files(tmp_path) == ["a-0.mp4"]


def test_a_clip_that_restarts_replaces_its_earlier_frames(
    writer: OutputWriter, memory: OutputMemory, tmp_path: Path, whole_files: Callable[[], list[bytes]]
) -> None:
    whole = whole_files()
    stream = expect(writer, movie("a", 2), memory)
    stream.put(0, 1)
    stream.put(1, 4)
    stream.put_all()
    stream.put(0, 9, samples=1, first_sample=1)
    stream.finish()
    result = next_row(writer)
    assert [(tmp_path / file.path).read_bytes() for file in result.files] == whole


def test_an_output_that_comes_whole_after_pieces_replaces_them(
    writer: OutputWriter, memory: OutputMemory, tmp_path: Path
) -> None:
    stream = expect(writer, movie("a"), memory)
    stream.put(0, 1)
    stream.finish_whole()
    result = next_row(writer)
    assert (result.status, result.files[0].frames, files(tmp_path)) == ("done", 9, ["a-0.mp4"])


@pytest.mark.parametrize("error", [NonFiniteOutput("NaN in frame 5"), ForwardError("no"), RequestCancelled("stop")])
def test_a_failed_or_cancelled_request_leaves_no_partial_file(
    writer: OutputWriter, memory: OutputMemory, tmp_path: Path, error: Exception
) -> None:
    stream = expect(writer, movie("a", 2), memory)
    stream.put(0, 1)
    stream.put(1, 4)
    stream.handle.output_ready.set_exception(error)
    assert next_row(writer).status in ("failed", "cancelled")
    assert (files(tmp_path), stream.unreleased) == ([], [])


def test_missing_frames_fail_the_request(writer: OutputWriter, memory: OutputMemory, tmp_path: Path) -> None:
    stream = expect(writer, movie("a"), memory)
    stream.put(0, 1)
    stream.put(5, 4)
    stream.finish()
    result = next_row(writer)
    assert result.error is not None
    assert (result.error.kind, stream.unreleased, files(tmp_path)) == ("write_failed", [], [])
    assert "expected 5 frames so far, got 1" in result.error.message


def test_one_thread_writes_many_clips_whose_pieces_alternate(
    make_writer: MakeWriter, memory: OutputMemory, tmp_path: Path
) -> None:
    with make_writer() as writer:
        streams = [expect(writer, movie(id_), memory) for id_ in "abc"]
        for first, count in ((0, 1), (1, 4), (5, 4)):
            for stream in streams:
                stream.put(first, count)
                while stream.unreleased:  # like a ring with one slot
                    threading.Event().wait(0.001)
        for stream in streams:
            stream.finish()
        assert sorted(next_row(writer).id for _ in streams) == ["a", "b", "c"]
    assert files(tmp_path) == ["a-0.mp4", "b-0.mp4", "c-0.mp4"]


def test_a_writer_that_closes_early_leaves_no_partial_file_and_releases_later_pieces(
    make_writer: MakeWriter, memory: OutputMemory, tmp_path: Path
) -> None:
    with make_writer() as writer:
        stream = expect(writer, movie("a"), memory)
        stream.put(0, 1)
    stream.put(1, 4)
    assert (files(tmp_path), stream.unreleased) == ([], [])


def test_frames_lost_to_a_full_disk_are_rendered_again_once_there_is_room(
    make_writer: MakeWriter, executor: FakeExecutor, memory: OutputMemory, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as root:
        disk = DiskRetry(root, PATIENCE_S, notify=lambda text: ballast.unlink(missing_ok=True), first_delay=0.01)
        ballast = fill(root)

        def on_submit(id_: str) -> None:
            executor.begin(id_)
            stream = StreamedOutput(executor.handles[id_], memory)
            stream.put_all()
            stream.finish()

        executor.on_submit = on_submit
        with make_writer(root, disk=disk, rerender=True) as writer:
            (result,) = render([[movie("a")]], executor, writer, Stop(), lambda: 1)  # type: ignore[arg-type]
        assert (result.status, result.files[0].frames, executor.submitted) == ("done", 9, [["a"], ["a"]])
        assert files(root) == ["a-0.mp4"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_stop_keeps_partial_videos_only_with_keep_partial(
    make_writer: MakeWriter,
    executor: FakeExecutor,
    memory: OutputMemory,
    rows: list[Result],
    tmp_path: Path,
    keep: bool,
) -> None:
    stop, first = Stop(), threading.Event()

    def on_submit(id_: str) -> None:
        executor.begin(id_)
        stream = StreamedOutput(executor.handles[id_], memory)
        stream.put(0, 1)
        stream.put(1, 4)
        while stream.unreleased:
            threading.Event().wait(0.001)
        if id_ == "a":
            first.set()
            return
        assert first.wait(PATIENCE_S)
        stop.request()
        if not keep:  # running forwards are finished
            for handle in executor.handles.values():
                StreamedOutput(handle, memory).put(5, 4)
                StreamedOutput(handle, memory).finish()

    executor.on_submit = lambda id_: None
    original = executor.submit

    def submit(requests: Any, **more: Any) -> Any:
        handles = original(requests, **more)
        threading.Thread(target=on_submit, args=(requests[0].id,)).start()
        return handles

    executor.submit = submit  # type: ignore[method-assign]
    with make_writer(keep_partial=keep) as writer:
        calls = [[movie("a")], [movie("b")]]
        results = list(render(calls, executor, writer, stop, lambda: 2))  # type: ignore[arg-type]
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
