"""Every request ends in one queue entry, its memory released, its row appended after its files are in place."""

import dataclasses
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omni_cli.batch import OutputWriter
from omni_cli.errors import EngineError, ForwardError, RequestCancelled, WorkerDied
from omni_cli.events import AnyEvent, EncodeDone, EncodeStarted, RequestFinished
from omni_cli.executor.protocol import Handle
from omni_cli.request import Result
from tests.batch.conftest import MODEL, PATIENCE_S, MakeWriter, OutputMemory, next_row
from tests.factories import planned


def expect(writer: OutputWriter, *files: str) -> Handle:
    """Announce request "a" to the writer."""
    handle = Handle(planned("a", *files), "b/a")
    writer.expect(handle)
    return handle


def test_an_output_becomes_files_a_row_and_events_and_is_released(
    writer: OutputWriter, memory: OutputMemory, rows: list[Result], events: list[AnyEvent], tmp_path: Path
) -> None:
    handle = expect(writer, "a-0.png", "deep/a-1.png")
    handle.output_ready.set_result(memory.output(handle.planned, attempts=2))
    row = next_row(writer)
    assert (row.status, row.attempts, row.model, row.error) == ("done", 2, MODEL, None)
    assert [(file.path, file.width, file.height) for file in row.files] == [
        ("a-0.png", 2, 2),
        ("deep/a-1.png", 2, 2),
    ]
    for number, file in enumerate(row.files):
        assert set(np.asarray(Image.open(tmp_path / file.path)).ravel()) == {100 + number}
    assert rows == [row]
    assert memory.unreleased == []
    assert (row.timings.queued, row.timings.forward, row.timings.d2h) == (1, 3, 1)
    assert row.timings.encode > 0
    assert [type(event) for event in events] == [EncodeStarted, EncodeDone, RequestFinished]


def test_the_row_is_appended_after_the_files_and_before_the_queue_entry(
    make_writer: MakeWriter, memory: OutputMemory, tmp_path: Path
) -> None:
    seen: list[bool] = []

    def append(row: Result) -> None:
        seen.append((tmp_path / "a.png").exists() and writer.ended.empty())

    with make_writer(append=append) as writer:
        handle = expect(writer)
        handle.output_ready.set_result(memory.output(handle.planned))
        next_row(writer)
    assert seen == [True]


def test_an_output_that_is_ready_before_it_is_expected_is_written_too(
    writer: OutputWriter, memory: OutputMemory
) -> None:
    handle = Handle(planned("a"), "b/a")
    handle.output_ready.set_result(memory.output(handle.planned))
    writer.expect(handle)
    assert next_row(writer).status == "done"


def test_a_failed_request_has_a_row_with_its_kind_and_reason(writer: OutputWriter, rows: list[Result]) -> None:
    expect(writer).output_ready.set_exception(ForwardError("no luck", attempts=3))
    row = next_row(writer)
    assert (row.status, row.files, row.attempts) == ("failed", (), 3)
    assert row.error is not None
    assert (row.error.kind, row.error.message) == ("forward_failed", "no luck")
    assert rows == [row]


@pytest.mark.parametrize("how", ["future", "error"])
def test_a_cancelled_request_has_no_row_in_the_journal(writer: OutputWriter, rows: list[Result], how: str) -> None:
    handle = expect(writer)
    if how == "future":
        handle.output_ready.cancel()
    else:
        handle.output_ready.set_exception(RequestCancelled("by the user"))
    assert next_row(writer).status == "cancelled"
    assert rows == []


def test_a_file_that_cannot_be_written_fails_its_request_and_releases_its_output(
    writer: OutputWriter, memory: OutputMemory, tmp_path: Path
) -> None:
    (tmp_path / "deep").write_text("a file where a folder is needed")
    handle = expect(writer, "deep/a.png")
    handle.output_ready.set_result(memory.output(handle.planned))
    row = next_row(writer)
    assert row.error is not None
    assert (row.status, row.error.kind) == ("failed", "write_failed")
    assert row.timings.forward == 3
    assert memory.unreleased == []


def test_a_payload_that_does_not_match_its_header_fails_its_request(writer: OutputWriter, memory: OutputMemory) -> None:
    handle = expect(writer)
    handle.output_ready.set_result(memory.output(handle.planned, buffer=memoryview(b"short")))
    row = next_row(writer)
    assert row.error is not None
    assert row.error.kind == "media_contract"
    assert memory.unreleased == []


def test_the_death_of_the_engine_is_queued_as_an_error_and_not_as_a_row(
    writer: OutputWriter, rows: list[Result]
) -> None:
    expect(writer).output_ready.set_exception(WorkerDied("gone"))
    assert isinstance(writer.ended.get(timeout=PATIENCE_S), WorkerDied)
    assert rows == []


def test_a_journal_that_cannot_be_written_ends_the_run(make_writer: MakeWriter, memory: OutputMemory) -> None:
    def append(row: Result) -> None:
        raise OSError(28, "No space left on device")

    with make_writer(append=append) as writer:
        handle = expect(writer)
        handle.output_ready.set_result(memory.output(handle.planned))
        entry = writer.ended.get(timeout=PATIENCE_S)
    assert isinstance(entry, EngineError)
    assert "finishing request 'a' failed: OSError" in str(entry)
    assert memory.unreleased == []


def test_closing_finishes_the_outputs_that_are_ready(
    make_writer: MakeWriter, memory: OutputMemory, rows: list[Result]
) -> None:
    with make_writer() as writer:
        for n in range(5):
            handle = Handle(planned(f"r{n}"), f"b/r{n}")
            writer.expect(handle)
            handle.output_ready.set_result(memory.output(handle.planned))
    assert sorted(row.id for row in rows) == [f"r{n}" for n in range(5)]
    assert memory.unreleased == []


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="only Linux has priorities per thread")
def test_background_threads_have_lower_priority_than_the_main_thread(
    make_writer: MakeWriter, memory: OutputMemory
) -> None:
    niceness: list[int] = []

    def append(row: Result) -> None:
        niceness.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    with make_writer(append=append, background=True) as writer:
        handle = expect(writer)
        handle.output_ready.set_result(memory.output(handle.planned))
        next_row(writer)
    assert niceness[0] == max(before, 5)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_an_output_that_was_stopped_early_has_a_fingerprint_of_its_own(
    writer: OutputWriter, memory: OutputMemory, rows: list[Result]
) -> None:
    handle = expect(writer)
    handle.output_ready.set_result(dataclasses.replace(memory.output(handle.planned), stopped_at=5))
    row = next_row(writer)
    assert row.status == "done"
    assert row.fingerprint == f"{handle.planned.fingerprint}-stopped-at-5"
    assert rows == [row]
