"""The pump calls its handler from one thread, in order, and survives the exceptions that the handler raises."""

import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from omni_cli.errors import ProtocolError
from omni_cli.executor.pump import GAP_S, TICK_S, Pump
from omni_cli.executor.worker_handle import WorkerHandle, start_worker
from omni_cli.transport import messages as m
from tests.executor.fake_worker import TIMEOUT_S, FakeClock, FakeWorker, Harness

HELLO = m.Hello(pid=1)


class RecordingHandler:
    """A handler that records its calls, and raises where the test says so."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.deadline: float | None = None
        self.raises: dict[str, Exception] = {}
        self.threads: set[str] = set()

    def on_message(self, worker: WorkerHandle, message: m.FromWorker, fds: list[int]) -> None:
        self._record("message", worker.index, message)

    def on_exit(self, worker: WorkerHandle) -> None:
        worker.process.wait_or_kill(TIMEOUT_S)
        self._record("exit", worker.index, worker.kill_reason)

    def on_deadline(self, now: float) -> None:
        if self.deadline is not None and now >= self.deadline:
            self.deadline = None
            self._record("deadline")

    def on_gap(self, seconds: float) -> None:
        self._record("gap", seconds)

    def next_deadline(self) -> float | None:
        return self.deadline

    def on_internal_error(self, error: Exception) -> None:
        self.calls.put(("internal error", type(error).__name__))

    def next(self) -> tuple[Any, ...]:
        """Return the next call."""
        return self.calls.get(timeout=TIMEOUT_S)

    def _record(self, what: str, *more: Any) -> None:
        self.threads.add(threading.current_thread().name)
        self.calls.put((what, *more))
        if error := self.raises.pop(what, None):
            raise error


class PumpUnderTest:
    """A pump over a few fake workers."""

    def __init__(self, harness: Harness) -> None:
        self.handler = RecordingHandler()
        self.clock = FakeClock()
        self.elapsed = FakeClock()
        self.pump = Pump(self.handler, self.clock, self.elapsed)
        self.workers: list[WorkerHandle] = []
        self._harness = harness

    def add(self) -> FakeWorker:
        self.workers.append(start_worker(len(self.workers), 0.0, self._harness.command))
        self.pump.watch(self.workers[-1])
        return self._harness.next()


@pytest.fixture
def pumped(harness: Harness) -> Iterator[PumpUnderTest]:
    pumped = PumpUnderTest(harness)
    yield pumped
    for worker in pumped.workers:
        worker.process.wait_or_kill(0)
    pumped.pump.stop()
    for worker in pumped.workers:
        worker.close()


def test_messages_arrive_in_order_from_the_pump_thread_and_from_workers_added_later(pumped: PumpUnderTest) -> None:
    first = pumped.add()
    pumped.pump.start()
    first.send(HELLO)
    first.send(m.LoadProgress(what="x"))
    assert pumped.handler.next() == ("message", 0, HELLO)
    assert pumped.handler.next() == ("message", 0, m.LoadProgress(what="x"))
    second = pumped.add()
    second.send(HELLO)
    assert pumped.handler.next() == ("message", 1, HELLO)
    assert pumped.handler.threads == {"result-pump"}


def test_messages_are_handled_before_the_exit_and_the_exit_once(pumped: PumpUnderTest) -> None:
    worker = pumped.add()
    for _ in range(3):
        worker.send(HELLO)
    worker.die("os._exit(1)")
    pumped.workers[0].process.popen.wait()
    pumped.pump.start()
    assert [pumped.handler.next() for _ in range(4)] == [("message", 0, HELLO)] * 3 + [("exit", 0, None)]
    pumped.pump.stop()
    assert pumped.handler.calls.empty()
    pumped.pump = Pump(pumped.handler)  # for the fixture, which stops it


def test_stop_handles_the_last_messages_of_dead_workers(pumped: PumpUnderTest) -> None:
    worker = pumped.add()
    worker.send(HELLO)
    worker.die("os._exit(0)")
    pumped.workers[0].process.popen.wait()
    pumped.pump._stopping = True  # as if `stop` was called before the pump saw the message
    pumped.pump.start()
    assert pumped.handler.next() == ("message", 0, HELLO)
    assert pumped.handler.next() == ("exit", 0, None)


def test_end_of_the_channel_is_an_exit_where_there_is_no_sentinel(pumped: PumpUnderTest) -> None:
    worker = pumped.add()
    worker.channel.close()
    worker.die("os._exit(1)")
    process = pumped.workers[0].process
    process.wait_or_kill(TIMEOUT_S)
    sentinel, process.sentinel = process.sentinel, None
    pumped.pump.start()
    assert pumped.handler.next() == ("exit", 0, None)
    process.sentinel = sentinel


def test_worker_that_sends_garbage_is_killed_and_others_go_on(pumped: PumpUnderTest) -> None:
    bad, good = pumped.add(), pumped.add()
    pumped.pump.start()
    bad.write(b"not a message")
    what, index, kill_reason = pumped.handler.next()
    assert (what, index) == ("exit", 0)
    assert kill_reason.startswith("broke the protocol and was killed: ")
    assert pumped.workers[0].process.popen.returncode == -9
    good.send(HELLO)
    assert pumped.handler.next() == ("message", 1, HELLO)


def test_worker_whose_message_the_handler_refuses_is_killed(pumped: PumpUnderTest) -> None:
    worker = pumped.add()
    pumped.handler.raises["message"] = ProtocolError("out of turn")
    pumped.pump.start()
    worker.send(HELLO)
    assert pumped.handler.next() == ("message", 0, HELLO)
    assert pumped.handler.next() == ("exit", 0, "broke the protocol and was killed: out of turn")


@pytest.mark.parametrize("what", ["message", "exit", "deadline"])
def test_exception_of_the_handler_is_an_internal_error_and_the_pump_goes_on(pumped: PumpUnderTest, what: str) -> None:
    bad, good = pumped.add(), pumped.add()
    pumped.handler.raises[what] = ZeroDivisionError()
    pumped.pump.start()
    match what:
        case "message":
            bad.send(HELLO)
        case "exit":
            bad.die("os._exit(1)")
        case "deadline":
            pumped.handler.deadline = pumped.clock.now
            pumped.pump.wake()
    assert pumped.handler.next()[0] == what
    assert pumped.handler.next() == ("internal error", "ZeroDivisionError")
    good.send(HELLO)
    assert pumped.handler.next() == ("message", 1, HELLO)


def test_pump_wakes_at_the_deadline(pumped: PumpUnderTest) -> None:
    pumped.handler.deadline = pumped.clock.now + 1000.0
    pumped.pump.start()
    pumped.clock.now += 1000.0
    pumped.pump.wake()
    assert pumped.handler.next() == ("deadline",)
    assert pumped.handler.deadline is None


def test_pump_waits_no_longer_than_until_the_deadline(harness: Harness) -> None:
    pumped = PumpUnderTest(harness)
    pumped.handler.deadline = pumped.clock.now
    pumped.pump.start()  # nothing wakes it: the time-out of its wait must end
    assert pumped.handler.next() == ("deadline",)
    pumped.pump.stop()


@pytest.mark.parametrize(("seconds", "is_gap"), [(0.5, False), (GAP_S, False), (GAP_S + TICK_S + 1, True)])
@pytest.mark.parametrize("has_waited", [True, False])
def test_time_in_which_the_process_did_not_run_is_reported(
    pumped: PumpUnderTest, seconds: float, is_gap: bool, has_waited: bool
) -> None:
    pumped.handler.deadline = 1e9
    worker = pumped.add()
    pumped.pump.start()
    if has_waited:
        worker.send(HELLO)
        assert pumped.handler.next()[0] == "message"
    time.sleep(0.05)  # until the pump waits
    pumped.elapsed.now += seconds
    worker.send(HELLO)
    calls = [pumped.handler.next()]
    if is_gap:
        assert calls == [("gap", pytest.approx(seconds, abs=TICK_S + 0.1))]
        calls = [pumped.handler.next()]
    assert calls[0][0] == "message"
