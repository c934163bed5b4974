"""A failing disk is waited for, up to a limit; nothing is computed that cannot be stored."""

import shutil
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from omni_cli.batch import DiskRetry, Stop, render
from omni_cli.errors import ForwardError, RequestCancelled, StorageError, StorageUnavailable
from omni_cli.events import AnyEvent, Note, RequestFinished
from omni_cli.executor.protocol import Handle
from omni_cli.request import Result
from tests.batch.conftest import PATIENCE_S, FakeExecutor, MakeWriter, OutputMemory
from tests.disks import fill, small_disk
from tests.factories import planned

SOON_S = 0.01


class Disk:
    """A disk that is full for the first `times` attempts."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.attempts = 0

    def __call__(self) -> str:
        self.attempts += 1
        if self.left:
            self.left -= 1
            raise StorageError("'x.png' was not written: No space left on device (ENOSPC)")
        return "stored"


@pytest.fixture
def calls() -> list[object]:
    """The texts of `notify` and the arguments of `pause_forwards`, in order."""
    return []


@pytest.fixture
def make_disk_retry(tmp_path: Path, calls: list[object]) -> Callable[..., DiskRetry]:
    def make(patience: float = PATIENCE_S, **more: object) -> DiskRetry:
        return DiskRetry(
            tmp_path, patience, notify=calls.append, pause_forwards=calls.append, first_delay=SOON_S, **more
        )  # type: ignore[arg-type]

    return make


def test_a_file_that_is_stored_at_once_is_not_reported(
    make_disk_retry: Callable[..., DiskRetry], calls: list[object]
) -> None:
    assert make_disk_retry().store(Disk(0)) == "stored"
    assert calls == []


def test_forwards_are_paused_and_the_file_is_retried_until_the_disk_takes_it(
    make_disk_retry: Callable[..., DiskRetry], calls: list[object]
) -> None:
    disk, store = Disk(3), make_disk_retry()
    assert store.store(disk) == "stored"
    assert disk.attempts == 4
    assert not store.failing
    assert calls == [
        True,
        "'x.png' was not written: No space left on device (ENOSPC); no new forwards until the disk takes files again,"
        " for at most 30 s",
        False,
        "the disk takes files again: resuming",
    ]


def test_delays_double_up_to_half_a_minute(tmp_path: Path) -> None:
    assert list(islice(DiskRetry(tmp_path, 1.0)._delays(), 9)) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_when_nothing_was_stored_in_time_every_thread_gets_the_same_storage_lost(
    make_disk_retry: Callable[..., DiskRetry], calls: list[object]
) -> None:
    store = make_disk_retry(0.05)
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(store.store, Disk(1000)) for _ in range(3)]
        ends = [future.exception(PATIENCE_S) for future in waiting]
    assert isinstance(ends[0], StorageUnavailable)
    assert ends[0] is ends[1] is ends[2]
    assert "nothing could be stored for 0.05 s: 'x.png' was not written" in str(ends[0])
    assert "run the same command again" in str(ends[0])
    never = Disk(0)
    with pytest.raises(StorageUnavailable):
        store.store(never)
    assert never.attempts == 0
    assert [item for item in calls if isinstance(item, bool)] == [True], "forwards stay paused"


def test_a_file_that_never_fits_fails_alone(make_disk_retry: Callable[..., DiskRetry], calls: list[object]) -> None:
    store = make_disk_retry(0.0)

    def too_large() -> None:
        store.store(Disk(0))
        raise StorageError("too large")

    with pytest.raises(StorageError, match="too large"):
        store.store(too_large)
    assert store.store(Disk(0)) == "stored"
    assert [item for item in calls if isinstance(item, bool)] == [True, False]


def test_a_stop_ends_the_wait(make_disk_retry: Callable[..., DiskRetry], calls: list[object]) -> None:
    stop, begun = Stop(), threading.Event()
    store = make_disk_retry(stop=stop, clock=lambda: 0.0)
    store._first_delay = PATIENCE_S

    def attempt() -> None:
        begun.set()
        raise StorageError("full")

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(store.store, attempt)
        assert begun.wait(PATIENCE_S)
        stop.request()
        assert isinstance(waiting.exception(PATIENCE_S / 2), RequestCancelled)


def test_after_a_stop_there_is_one_attempt_and_no_wait(make_disk_retry: Callable[..., DiskRetry]) -> None:
    stop, disk = Stop(), Disk(1000)
    stop.request()
    with pytest.raises(RequestCancelled, match="stopped before it could be stored"):
        make_disk_retry(stop=stop).store(disk)
    assert disk.attempts == 1


def test_any_other_error_is_raised_at_once(make_disk_retry: Callable[..., DiskRetry], calls: list[object]) -> None:
    def attempt() -> None:
        raise ForwardError("no")

    with pytest.raises(ForwardError):
        make_disk_retry().store(attempt)
    assert calls == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_was_moved_or_replaced_ends_the_run_at_once(tmp_path: Path, replaced: bool) -> None:
    root, disk = tmp_path / "out", Disk(0)
    root.mkdir()
    store = DiskRetry(root, PATIENCE_S)
    root.rename(tmp_path / "moved")
    if replaced:
        root.mkdir()
    with pytest.raises(StorageUnavailable, match=r"no longer exists: it was deleted, moved or unmounted"):
        store.store(disk)
    assert disk.attempts == 0


def test_an_unmounted_disk_ends_the_run_although_its_mount_point_exists(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as root:
        store = DiskRetry(root, PATIENCE_S)
        assert store.store(Disk(0)) == "stored"
        subprocess.run(["umount", "-l", str(root)], check=True)
        with pytest.raises(StorageUnavailable, match="no longer exists"):
            store.store(Disk(0))


# ── with the output writer and the run loop ──


def test_a_full_disk_blocks_the_writer_until_there_is_room_and_shows_no_partial_file(
    make_writer: MakeWriter, memory: OutputMemory, rows: list[Result], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as root:
        ballast, during = fill(root), list[list[str]]()

        def observe(event: AnyEvent) -> None:
            if isinstance(event, Note) and "no new forwards" in event.text:
                during.append([path.name for path in root.iterdir()])
                ballast.unlink()

        retry = DiskRetry(
            root, PATIENCE_S, notify=lambda text: observe(Note(at=0, level="warning", text=text)), first_delay=SOON_S
        )
        with make_writer(root, observer=observe, disk=retry) as writer:
            handle = Handle(planned("a"), "b/a")
            writer.expect(handle)
            handle.output_ready.set_result(memory.output(handle.planned))
        assert during == [["ballast"]]
        assert [(row.id, row.status) for row in rows] == [("a", "done")]
        assert [path.name for path in root.iterdir()] == ["a.png"]
        assert memory.unreleased == []


@pytest.fixture
def finish_one(make_writer: MakeWriter, memory: OutputMemory) -> Callable[..., object]:
    """Write the output of one request and return its queue entry."""

    def finish(root: Path, retry: DiskRetry, **options: Any) -> object:
        with make_writer(root, disk=retry, **options) as writer:
            handle = Handle(planned("a"), "b/a")
            writer.expect(handle)
            handle.output_ready.set_result(memory.output(handle.planned))
            return writer.ended.get(timeout=PATIENCE_S)

    return finish


def finished(events: list[AnyEvent]) -> list[Result]:
    return [event.result for event in events if isinstance(event, RequestFinished)]


def test_a_row_that_the_disk_does_not_take_is_retried(
    finish_one: Callable[..., object], rows: list[Result], events: list[AnyEvent], tmp_path: Path
) -> None:
    disk = Disk(2)

    def append(row: Result) -> None:
        disk()
        rows.append(row)

    ended = finish_one(tmp_path, DiskRetry(tmp_path, PATIENCE_S, first_delay=SOON_S), append=append)
    assert rows == finished(events) == [ended]
    assert disk.attempts == 3


def test_a_request_stopped_before_its_row_was_stored_counts_as_cancelled(
    finish_one: Callable[..., object], events: list[AnyEvent], tmp_path: Path
) -> None:
    stop = Stop()
    stop.request()
    ended = finish_one(tmp_path, DiskRetry(tmp_path, PATIENCE_S, stop=stop), append=lambda row: Disk(1)() and None)
    assert isinstance(ended, Result)
    assert (ended.status, ended.files) == ("cancelled", ())
    assert finished(events) == [ended]


def test_a_request_stopped_before_its_file_was_stored_has_no_row(
    finish_one: Callable[..., object], memory: OutputMemory, rows: list[Result], tmp_path: Path
) -> None:
    stop = Stop()
    stop.request()
    with small_disk(tmp_path / "disk") as root:
        fill(root)
        ended = finish_one(root, DiskRetry(root, PATIENCE_S, stop=stop))
    assert isinstance(ended, Result)
    assert ended.status == "cancelled"
    assert rows == []
    assert memory.unreleased == []


def test_nothing_is_submitted_while_nothing_can_be_stored(
    make_writer: MakeWriter, executor: FakeExecutor, rows: list[Result], tmp_path: Path
) -> None:
    disk, failing, submitted = Disk(5), threading.Event(), list[tuple[str, bool]]()
    retry = DiskRetry(tmp_path, PATIENCE_S, notify=lambda text: failing.set(), first_delay=SOON_S)

    def append(row: Result) -> None:
        disk()
        rows.append(row)

    def on_submit(id_: str) -> None:
        submitted.append((id_, retry.failing))
        executor.finish(id_)
        if id_ == "b":  # submitted before the row of "a" could not be stored
            assert failing.wait(PATIENCE_S)

    executor.on_submit = on_submit
    with make_writer(append=append, disk=retry) as writer:
        calls = [[planned(id_)] for id_ in "abc"]
        assert [row.id for row in render(calls, executor, writer, Stop(), lambda: 5)] == ["a", "b", "c"]
    assert submitted[0] == ("a", False)
    assert submitted[2] == ("c", False)


def test_lost_storage_cancels_running_requests_and_raises(
    make_writer: MakeWriter, executor: FakeExecutor, rows: list[Result], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()

    def on_submit(id_: str) -> None:
        if id_ == "b":
            executor.begin("b")  # its forward never ends
            shutil.rmtree(out)
            executor.finish("a")

    executor.on_submit = on_submit
    with make_writer(out) as writer, ThreadPoolExecutor(1) as reader:
        calls = [[planned(id_)] for id_ in "abc"]
        rendering = reader.submit(list, render(calls, executor, writer, Stop(), lambda: 2))
        with pytest.raises(StorageUnavailable, match="no longer exists"):
            rendering.result(PATIENCE_S)
    assert executor.submitted == [["a"], ["b"]]
    assert isinstance(executor.handles["b"].output_ready.exception(0), RequestCancelled)
    assert not out.exists()
    assert rows == []
    assert executor.memory.unreleased == []
