"""A live source: no request waits for the next, none is lost, and a stop ends the wait."""

import queue
import threading
from collections.abc import Iterator

import pytest

from omni_cli.batch import Stop, micro_batches
from omni_cli.request import PlannedRequest
from tests.factories import planned


def ids(batch: Iterator[PlannedRequest]) -> list[str]:
    return [planned.id for planned in batch]


@pytest.fixture
def feed() -> "queue.SimpleQueue[PlannedRequest | BaseException | None]":
    return queue.SimpleQueue()


def source(
    feed: "queue.SimpleQueue[PlannedRequest | BaseException | None]", read: threading.Semaphore
) -> Iterator[PlannedRequest]:
    while (item := feed.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        read.release()
        yield item


def test_each_request_is_yielded_while_the_source_is_still_open(feed) -> None:
    batches = micro_batches(source(feed, threading.Semaphore(0)), Stop(), 10)
    for number in range(3):
        feed.put(planned(str(number)))
        assert ids(next(batches)) == [str(number)]
    feed.put(None)
    assert list(batches) == []


def test_requests_that_arrived_meanwhile_come_together_and_in_order(feed) -> None:
    read = threading.Semaphore(0)
    batches = micro_batches(source(feed, read), Stop(), 10)
    feed.put(planned("0"))
    first = next(batches)
    for number in range(1, 5):
        feed.put(planned(str(number)))
    feed.put(None)
    for _ in range(5):
        read.acquire()
    rest = [name for batch in [first, *batches] for name in ids(batch)]
    assert rest == ["0", "1", "2", "3", "4"]


def test_no_more_requests_wait_in_memory_than_allowed(feed) -> None:
    read = threading.Semaphore(0)
    batches = micro_batches(source(feed, read), Stop(), 3)
    for number in range(10):
        feed.put(planned(str(number)))
    feed.put(None)
    first = next(batches)  # one taken, three queued, and one that the reader thread cannot put
    for _ in range(4):
        read.acquire()
    assert sum(read.acquire(timeout=0.05) for _ in range(2)) <= 1
    assert [name for batch in [first, *batches] for name in ids(batch)] == [str(number) for number in range(10)]


def test_an_error_of_the_source_is_raised_after_the_requests_before_it(feed) -> None:
    batches = micro_batches(source(feed, threading.Semaphore(0)), Stop(), 10)
    feed.put(planned("0"))
    feed.put(OSError("the pipe broke"))
    seen: list[str] = []

    def consume() -> None:
        for batch in batches:
            seen.extend(ids(batch))

    with pytest.raises(OSError, match="the pipe broke"):
        consume()
    assert seen == ["0"]


def test_a_stop_ends_the_wait_for_a_silent_source(feed) -> None:
    stop = Stop()
    batches = micro_batches(source(feed, threading.Semaphore(0)), stop, 10)
    feed.put(planned("0"))
    assert ids(next(batches)) == ["0"]
    threading.Timer(0.05, stop.request).start()
    assert list(batches) == []
