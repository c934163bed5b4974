"""A disk that does not take files is waited for, and not for ever; nobody computes what cannot be stored."""

import shutil
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from omni_cli.batch import Desk, Stop, Storage, render
from omni_cli.config import OutputConfig
from omni_cli.errors import ForwardError, RequestCancelled, StorageFault, StorageLost
from omni_cli.events import AnyEvent, Note, RequestFinished
from omni_cli.executor.protocol import Handle
from omni_cli.request import Result
from tests.batch.conftest import MODEL, PATIENCE_S, FakeExecutor, Memory, planned
from tests.disks import fill, small_disk

SOON_S = 0.01


class Disk:
    """Says that it is full `times` times, then takes everything."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.attempts = 0

    def __call__(self) -> str:
        self.attempts += 1
        if self.left:
            self.left -= 1
            raise StorageFault("'x.png' was not written: No space left on device (ENOSPC)")
        return "stored"


@pytest.fixture
def heard() -> list[object]:
    """What was said and done, in order: notes, and holds of the forwards."""
    return []


@pytest.fixture
def storage(tmp_path: Path, heard: list[object]) -> Callable[..., Storage]:
    def make(patience: float = PATIENCE_S, **more: object) -> Storage:
        return Storage(tmp_path, patience, note=heard.append, hold=heard.append, first_delay=SOON_S, **more)  # type: ignore[arg-type]

    return make


def test_what_is_stored_at_once_is_no_news(storage: Callable[..., Storage], heard: list[object]) -> None:
    assert storage().store(Disk(0)) == "stored"
    assert heard == []


def test_forwards_are_held_and_the_same_is_tried_until_the_disk_takes_it(
    storage: Callable[..., Storage], heard: list[object]
) -> None:
    disk, store = Disk(3), storage()
    assert store.store(disk) == "stored"
    assert disk.attempts == 4
    assert not store.failing
    assert heard == [
        True,
        "'x.png' was not written: No space left on device (ENOSPC); no new forwards until the disk takes files again,"
        " for at most 30 s",
        False,
        "the disk takes files again: going on",
    ]


def test_the_waits_grow_to_half_a_minute(tmp_path: Path) -> None:
    assert list(islice(Storage(tmp_path, 1.0)._delays(), 9)) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_when_patience_is_over_and_nothing_was_stored_everybody_is_told_the_same_end(
    storage: Callable[..., Storage], heard: list[object]
) -> None:
    store = storage(0.05)
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(store.store, Disk(1000)) for _ in range(3)]
        ends = [future.exception(PATIENCE_S) for future in waiting]
    assert isinstance(ends[0], StorageLost)
    assert ends[0] is ends[1] is ends[2]
    assert "nothing could be stored for 0.05 s: 'x.png' was not written" in str(ends[0])
    assert "run the same command again" in str(ends[0])
    never = Disk(0)
    with pytest.raises(StorageLost):
        store.store(never)
    assert never.attempts == 0
    assert [item for item in heard if isinstance(item, bool)] == [True], "no forward begins on the way out"


def test_one_that_never_fits_where_others_do_fails_alone(storage: Callable[..., Storage], heard: list[object]) -> None:
    store = storage(0.0)

    def too_large() -> None:
        store.store(Disk(0))
        raise StorageFault("too large")

    with pytest.raises(StorageFault, match="too large"):
        store.store(too_large)
    assert store.store(Disk(0)) == "stored"
    assert [item for item in heard if isinstance(item, bool)] == [True, False]


def test_a_stop_ends_the_waiting(storage: Callable[..., Storage], heard: list[object]) -> None:
    stop, begun = Stop(), threading.Event()
    store = storage(stop=stop, clock=lambda: 0.0)
    store._first_delay = PATIENCE_S

    def attempt() -> None:
        begun.set()
        raise StorageFault("full")

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(store.store, attempt)
        assert begun.wait(PATIENCE_S)
        stop.request()
        assert isinstance(waiting.exception(PATIENCE_S / 2), RequestCancelled)


def test_after_a_stop_nothing_is_waited_for(storage: Callable[..., Storage]) -> None:
    stop, disk = Stop(), Disk(1000)
    stop.request()
    with pytest.raises(RequestCancelled, match="stopped while it could not be stored"):
        storage(stop=stop).store(disk)
    assert disk.attempts == 1


def test_any_other_error_is_the_requests_own(storage: Callable[..., Storage], heard: list[object]) -> None:
    def attempt() -> None:
        raise ForwardError("no")

    with pytest.raises(ForwardError):
        storage().store(attempt)
    assert heard == []


@pytest.mark.parametrize("again", [False, True])
def test_a_folder_that_is_gone_or_another_is_the_end_at_once(tmp_path: Path, again: bool) -> None:
    root, disk = tmp_path / "out", Disk(0)
    root.mkdir()
    store = Storage(root, PATIENCE_S)
    root.rename(tmp_path / "moved")
    if again:
        root.mkdir()
    with pytest.raises(StorageLost, match=r"is not there any more: it was deleted, moved or unmounted"):
        store.store(disk)
    assert disk.attempts == 0


def test_a_disk_that_was_unmounted_is_the_end_although_its_mount_point_is_there(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as root:
        store = Storage(root, PATIENCE_S)
        assert store.store(Disk(0)) == "stored"
        subprocess.run(["umount", "-l", str(root)], check=True)
        with pytest.raises(StorageLost, match="is not there any more"):
            store.store(Disk(0))


# ── the desk and the loop over it ──


def test_a_full_disk_holds_up_the_desk_until_there_is_room_and_nothing_partial_is_seen(
    memory: Memory, rows: list[Result], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as root:
        ballast, during = fill(root), list[list[str]]()

        def observe(event: AnyEvent) -> None:
            if isinstance(event, Note) and "no new forwards" in event.text:
                during.append([path.name for path in root.iterdir()])
                ballast.unlink()

        storage = Storage(
            root, PATIENCE_S, note=lambda text: observe(Note(at=0, level="warning", text=text)), first_delay=SOON_S
        )
        config = OutputConfig(output_dir=str(root))
        with Desk(config, lambda request: MODEL, rows.append, observe, writers=1, storage=storage) as desk:
            handle = Handle(planned("a"), "b/a")
            desk.expect(handle)
            handle.output_ready.set_result(memory.output(handle.planned))
        assert during == [["ballast"]]
        assert [(row.id, row.status) for row in rows] == [("a", "done")]
        assert [path.name for path in root.iterdir()] == ["a.png"]
        assert memory.held == []


def finish_one(
    memory: Memory, root: Path, storage: Storage, append: Callable[[Result], None]
) -> tuple[object, list[AnyEvent]]:
    """What the desk makes of one request whose output is there, and what it says meanwhile."""
    events: list[AnyEvent] = []
    config = OutputConfig(output_dir=str(root))
    with Desk(config, lambda request: MODEL, append, events.append, writers=1, storage=storage) as desk:
        handle = Handle(planned("a"), "b/a")
        desk.expect(handle)
        handle.output_ready.set_result(memory.output(handle.planned))
        return desk.ended.get(timeout=PATIENCE_S), events


def test_a_row_that_the_disk_does_not_take_is_tried_again_too(memory: Memory, tmp_path: Path) -> None:
    disk, rows = Disk(2), list[Result]()

    def append(row: Result) -> None:
        disk()
        rows.append(row)

    ended, events = finish_one(memory, tmp_path, Storage(tmp_path, PATIENCE_S, first_delay=SOON_S), append)
    assert rows == [ended]
    assert disk.attempts == 3
    assert [event.result for event in events if isinstance(event, RequestFinished)] == rows


def test_a_request_stopped_before_its_row_was_stored_counts_as_not_done(memory: Memory, tmp_path: Path) -> None:
    stop = Stop()
    stop.request()
    ended, events = finish_one(
        memory, tmp_path, Storage(tmp_path, PATIENCE_S, stop=stop), lambda row: Disk(1)() and None
    )
    assert isinstance(ended, Result)
    assert (ended.status, ended.files) == ("cancelled", ())
    assert [event.result for event in events if isinstance(event, RequestFinished)] == [ended]


def test_a_request_stopped_before_its_file_was_stored_has_no_row(
    memory: Memory, rows: list[Result], tmp_path: Path
) -> None:
    stop = Stop()
    stop.request()
    with small_disk(tmp_path / "disk") as root:
        fill(root)
        ended, _ = finish_one(memory, root, Storage(root, PATIENCE_S, stop=stop), rows.append)
    assert isinstance(ended, Result)
    assert ended.status == "cancelled"
    assert rows == []
    assert memory.held == []


def test_nothing_is_submitted_while_nothing_can_be_stored(
    executor: FakeExecutor, rows: list[Result], tmp_path: Path
) -> None:
    disk, failing, submitted = Disk(5), threading.Event(), list[tuple[str, bool]]()
    storage = Storage(tmp_path, PATIENCE_S, note=lambda text: failing.set(), first_delay=SOON_S)

    def append(row: Result) -> None:
        disk()
        rows.append(row)

    def on_submit(id_: str) -> None:
        submitted.append((id_, storage.failing))
        executor.finish(id_)
        if id_ == "b":  # which was on its way when the row of "a" could not be stored
            assert failing.wait(PATIENCE_S)

    executor.on_submit = on_submit
    with Desk(
        OutputConfig(output_dir=str(tmp_path)),
        lambda request: MODEL,
        append,
        lambda e: None,
        writers=1,
        storage=storage,
    ) as desk:
        calls = [[planned(id_)] for id_ in "abc"]
        assert [row.id for row in render(calls, executor, desk, Stop(), window=5)] == ["a", "b", "c"]
    assert submitted[0] == ("a", False)
    assert submitted[2] == ("c", False)


def test_the_end_of_storage_cancels_what_runs_and_raises(
    executor: FakeExecutor, rows: list[Result], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()

    def on_submit(id_: str) -> None:
        if id_ == "b":
            executor.begin("b")  # its forward runs, for hours
            shutil.rmtree(out)
            executor.finish("a")

    executor.on_submit = on_submit
    with Desk(
        OutputConfig(output_dir=str(out)), lambda request: MODEL, rows.append, lambda event: None, writers=1
    ) as desk:
        calls = [[planned(id_)] for id_ in "abc"]
        reader = ThreadPoolExecutor(1)
        rendering = reader.submit(list, render(calls, executor, desk, Stop(), window=2))
        with pytest.raises(StorageLost, match="is not there any more"):
            rendering.result(PATIENCE_S)
        reader.shutdown()
    assert executor.submitted == [["a"], ["b"]]
    assert isinstance(executor.handles["b"].output_ready.exception(0), RequestCancelled)
    assert not out.exists()
    assert rows == []
    assert executor.memory.held == []
