"""One request, step by step, in the hands of the caller.

with gen.stream("a red circle moving right on a blue background") as stream:
    for step in stream.steps():
        if step.step == 5:
            stream.stop()
    print(stream.result().files)

The worker waits while the loop's body runs: what it decides counts for the very step it has in hand.
"""

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from omni_cli.batch import Again, Desk
from omni_cli.errors import EngineError, OmniGenError
from omni_cli.executor.protocol import Executor, Handle
from omni_cli.executor.steering import Steering, Step
from omni_cli.request import Result


class Stream:
    """A request in step mode. All methods but `steps` may be called from any thread."""

    def __init__(
        self, executor: Executor, desk: Desk, handle: Handle, steering: Steering, on_end: Callable[["Stream"], None]
    ) -> None:
        """`desk`, entered, finishes this request alone; it is closed with its result, and then `on_end` is called."""
        self._executor = executor
        self._desk = desk
        self._handle = handle
        self._steering = steering
        self._on_end = on_end
        self._ending = threading.Lock()
        self._ended: Result | OmniGenError | None = None
        handle.compute_done.add_done_callback(lambda _: steering.notify())

    @property
    def id(self) -> str:
        """The request's id."""
        return self._handle.planned.id

    def steps(self) -> Iterator[Step]:
        """Every denoising step as it ends; the next is begun when the loop asks for it.

        Whoever leaves the loop lets the rest go on by itself. After a worker's death the steps begin again at 1. The engine
        takes one request at a time, so the steps of two streams must be taken one stream after the other, or by two threads.
        """
        try:
            while (step := self._next()) is not None:
                yield step
                self._steering.go_on()
        finally:
            self._steering.free()

    def pause(self) -> None:
        """Hold the request at its next step, its latents on the device, until `resume`, `stop` or `cancel`."""
        self._steering.pause()

    def resume(self) -> None:
        """End the pause."""
        self._steering.resume()

    def stop(self) -> None:
        """Skip the steps that are left after this one and decode what there is; the row's notes and fingerprint say so."""
        self._steering.stop()

    def cancel(self) -> None:
        """Give the request up: no further step, no files, status "cancelled". Does nothing once it is over."""
        self._executor.cancel(self._handle)

    def result(self) -> Result:
        """The request's row, its files in place; waits for it, and for the end of a pause. Raises EngineError if the engine died."""
        self._steering.free()
        with self._ending:
            if self._ended is None:
                self._executor.drive(self._handle.output_ready.done)
                ended = self._desk.ended.get() or EngineError("the request was dropped")
                assert not isinstance(ended, Again)  # this desk renders nothing again
                self._ended = ended
                self._desk.__exit__(None, None, None)
                self._on_end(self)
        if isinstance(self._ended, OmniGenError):
            raise self._ended
        return self._ended

    def close(self) -> None:
        """Give the request up, unless it is over."""
        self.cancel()
        with self._ending:
            over = self._ended is not None
        if not over:
            try:
                self.result()
            except OmniGenError:  # the engine's end, which whoever uses it next will hear of
                return

    def __enter__(self) -> Self:
        """The stream itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish, or after an exception give up."""
        if kind is None:
            self.result()
        else:
            self.close()

    def _next(self) -> Step | None:
        """The next step, once it is there; None when there will be no more."""
        self._executor.drive(self._has_moved)
        with self._steering.changed:
            self._steering.changed.wait_for(self._has_moved)
        return self._steering.take()

    def _has_moved(self) -> bool:
        return self._steering.has_step or self._handle.compute_done.done()
