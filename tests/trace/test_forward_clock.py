"""The estimate of how much longer running forwards take."""

import pytest

from omni_cli.events import AnyEvent, ForwardDone, ForwardStarted, ForwardStep, RequestFinished
from omni_cli.request import Interval
from omni_cli.trace import ForwardClock
from tests.factories import result


def clock(*events: AnyEvent) -> ForwardClock:
    observer = ForwardClock()
    for event in events:
        observer(event)
    return observer


def started(at: float, *ids: str, worker: int = 0) -> ForwardStarted:
    return ForwardStarted(at=at, worker=worker, ids=ids)


def forward(start: float, end: float, *ids: str) -> ForwardDone:
    return ForwardDone(at=end, worker=0, ids=ids, forward=Interval(start, end))


def test_nothing_running_takes_no_time() -> None:
    assert clock().seconds_left(5) == 0
    assert clock(started(0, "a"), forward(0, 4, "a")).seconds_left(5) == 0


def test_nothing_is_known_of_a_first_forward_without_steps() -> None:
    assert clock(started(0, "a")).seconds_left(5) is None


def test_a_forward_lasts_as_long_as_the_longest_before_and_its_output_too() -> None:
    done = RequestFinished(at=11, result=result("a"))
    running = clock(started(0, "a"), forward(0, 10, "a"), started(10, "b"), done)
    assert running.seconds_left(13) == pytest.approx(7 + 1)
    assert running.seconds_left(40) is None  # it takes longer than any before


def test_steps_tell_of_a_longer_forward() -> None:
    steps = [ForwardStep(at=10 + 2 * n, worker=0, ids=("b",), step=n, total=20) for n in (1, 2)]
    running = clock(started(0, "a"), forward(0, 10, "a"), started(10, "b"), *steps)
    assert running.seconds_left(14) == pytest.approx(36)


def test_the_slowest_of_several_workers_counts() -> None:
    running = clock(started(0, "a"), forward(0, 10, "a"), started(10, "b"), started(15, "c", worker=1))
    assert running.seconds_left(16) == pytest.approx(9)


@pytest.mark.parametrize(("timeout", "left"), [(4.0, 1.0), (60.0, 7.0)])
def test_the_forward_timeout_is_a_limit(timeout: float, left: float) -> None:
    running = clock(started(0, "a"), forward(0, 10, "a"), started(10, "b"))
    assert running.seconds_left(13, timeout) == pytest.approx(left)
    assert clock(started(10, "b")).seconds_left(13, timeout) == pytest.approx(timeout - 3)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_request_that_ends_in_its_forward_runs_no_more(status: str) -> None:
    ended = RequestFinished(at=12, result=result("b", status))  # type: ignore[arg-type]
    assert clock(started(10, "b"), ended).seconds_left(13) == 0


def test_the_late_end_of_the_forward_before_leaves_the_next_one_running() -> None:
    """An accelerator reports the end of a forward after the next one was begun."""
    running = clock(started(0, "a"), started(1, "b"), forward(0, 10, "a"))
    assert running.seconds_left(5) == pytest.approx(6)
