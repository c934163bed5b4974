"""The pump tells its handler of messages, deaths and deadlines, from one thread, and survives what the handler does."""

import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from omni_cli.errors import ProtocolError
from omni_cli.executor.launch import start_worker
from omni_cli.executor.link import Link
from omni_cli.executor.pump import Pump
from omni_cli.transport import messages as m
from tests.executor.puppet import PATIENCE_S, Puppet, Stage


class Recorder:
    """A handler that writes down what it is told."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.deadline: float | None = None
        self.raises: dict[str, Exception] = {}
        self.threads: set[str] = set()

    def on_message(self, link: Link, message: m.FromWorker, fds: list[int]) -> None:
        self.tell("message", link.index, message)

    def on_death(self, link: Link) -> None:
        link.process.end(PATIENCE_S)
        self.tell("death", link.index, link.verdict)

    def on_tick(self, now: float) -> None:
        if self.deadline is not None and now >= self.deadline:
            self.deadline = None
            self.tell("tick")

    def next_deadline(self) -> float | None:
        return self.deadline

    def on_fault(self, error: Exception) -> None:
        self.told.put(("fault", type(error).__name__))

    def tell(self, what: str, *more: Any) -> None:
        self.threads.add(threading.current_thread().name)
        self.told.put((what, *more))
        if error := self.raises.pop(what, None):
            raise error

    def next(self) -> tuple[Any, ...]:
        return self.told.get(timeout=PATIENCE_S)


class Watched:
    """A pump over a few puppets."""

    def __init__(self, stage: Stage) -> None:
        self.handler = Recorder()
        self.pump = Pump(self.handler)
        self.links: list[Link] = []
        self._stage = stage

    def add(self) -> Puppet:
        self.links.append(Link(len(self.links), start_worker(self._stage.command), 0.0))
        self.pump.watch(self.links[-1])
        return self._stage.next()


@pytest.fixture
def watched(stage: Stage) -> Iterator[Watched]:
    watched = Watched(stage)
    yield watched
    for link in watched.links:
        link.process.end(0)
    watched.pump.stop()
    for link in watched.links:
        link.process.dispose()


HELLO = m.Hello(pid=1)


def test_messages_are_told_in_order_from_the_pumps_thread_also_of_a_worker_that_came_later(watched: Watched) -> None:
    first = watched.add()
    watched.pump.start()
    first.send(HELLO)
    first.send(m.Loading(what="x"))
    assert watched.handler.next() == ("message", 0, HELLO)
    assert watched.handler.next() == ("message", 0, m.Loading(what="x"))
    second = watched.add()
    second.send(HELLO)
    assert watched.handler.next() == ("message", 1, HELLO)
    assert watched.handler.threads == {"result-pump"}


def test_what_a_worker_sent_is_told_before_its_death_and_its_death_once(watched: Watched) -> None:
    worker = watched.add()
    for _ in range(3):
        worker.send(HELLO)
    worker.die("os._exit(1)")
    watched.links[0].process.process.wait()
    watched.pump.start()
    assert [watched.handler.next() for _ in range(4)] == [("message", 0, HELLO)] * 3 + [("death", 0, None)]
    watched.pump.stop()
    assert watched.handler.told.empty()
    watched.pump = Pump(watched.handler)


def test_stopping_takes_in_what_the_dead_had_sent_last(watched: Watched) -> None:
    worker = watched.add()
    worker.send(HELLO)
    worker.die("os._exit(0)")
    watched.links[0].process.process.wait()
    watched.pump._stopping = True  # as if `stop` came between the message and the pump's look at it
    watched.pump.start()
    assert watched.handler.next() == ("message", 0, HELLO)
    assert watched.handler.next() == ("death", 0, None)


def test_a_worker_without_a_sentinel_is_told_by_its_channel(watched: Watched) -> None:
    worker = watched.add()
    worker.channel.close()
    worker.die("os._exit(1)")
    process = watched.links[0].process
    process.end(PATIENCE_S)
    sentinel, process.sentinel = process.sentinel, None
    watched.pump.start()
    assert watched.handler.next() == ("death", 0, None)
    process.sentinel = sentinel


def test_garbage_is_the_workers_fault_and_others_go_on(watched: Watched) -> None:
    bad, good = watched.add(), watched.add()
    watched.pump.start()
    bad.write(b"not a message")
    what, index, verdict = watched.handler.next()
    assert (what, index) == ("death", 0)
    assert verdict.startswith(
        "sent something it must not and was killed: the channel carries something that is not a message"
    )
    assert watched.links[0].process.process.returncode == -9
    good.send(HELLO)
    assert watched.handler.next() == ("message", 1, HELLO)


def test_a_message_that_the_handler_refuses_is_the_workers_fault(watched: Watched) -> None:
    worker = watched.add()
    watched.handler.raises["message"] = ProtocolError("out of turn")
    watched.pump.start()
    worker.send(HELLO)
    assert watched.handler.next() == ("message", 0, HELLO)
    assert watched.handler.next() == ("death", 0, "sent something it must not and was killed: out of turn")


@pytest.mark.parametrize("what", ["message", "death", "tick"])
def test_a_fault_of_the_handler_is_told_and_the_pump_goes_on(watched: Watched, what: str) -> None:
    bad, good = watched.add(), watched.add()
    watched.handler.raises[what] = ZeroDivisionError()
    watched.pump.start()
    match what:
        case "message":
            bad.send(HELLO)
        case "death":
            bad.die("os._exit(1)")
        case "tick":
            watched.handler.deadline = time.monotonic()
            watched.pump.wake()
    assert watched.handler.next()[0] == what
    assert watched.handler.next() == ("fault", "ZeroDivisionError")
    good.send(HELLO)
    assert watched.handler.next() == ("message", 1, HELLO)


def test_a_deadline_wakes_the_pump(watched: Watched) -> None:
    watched.handler.deadline = time.monotonic() + 0.02
    watched.pump.start()
    assert watched.handler.next() == ("tick",)
    assert watched.handler.deadline is None
