"""Every request ends in one entry, its memory given back, its row written after its files are in place."""

import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omni_cli.batch import Desk
from omni_cli.config import OutputConfig
from omni_cli.errors import EngineError, ForwardError, RequestCancelled, WorkerDied
from omni_cli.events import AnyEvent, EncodeDone, EncodeStarted, RequestFinished
from omni_cli.executor.protocol import Handle
from omni_cli.request import Interval, Result
from tests.batch.conftest import MODEL, PATIENCE_S, Memory, planned

ROOT = Path(__file__).parent.parent.parent


def ended(desk: Desk) -> Result:
    entry = desk.ended.get(timeout=PATIENCE_S)
    assert isinstance(entry, Result), entry
    return entry


def test_an_output_becomes_files_a_row_and_events_and_its_memory_is_given_back(
    desk: Desk, memory: Memory, rows: list[Result], events: list[AnyEvent], tmp_path: Path
) -> None:
    handle = Handle(planned("a", "a-0.png", "deep/a-1.png"), "b/a")
    desk.expect(handle)
    handle.output_ready.set_result(memory.output(handle.planned, attempts=2))
    result = ended(desk)
    assert (result.status, result.attempts, result.model, result.error) == ("done", 2, MODEL, None)
    assert [(file.path, file.width, file.height) for file in result.files] == [
        ("a-0.png", 2, 2),
        ("deep/a-1.png", 2, 2),
    ]
    for number, file in enumerate(result.files):
        assert set(np.asarray(Image.open(tmp_path / file.path)).ravel()) == {100 + number}
    assert rows == [result]
    assert memory.held == []
    assert (result.timings.queued, result.timings.forward, result.timings.d2h) == (1, 3, 1)
    assert result.timings.encode > 0
    assert [type(event) for event in events] == [EncodeStarted, EncodeDone, RequestFinished]


def test_the_row_comes_after_the_files_and_before_the_waiter_hears_of_it(memory: Memory, tmp_path: Path) -> None:
    seen: list[bool] = []

    def append(row: Result) -> None:
        seen.append((tmp_path / "a.png").exists() and desk.ended.empty())

    with Desk(
        OutputConfig(output_dir=str(tmp_path)), lambda request: MODEL, append, lambda event: None, writers=1
    ) as desk:
        handle = Handle(planned("a"), "b/a")
        desk.expect(handle)
        handle.output_ready.set_result(memory.output(handle.planned))
        ended(desk)
    assert seen == [True]


def test_an_output_that_was_there_before_it_was_expected_is_finished_too(desk: Desk, memory: Memory) -> None:
    handle = Handle(planned("a"), "b/a")
    handle.output_ready.set_result(memory.output(handle.planned))
    desk.expect(handle)
    assert ended(desk).status == "done"


def test_a_failed_request_has_a_row_with_its_kind_and_reason(desk: Desk, rows: list[Result]) -> None:
    handle = Handle(planned("a"), "b/a")
    desk.expect(handle)
    handle.output_ready.set_exception(ForwardError("no luck", attempts=3))
    result = ended(desk)
    assert (result.status, result.files, result.attempts) == ("failed", (), 3)
    assert result.error is not None
    assert (result.error.kind, result.error.message) == ("forward_failed", "no luck")
    assert rows == [result]


@pytest.mark.parametrize("how", ["future", "error"])
def test_a_cancelled_request_leaves_no_row_so_that_it_is_rendered_the_next_time(
    desk: Desk, rows: list[Result], how: str
) -> None:
    handle = Handle(planned("a"), "b/a")
    desk.expect(handle)
    if how == "future":
        handle.output_ready.cancel()
    else:
        handle.output_ready.set_exception(RequestCancelled("by the user"))
    assert ended(desk).status == "cancelled"
    assert rows == []


def test_a_file_that_cannot_be_written_fails_its_request_and_gives_the_memory_back(
    desk: Desk, memory: Memory, tmp_path: Path
) -> None:
    (tmp_path / "deep").write_text("a file where a folder is needed")
    handle = Handle(planned("a", "deep/a.png"), "b/a")
    desk.expect(handle)
    handle.output_ready.set_result(memory.output(handle.planned))
    result = ended(desk)
    assert result.error is not None
    assert (result.status, result.error.kind) == ("failed", "write_failed")
    assert result.timings.forward == 3
    assert memory.held == []


