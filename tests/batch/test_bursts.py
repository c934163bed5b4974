"""Requests that come in their own time: nothing waits for the next one, nothing is lost, and a stop ends the waiting."""

import queue
import threading
from collections.abc import Iterator

import pytest

from omni_cli.batch import Stop, bursts
from omni_cli.request import GenerationRequest, PlannedRequest


def request(number: int) -> PlannedRequest:
    return PlannedRequest(
        request=GenerationRequest(id=str(number)), index=number, seeds=(0,), files=("f",), fingerprint=""
    )


def ids(burst: Iterator[PlannedRequest]) -> list[str]:
    return [planned.id for planned in burst]


@pytest.fixture
def feed() -> "queue.SimpleQueue[PlannedRequest | BaseException | None]":
    return queue.SimpleQueue()


def source(
    feed: "queue.SimpleQueue[PlannedRequest | BaseException | None]", taken: threading.Semaphore
) -> Iterator[PlannedRequest]:
    while (item := feed.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        taken.release()
        yield item


def test_each_request_is_given_while_the_source_is_still_open(feed) -> None:
    walk = bursts(source(feed, threading.Semaphore(0)), Stop(), 10)
    for number in range(3):
        feed.put(request(number))
        assert ids(next(walk)) == [str(number)]
    feed.put(None)
    assert list(walk) == []


def test_what_has_come_meanwhile_comes_together_and_in_order(feed) -> None:
    taken = threading.Semaphore(0)
    walk = bursts(source(feed, taken), Stop(), 10)
    feed.put(request(0))
    first = next(walk)
    for number in range(1, 5):
        feed.put(request(number))
    feed.put(None)
    for _ in range(5):
        taken.acquire()
    rest = [name for burst in [first, *walk] for name in ids(burst)]
    assert rest == ["0", "1", "2", "3", "4"]


def test_no_more_wait_in_memory_than_said(feed) -> None:
    taken = threading.Semaphore(0)
    walk = bursts(source(feed, taken), Stop(), 3)
    for number in range(10):
        feed.put(request(number))
    feed.put(None)
    first = next(walk)  # took one; three wait, one more is in the hand of the thread that could not put it down
    for _ in range(4):
        taken.acquire()
    assert sum(taken.acquire(timeout=0.05) for _ in range(2)) <= 1
    assert [name for burst in [first, *walk] for name in ids(burst)] == [str(number) for number in range(10)]


def test_an_error_of_the_source_comes_after_what_was_before_it(feed) -> None:
    walk = bursts(source(feed, threading.Semaphore(0)), Stop(), 10)
    feed.put(request(0))
    feed.put(OSError("the pipe broke"))
    seen: list[str] = []

    def use_up() -> None:
        for burst in walk:
            seen.extend(ids(burst))

    with pytest.raises(OSError, match="the pipe broke"):
        use_up()
    assert seen == ["0"]


def test_a_stop_ends_the_waiting_for_a_source_that_says_nothing(feed) -> None:
    stop = Stop()
    walk = bursts(source(feed, threading.Semaphore(0)), stop, 10)
    feed.put(request(0))
    assert ids(next(walk)) == ["0"]
    threading.Timer(0.05, stop.request).start()
    assert list(walk) == []
