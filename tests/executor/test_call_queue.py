"""The call queue: order, assignment to workers, requeueing, and the end of calls."""

from itertools import count

import pytest

from omni_cli.errors import EngineError
from omni_cli.executor.call import MAX_ATTEMPTS, RequestEntry
from omni_cli.executor.call_queue import CallQueue
from omni_cli.transport.messages import ExecuteModel
from tests.executor.fake_worker import FORWARD
from tests.factories import planned_call

WORKERS = (0, 1)
DEPTH = 2
OUTPUT_TIMEOUT = 100.0


def send(queue: CallQueue, *workers: int) -> ExecuteModel:
    """Return the message of the next call, which must exist."""
    assignment = queue.take_next(workers or (0,))
    assert assignment is not None
    assert isinstance(assignment.message, ExecuteModel)
    return assignment.message


def ids(entries: tuple[RequestEntry, ...]) -> list[str]:
    return [entry.handle.planned.id for entry in entries]


@pytest.fixture
def queue() -> CallQueue:
    return CallQueue(DEPTH, OUTPUT_TIMEOUT, count(1).__next__)


def test_call_needs_requests_with_different_ids(queue: CallQueue) -> None:
    for requests in ([], planned_call("a", "a")):
        with pytest.raises(ValueError, match="different ids"):
            queue.add(requests)
    assert queue.describe() == []


def test_close_returns_all_requests_and_refuses_further_calls(queue: CallQueue) -> None:
    queue.add(planned_call("a"))
    queue.add(planned_call("b", "c"))
    send(queue)
    assert sorted(ids(queue.close(EngineError("first")))) == ["a", "b", "c"]
    assert queue.close(EngineError("second")) == ()
    with pytest.raises(EngineError, match="first"):
        queue.add(planned_call("d"))
    assert (queue.describe(), queue.take_next([0]), queue.next_deadline()) == ([], None, None)


def test_least_loaded_worker_gets_the_next_call(queue: CallQueue) -> None:
    for id_ in "abcde":
        queue.add(planned_call(id_))
    workers = [assignment.worker for _ in range(4) if (assignment := queue.take_next(WORKERS))]
    assert workers == [0, 1, 0, 1]
    assert queue.take_next(WORKERS) is None


def test_calls_of_a_dead_worker_go_to_the_front_in_their_order(queue: CallQueue) -> None:
    for batch in ("a", "bc", "de", "f"):
        queue.add(planned_call(*batch))
    first, second = send(queue), send(queue)
    queue.mark_computed(first.rpc_id, FORWARD)
    third = send(queue)
    queue.mark_started(second.rpc_id)
    assert queue.requeue(0) == ()
    order = []
    while queue.describe():
        message = send(queue)
        order.append("".join(request.id for request in message.requests))
        queue.remove_failed(message.rpc_id)
    assert order == ["a", "b", "c", "de", "f"]
    assert third.requests[0].id == "d"


def test_request_whose_output_never_arrives_is_exhausted_after_max_attempts(queue: CallQueue) -> None:
    queue.add(planned_call("a"))
    for attempt in range(1, MAX_ATTEMPTS + 1):
        message = send(queue)
        queue.mark_started(message.rpc_id)
        queue.mark_computed(message.rpc_id, FORWARD)
        assert ids(queue.requeue(0)) == (["a"] if attempt == MAX_ATTEMPTS else [])


@pytest.mark.parametrize("outputs_first", [False, True])
def test_finished_call_leaves_the_queue_with_its_deadline(queue: CallQueue, outputs_first: bool) -> None:
    handles = queue.add(planned_call("a", "b"))
    message = send(queue)
    queue.mark_started(message.rpc_id)
    if outputs_first:
        assert [queue.remove_finished(handle.output_id, 0.0) is not None for handle in handles] == [
            True,
            True,
        ]
        assert len(queue.describe()) == 1, "its ComputeDone is still to come"
    queue.mark_computed(message.rpc_id, FORWARD)
    if not outputs_first:
        assert queue.next_deadline() is not None
        assert [queue.remove_finished(handle.output_id, 0.0) is not None for handle in handles] == [
            True,
            True,
        ]
    assert (queue.describe(), queue.next_deadline()) == ([], None)


def test_answers_to_a_call_of_a_dead_worker_have_no_effect(queue: CallQueue) -> None:
    (handle,) = queue.add(planned_call("a"))
    message = send(queue)
    queue.requeue(0)
    assert queue.mark_started(message.rpc_id) == ()
    assert queue.request_ids(message.rpc_id) == ()
    assert queue.mark_computed(message.rpc_id, FORWARD) == ()
    assert queue.remove_failed(message.rpc_id) == ()
    assert queue.remove_finished(handle.output_id, 0.0) is None
    assert send(queue).requests == message.requests
