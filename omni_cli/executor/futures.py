"""Resolve the two futures of a request: once each, by the thread that removes the request from the call queue.

`output_ready` is marked running when its call is sent: from then on `Future.cancel` has no effect on it. `compute_done`
is never marked running, so its holder may cancel it at any time, and a result that comes later is dropped.
"""

import contextlib
from concurrent.futures import Future, InvalidStateError
from typing import TypeVar

from omni_cli.errors import RequestCancelled
from omni_cli.executor.protocol import Handle

T = TypeVar("T")


def set_result(future: Future[T], value: T) -> None:
    """Set the result of `future`, unless it is done."""
    with contextlib.suppress(InvalidStateError):
        future.set_result(value)


def set_exception(future: Future[T], error: BaseException) -> None:
    """Set the exception of `future`, unless it is done."""
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)


def fail(handle: Handle, error: BaseException) -> None:
    """Set the exception of both futures, unless they are done."""
    set_exception(handle.compute_done, error)
    set_exception(handle.output_ready, error)


def cancel(handle: Handle) -> None:
    """Cancel both futures of a request that was not sent, or fail them with RequestCancelled if it was."""
    if cancel_and_notify(handle.output_ready):
        cancel_and_notify(handle.compute_done)
    else:
        fail(handle, RequestCancelled(f"request {handle.planned.id!r} was cancelled"))


def cancel_and_notify(future: Future[T]) -> bool:
    """Cancel `future`; False if it is running.

    Also wakes threads in `concurrent.futures.wait`, which `Future.cancel` alone does not.
    """
    return future.cancel() and not future.set_running_or_notify_cancel()


def mark_running(handle: Handle) -> bool:
    """Mark `output_ready` running so that it can no longer be cancelled; False if it already was cancelled.

    The future of a requeued request is running already.
    """
    return handle.output_ready.running() or handle.output_ready.set_running_or_notify_cancel()
