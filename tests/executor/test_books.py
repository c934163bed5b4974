"""The books: who is next, who is in front, who is given up, and what is over."""

from itertools import count

import pytest

from omni_cli.errors import EngineError
from omni_cli.executor.books import Books
from omni_cli.executor.call import MAX_ATTEMPTS, Entry
from omni_cli.transport.messages import ExecuteModel
from tests.executor.puppet import FORWARD, planned

WORKERS = (0, 1)
DEPTH = 2
OUTPUT_TIMEOUT = 100.0


def send(books: Books, *workers: int) -> ExecuteModel:
    """The next call, which must exist."""
    sending = books.take_next(workers or (0,))
    assert sending is not None
    assert sending.message is not None
    return sending.message


def ids(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.handle.planned.id for entry in entries]


@pytest.fixture
def books() -> Books:
    return Books(DEPTH, count(1).__next__)


def test_a_call_is_made_of_different_requests(books: Books) -> None:
    for wrong in ([], planned("a", "a")):
        with pytest.raises(ValueError, match="different ids"):
            books.add(wrong)
    assert books.lines() == []


def test_closed_books_give_everything_back_and_take_nothing(books: Books) -> None:
    books.add(planned("a"))
    books.add(planned("b", "c"))
    send(books)
    assert sorted(ids(books.close(EngineError("first")))) == ["a", "b", "c"]
    assert books.close(EngineError("second")) == ()
    with pytest.raises(EngineError, match="first"):
        books.add(planned("d"))
    assert (books.lines(), books.take_next([0]), books.next_deadline()) == ([], None, None)


def test_the_least_loaded_worker_gets_the_next_call(books: Books) -> None:
    for id_ in "abcde":
        books.add(planned(id_))
    workers = [sending.worker for _ in range(4) if (sending := books.take_next(WORKERS))]
    assert workers == [0, 1, 0, 1]
    assert books.take_next(WORKERS) is None


def test_what_a_dead_worker_held_is_in_front_in_the_order_in_which_it_was_sent(books: Books) -> None:
    for batch in ("a", "bc", "de", "f"):
        books.add(planned(*batch))
    first, second = send(books), send(books)
    books.computed(first.rpc_id, FORWARD, OUTPUT_TIMEOUT)
    third = send(books)
    books.started(second.rpc_id)
    assert books.worker_died(0) == ()
    order = []
    while books.lines():
        message = send(books)
        order.append("".join(request.id for request in message.requests))
        books.failed(message.rpc_id)
    assert order == ["a", "b", "c", "de", "f"]
    assert third.requests[0].id == "d"


def test_a_request_whose_output_never_comes_is_given_up_in_the_end(books: Books) -> None:
    books.add(planned("a"))
    for attempt in range(1, MAX_ATTEMPTS + 1):
        message = send(books)
        books.started(message.rpc_id)
        books.computed(message.rpc_id, FORWARD, OUTPUT_TIMEOUT)
        assert ids(books.worker_died(0)) == (["a"] if attempt == MAX_ATTEMPTS else [])


@pytest.mark.parametrize("overtaken", [False, True])
def test_a_call_that_is_over_leaves_the_books_with_its_deadline(books: Books, overtaken: bool) -> None:
    handles = books.add(planned("a", "b"))
    message = send(books)
    books.started(message.rpc_id)
    if overtaken:
        assert [books.finish(handle.output_id, 0.0) is not None for handle in handles] == [True, True]
        assert len(books.lines()) == 1, "its ComputeDone is still to come"
    books.computed(message.rpc_id, FORWARD, OUTPUT_TIMEOUT)
    if not overtaken:
        assert books.next_deadline() is not None
        assert [books.finish(handle.output_id, 0.0) is not None for handle in handles] == [True, True]
    assert (books.lines(), books.next_deadline()) == ([], None)


def test_an_answer_to_a_call_of_a_dead_worker_changes_nothing(books: Books) -> None:
    (handle,) = books.add(planned("a"))
    message = send(books)
    books.worker_died(0)
    assert books.started(message.rpc_id) == ()
    assert books.ids(message.rpc_id) == ()
    assert books.computed(message.rpc_id, FORWARD, OUTPUT_TIMEOUT) == ()
    assert books.failed(message.rpc_id) == ()
    assert books.finish(handle.output_id, 0.0) is None
    assert send(books).requests == message.requests
