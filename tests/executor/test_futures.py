"""A request's futures end once, and wake threads that wait for them in any way."""

import concurrent.futures

import pytest

from omni_cli.errors import RequestCancelled
from omni_cli.executor.futures import cancel, fail, mark_running, set_result
from omni_cli.executor.protocol import Handle
from tests.executor.fake_worker import FORWARD
from tests.factories import planned_call


@pytest.fixture
def handle() -> Handle:
    return Handle(planned_call("a")[0], "batch-1/a")


def test_cancelling_an_unsent_request_cancels_both_futures_and_wakes_waiters(handle: Handle) -> None:
    cancel(handle)
    assert handle.compute_done.cancelled()
    assert handle.output_ready.cancelled()
    done, not_done = concurrent.futures.wait([handle.compute_done, handle.output_ready], 0)
    assert (len(done), len(not_done)) == (2, 0)


def test_cancelling_a_sent_request_fails_it_with_request_cancelled(handle: Handle) -> None:
    assert mark_running(handle)
    assert not handle.output_ready.cancel()
    cancel(handle)
    for future in (handle.compute_done, handle.output_ready):
        with pytest.raises(RequestCancelled, match="request 'a' was cancelled"):
            future.result(0)


def test_running_request_can_be_marked_again_and_a_cancelled_one_cannot(handle: Handle) -> None:
    assert mark_running(handle)
    assert mark_running(handle), "a requeued request is sent again"
    other = Handle(planned_call("b")[0], "batch-1/b")
    other.output_ready.cancel()
    assert not mark_running(other)
    assert concurrent.futures.wait([other.output_ready], 0).not_done == set()


def test_result_or_error_of_a_finished_future_is_dropped(handle: Handle) -> None:
    set_result(handle.compute_done, FORWARD)
    fail(handle, RequestCancelled("late"))
    set_result(handle.compute_done, FORWARD)
    assert handle.compute_done.result(0) == FORWARD
    assert isinstance(handle.output_ready.exception(0), RequestCancelled)
    cancelled = Handle(planned_call("b")[0], "batch-1/b")
    cancelled.compute_done.cancel()
    set_result(cancelled.compute_done, FORWARD)
    assert cancelled.compute_done.cancelled()
