"""One request rendered step by step under the caller's control.

with gen.stream("a red circle moving right on a blue background") as stream:
    for step in stream.steps():
        if step.step == 5:
            stream.stop()
    print(stream.result().files)

The worker waits while the loop's body runs, so a decision made there applies to the step just yielded.
"""

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from omni_cli.batch import OutputWriter, Rerender
from omni_cli.errors import EngineError, OmniGenError
from omni_cli.executor.protocol import Executor, Handle
from omni_cli.executor.step_controller import StepController, StepEvent
from omni_cli.request import Result


class StepwiseStream:
    """A request in step mode. All methods but `steps` may be called from any thread."""

    def __init__(
        self,
        executor: Executor,
        writer: OutputWriter,
        handle: Handle,
        controller: StepController,
        on_end: Callable[["StepwiseStream"], None],
    ) -> None:
        """`writer`, already entered, finishes this request alone; it is closed with the result, before `on_end`."""
        self._executor = executor
        self._writer = writer
        self._handle = handle
        self._controller = controller
        self._on_end = on_end
        self._result_lock = threading.Lock()
        self._result: Result | OmniGenError | None = None
        handle.compute_done.add_done_callback(lambda _: controller.notify())

    @property
    def id(self) -> str:
        """The request's id."""
        return self._handle.planned.id

    def steps(self) -> Iterator[StepEvent]:
        """Yield each denoising step as it ends; the next one starts when the loop asks for it.

        Leaving the loop lets the remaining steps run without waiting. If the worker dies, steps restart at 1. The
        engine runs one request at a time: iterate over two streams one after the other, or from two threads.
        """
        try:
            while (step := self._next_step()) is not None:
                yield step
                self._controller.release()
        finally:
            self._controller.unpace()

    def pause(self) -> None:
        """Pause the request at its next step, its latents on the device, until `resume`, `stop` or `cancel`."""
        self._controller.pause()

    def resume(self) -> None:
        """End the pause."""
        self._controller.resume()

    def stop(self) -> None:
        """Skip the remaining steps and decode the current latents; the row's notes and fingerprint record it."""
        self._controller.stop()

    def cancel(self) -> None:
        """Cancel the request: no further steps, no files, status "cancelled". Does nothing once it has ended."""
        self._executor.cancel(self._handle)

    def result(self) -> Result:
        """Return the request's row, its files in place; waits for it and for the end of a pause.

        Raises EngineError if the engine died.
        """
        self._controller.unpace()
        with self._result_lock:
            if self._result is None:
                self._executor.pump_until(self._handle.output_ready.done)
                ended = self._writer.ended.get() or EngineError("the request was dropped")
                assert not isinstance(ended, Rerender), "this writer was not asked for rerenders"
                self._result = ended
                self._writer.__exit__(None, None, None)
                self._on_end(self)
        if isinstance(self._result, OmniGenError):
            raise self._result
        return self._result

    def close(self) -> None:
        """Cancel the request and wait for its end, unless it has ended."""
        self.cancel()
        with self._result_lock:
            ended = self._result is not None
        if not ended:
            try:
                self.result()
            except OmniGenError:  # the engine died: the next call to it raises the same error
                return

    def __enter__(self) -> Self:
        """Return the stream itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the result, or cancel after an exception."""
        if kind is None:
            self.result()
        else:
            self.close()

    def _next_step(self) -> StepEvent | None:
        """Wait for the next step; None when there are no more."""
        self._executor.pump_until(self._has_news)
        with self._controller.changed:
            self._controller.changed.wait_for(self._has_news)
        return self._controller.take()

    def _has_news(self) -> bool:
        return self._controller.has_step or self._handle.compute_done.done()
