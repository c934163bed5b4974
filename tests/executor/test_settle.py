"""The futures of a request end once, and whoever waits for them in whatever way is woken."""

import concurrent.futures

import pytest

from omni_cli.errors import RequestCancelled
from omni_cli.executor.protocol import Handle
from omni_cli.executor.settle import cancel, claim, fail, resolve
from tests.executor.puppet import FORWARD, planned


@pytest.fixture
def handle() -> Handle:
    return Handle(planned("a")[0], "batch-1/a")


def test_a_request_that_was_not_sent_is_cancelled_for_every_kind_of_waiter(handle: Handle) -> None:
    cancel(handle)
    assert handle.compute_done.cancelled()
    assert handle.output_ready.cancelled()
    done, not_done = concurrent.futures.wait([handle.compute_done, handle.output_ready], 0)
    assert (len(done), len(not_done)) == (2, 0)


def test_a_request_that_was_sent_ends_with_an_error_that_says_so(handle: Handle) -> None:
    assert claim(handle)
    assert not handle.output_ready.cancel()
    cancel(handle)
    for future in (handle.compute_done, handle.output_ready):
        with pytest.raises(RequestCancelled, match="request 'a' was cancelled"):
            future.result(0)


def test_one_cancelled_by_its_holder_cannot_be_claimed_and_one_claimed_can_be_again(handle: Handle) -> None:
    assert claim(handle)
    assert claim(handle), "a requeued request is sent again"
    other = Handle(planned("b")[0], "batch-1/b")
    other.output_ready.cancel()
    assert not claim(other)
    assert concurrent.futures.wait([other.output_ready], 0).not_done == set()


def test_what_comes_too_late_is_dropped(handle: Handle) -> None:
    resolve(handle.compute_done, FORWARD)
    fail(handle, RequestCancelled("late"))
    resolve(handle.compute_done, FORWARD)
    assert handle.compute_done.result(0) == FORWARD
    assert isinstance(handle.output_ready.exception(0), RequestCancelled)
    gone = Handle(planned("b")[0], "batch-1/b")
    gone.compute_done.cancel()
    resolve(gone.compute_done, FORWARD)
    assert gone.compute_done.cancelled()