def test_a_payload_that_is_not_what_its_header_says_fails_its_request(desk: Desk, memory: Memory) -> None:
    handle = Handle(planned("a"), "b/a")
    desk.expect(handle)
    handle.output_ready.set_result(memory.output(handle.planned, buffer=memoryview(b"short")))
    result = ended(desk)
    assert result.error is not None
    assert result.error.kind == "media_contract"
    assert memory.held == []


def test_the_engines_end_is_no_row_of_the_request(desk: Desk, rows: list[Result]) -> None:
    handle = Handle(planned("a"), "b/a")
    desk.expect(handle)
    handle.output_ready.set_exception(WorkerDied("gone"))
    assert isinstance(desk.ended.get(timeout=PATIENCE_S), WorkerDied)
    assert rows == []


def test_a_journal_that_cannot_be_written_ends_the_run_and_leaves_no_waiter(memory: Memory, tmp_path: Path) -> None:
    def append(row: Result) -> None:
        raise OSError(28, "No space left on device")

    with Desk(
        OutputConfig(output_dir=str(tmp_path)), lambda request: MODEL, append, lambda event: None, writers=1
    ) as desk:
        handle = Handle(planned("a"), "b/a")
        desk.expect(handle)
        handle.output_ready.set_result(memory.output(handle.planned))
        entry = desk.ended.get(timeout=PATIENCE_S)
    assert isinstance(entry, EngineError)
    assert "finishing request 'a' failed: OSError" in str(entry)
    assert memory.held == []


def test_leaving_finishes_what_has_begun(memory: Memory, tmp_path: Path, rows: list[Result]) -> None:
    with Desk(
        OutputConfig(output_dir=str(tmp_path)), lambda request: MODEL, rows.append, lambda event: None, writers=1
    ) as desk:
        for n in range(5):
            handle = Handle(planned(f"r{n}"), f"b/r{n}")
            desk.expect(handle)
            handle.output_ready.set_result(memory.output(handle.planned))
    assert sorted(row.id for row in rows) == [f"r{n}" for n in range(5)]
    assert memory.held == []


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="priorities per thread are Linux's")
def test_background_writers_stand_back_and_the_main_thread_does_not(memory: Memory, tmp_path: Path) -> None:
    niceness: list[int] = []

    def append(row: Result) -> None:
        niceness.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    config = OutputConfig(output_dir=str(tmp_path))
    with Desk(config, lambda request: MODEL, append, lambda event: None, writers=1, background=True) as desk:
        handle = Handle(planned("a"), "b/a")
        desk.expect(handle)
        handle.output_ready.set_result(memory.output(handle.planned))
        ended(desk)
    assert niceness[0] == max(before, 5)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_intervals_of_several_files_add_up() -> None:
    from omni_cli.batch.desk import _join

    total = Interval(0.0, 0.0)
    for part in (Interval(10, 12), Interval(20, 23)):
        total = _join(total, part)
    assert total == Interval(10, 15)


@pytest.mark.skipif(sys.platform != "linux", reason="priorities per thread are Linux's")
def test_a_run_that_was_started_nicer_than_that_is_not_made_less_nice() -> None:
    code = (
        "import os, threading; os.nice(12); from omni_cli.batch.cores import yield_cores; yield_cores(); "
        "print(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))"
    )
    before = os.getpriority(os.PRIO_PROCESS, 0)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(done.stdout) == min(19, before + 12)


def test_an_output_that_was_stopped_early_is_not_what_a_whole_run_asks_for(
    desk: Desk, memory: Memory, rows: list[Result]
) -> None:
    handle = Handle(planned("a"), "b/a")
    desk.expect(handle)
    output = memory.output(handle.planned)
    handle.output_ready.set_result(dataclasses.replace(output, stopped_at=5))
    result = ended(desk)
    assert result.status == "done"
    assert result.fingerprint == f"{handle.planned.fingerprint}-stopped-at-5"
    assert rows == [result]
