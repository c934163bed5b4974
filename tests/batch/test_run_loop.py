"""The main loop: bounded, in completion order, and without leftovers however it ends."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omni_cli.batch import OutputWriter, Stop, render
from omni_cli.errors import ForwardError, WorkerDied
from omni_cli.request import PlannedRequest, Result
from tests.batch.conftest import PATIENCE_S, FakeExecutor
from tests.factories import planned


class Calls:
    """Calls of one request each; counts how many were read."""

    def __init__(self, *ids: str, fault: Exception | None = None) -> None:
        self.read = 0
        self._ids = ids
        self._fault = fault

    def __iter__(self) -> Iterator[Sequence[PlannedRequest]]:
        for id_ in self._ids:
            self.read += 1
            yield [planned(id_)]
        if self._fault is not None:
            raise self._fault


def test_rows_come_in_completion_order(executor: FakeExecutor, writer: OutputWriter) -> None:
    rows = render(Calls("a", "b", "c"), executor, writer, Stop(), lambda: 10)
    with ThreadPoolExecutor(1) as reader:
        first = reader.submit(next, rows)
        executor.wait_until_submitted(3)
        for id_ in "bac":
            executor.finish(id_)
            assert first.result(PATIENCE_S).id == id_
            first = reader.submit(lambda: next(rows, None))
        assert first.result(PATIENCE_S) is None


def test_no_more_than_the_window_is_open_and_calls_are_not_read_ahead(
    executor: FakeExecutor, writer: OutputWriter
) -> None:
    source = Calls(*"abcdefgh")
    rows = render(source, executor, writer, Stop(), lambda: 3)
    done: list[str] = []
    reader = threading.Thread(target=lambda: done.extend(row.id for row in rows))
    reader.start()
    executor.wait_until_submitted(3)
    assert source.read <= 4
    for count, id_ in enumerate("abcdefgh", 1):
        executor.wait_until_submitted(min(count + 2, 8))
        assert len(executor.submitted) <= count + 2
        executor.finish(id_)
    reader.join(PATIENCE_S)
    assert sorted(done) == list("abcdefgh")


def test_a_call_larger_than_the_window_runs_alone(executor: FakeExecutor, writer: OutputWriter) -> None:
    executor.on_submit = executor.finish
    calls = [[planned("a")], [planned(f"b{n}") for n in range(5)], [planned("c")]]
    assert len(list(render(calls, executor, writer, Stop(), lambda: 2))) == 7
    assert [len(call) for call in executor.submitted] == [1, 5, 1]


def test_a_failed_request_is_a_row_among_others(executor: FakeExecutor, writer: OutputWriter) -> None:
    executor.on_submit = lambda id_: executor.fail(id_, ForwardError("x")) if id_ == "b" else executor.finish(id_)
    results = {row.id: row.status for row in render(Calls("a", "b", "c"), executor, writer, Stop(), lambda: 1)}
    assert results == {"a": "done", "b": "failed", "c": "done"}


def test_after_a_stop_running_requests_finish_waiting_ones_are_cancelled_and_none_is_submitted(
    executor: FakeExecutor, writer: OutputWriter
) -> None:
    stop, source = Stop(), Calls(*"abcdef")
    rows = render(source, executor, writer, stop, lambda: 3)
    with ThreadPoolExecutor(1) as reader:
        results = reader.submit(lambda: {row.id: row.status for row in rows})
        executor.wait_until_submitted(3)
        executor.begin("a")
        stop.request()
        executor.wait_until_nothing_waits()
        executor.handles["a"].output_ready.set_result(executor.memory.output(executor.handles["a"].planned))
        assert results.result(PATIENCE_S) == {"a": "done", "b": "cancelled", "c": "cancelled"}
    assert len(executor.submitted) == 3


def test_a_stop_before_the_first_request_submits_nothing(executor: FakeExecutor, writer: OutputWriter) -> None:
    stop = Stop()
    stop.request()
    assert list(render(Calls("a", "b"), executor, writer, stop, lambda: 3)) == []
    assert executor.submitted == []


def test_when_the_engine_dies_finished_outputs_are_written_before_its_error_is_raised(
    executor: FakeExecutor, writer: OutputWriter
) -> None:
    def on_submit(id_: str) -> None:
        if id_ == "b":
            executor.finish("a")
            executor.fail("b", WorkerDied("gone"))
            executor.broken = WorkerDied("gone")

    executor.on_submit = on_submit
    results: list[str] = []
    with pytest.raises(WorkerDied, match="gone"):
        results.extend(row.id for row in render(Calls(*"abcdef"), executor, writer, Stop(), lambda: 2))
    assert results == ["a"]
    assert executor.submitted == [["a"], ["b"]]


def test_an_engine_that_is_dead_at_submit_ends_the_run_after_the_open_requests(
    executor: FakeExecutor, writer: OutputWriter
) -> None:
    results: list[str] = []

    def on_submit(id_: str) -> None:
        executor.broken = WorkerDied("gone")

    executor.on_submit = on_submit

    def read_rows() -> None:
        results.extend(row.id for row in render(Calls("a", "b", "c"), executor, writer, Stop(), lambda: 5))

    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(read_rows)
        executor.wait_until_submitted(1)
        executor.finish("a")
        with pytest.raises(WorkerDied, match="gone"):
            reading.result(PATIENCE_S)
    assert results == ["a"]


def test_leaving_the_loop_early_leaves_no_output_unreleased(
    executor: FakeExecutor, writer: OutputWriter, rows: list[Result], tmp_path: Path
) -> None:
    def on_submit(id_: str) -> None:
        if id_ == "a":
            executor.finish("a")
        if id_ == "d":
            executor.begin("b")  # runs while the caller leaves

    executor.on_submit = on_submit
    running = render(Calls(*"abcdefgh"), executor, writer, Stop(), lambda: 5)
    assert next(running).id == "a"
    executor.on_submit = lambda id_: None
    if "b" in executor.waiting:
        executor.begin("b")
    leaving = threading.Thread(target=running.close)
    leaving.start()
    executor.wait_until_nothing_waits()
    executor.handles["b"].output_ready.set_result(executor.memory.output(executor.handles["b"].planned))
    leaving.join(PATIENCE_S)
    assert not leaving.is_alive()
    assert sorted(row.id for row in rows) == ["a", "b"]
    assert (tmp_path / "b.png").exists()
    assert executor.memory.unreleased == []
    again = render(Calls("x"), executor, writer, Stop(), lambda: 5)
    executor.on_submit = executor.finish
    assert [row.id for row in again] == ["x"]


def test_calls_that_raise_leave_no_output_unreleased(
    executor: FakeExecutor, writer: OutputWriter, rows: list[Result]
) -> None:
    executor.on_submit = lambda id_: executor.finish(id_) if id_ == "a" else None
    with pytest.raises(OSError, match="read error"):
        list(render(Calls("a", "b", fault=OSError("read error")), executor, writer, Stop(), lambda: 5))
    assert executor.handles["b"].output_ready.cancelled()
    assert [row.id for row in rows] == ["a"]
    assert executor.memory.unreleased == []
    assert writer.ended.empty()
