"""How the two futures of a request end. Whoever takes an entry out of the books settles it, so each is settled once.

`output_ready` is claimed when its call is sent: from then on `Future.cancel` on it does nothing. `compute_done` is never
claimed and may be cancelled by its holder at any moment, so an answer that comes too late for it is dropped here.
"""

import contextlib
from concurrent.futures import Future, InvalidStateError
from typing import TypeVar

from omni_cli.errors import RequestCancelled
from omni_cli.executor.protocol import Handle

T = TypeVar("T")


def resolve(future: Future[T], value: T) -> None:
    """Give `future` its value, unless it has ended."""
    with contextlib.suppress(InvalidStateError):
        future.set_result(value)


def refuse(future: Future[T], error: BaseException) -> None:
    """Give `future` an error, unless it has ended."""
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)


def fail(handle: Handle, error: BaseException) -> None:
    """Give both futures the error, unless they have ended."""
    refuse(handle.compute_done, error)
    refuse(handle.output_ready, error)


def cancel(handle: Handle) -> None:
    """End both as cancelled where nothing was sent, else with RequestCancelled."""
    if withdraw(handle.output_ready):
        withdraw(handle.compute_done)
    else:
        fail(handle, RequestCancelled(f"request {handle.planned.id!r} was cancelled"))


def withdraw(future: Future[T]) -> bool:
    """Cancel `future` and wake those who sit in `concurrent.futures.wait`, which `cancel` does not; False if it is claimed."""
    return future.cancel() and not future.set_running_or_notify_cancel()


def claim(handle: Handle) -> bool:
    """Take `output_ready` out of its holder's hands; False if it was cancelled before. A requeued one is claimed already."""
    return handle.output_ready.running() or handle.output_ready.set_running_or_notify_cancel()
