"""The main loop of a run: wait for room, submit a call, yield rows as requests end.

calls ── wait_for_room ──> submit ──> executor ──> output writer ──> `ended` queue ──> rows, in completion order
              ^                                                          │
              └────────────── at most `window` requests open ────────────┘
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from omni_cli.batch.output_writer import OutputWriter, Rerender
from omni_cli.batch.stop import Stop
from omni_cli.config import ModelConfig
from omni_cli.errors import EngineError, OmniGenError, StorageUnavailable
from omni_cli.executor.protocol import Executor, Handle
from omni_cli.request import GenerationRequest, PlannedRequest, Result


def render(
    calls: Iterable[Sequence[PlannedRequest]],
    executor: Executor,
    writer: OutputWriter,
    stop: Stop,
    window: Callable[[], int],
    on_submit: Callable[[Sequence[PlannedRequest], Sequence[Handle]], None] | None = None,
    model_of: Callable[[GenerationRequest], ModelConfig] | None = None,
) -> Iterator[Result]:
    """Render `calls`, each one pipeline call of one model, and yield every request's row in completion order.

    At most `window()` requests are open at a time (one call is always allowed), which bounds memory. `on_submit` is
    called with each submitted call. `model_of` returns the model of a request; without it the loaded model is used.
    Nothing is submitted while the disk takes no files, or after `stop`: then what has not begun is dropped, and running
    forwards and finished outputs are completed. If the caller leaves the loop or `calls` raises, the run ends in the
    same way, without yielding the remaining rows. Raises EngineError if the engine dies, after the finished outputs are
    written.
    """
    requests = _OpenRequests(executor, writer, stop, window, model_of)
    with stop.waking(lambda: writer.ended.put(None)):
        try:
            for call in calls:
                yield from requests.wait_for_room(len(call))
                if requests.stopping:
                    break
                handles = requests.submit(call)
                if on_submit is not None:
                    on_submit(call, handles)
            yield from requests.drain()
        except (GeneratorExit, Exception):
            requests.abandon()
            raise
    if requests.fatal is not None:
        raise requests.fatal


class _OpenRequests:
    """The requests that are submitted and have no row yet. `fatal` is the error that ends the run."""

    def __init__(
        self,
        executor: Executor,
        writer: OutputWriter,
        stop: Stop,
        window: Callable[[], int],
        model_of: Callable[[GenerationRequest], ModelConfig] | None,
    ) -> None:
        self._executor = executor
        self._writer = writer
        self._stop = stop
        self._window = window
        self._model_of = model_of
        self._count = 0
        self._handles: list[Handle] = []  # of every open request, and of some whose output is being written
        self.fatal: OmniGenError | None = None

    @property
    def stopping(self) -> bool:
        """Whether nothing more may be submitted."""
        return self._stop.requested or self.fatal is not None

    def submit(self, call: Sequence[PlannedRequest]) -> Sequence[Handle]:
        """Submit a call to the executor and expect its outputs; no handles if the engine is dead."""
        try:
            self._writer.announce(call)
            model = self._model_of(call[0].request) if self._model_of is not None else None
            self._handles = [handle for handle in self._handles if not handle.output_ready.done()]
            return self._executor.submit(call, model=model, expect=self._expect)
        except EngineError as error:
            self.fatal = error
            return ()

    def _expect(self, handle: Handle) -> None:
        self._handles.append(handle)
        self._count += 1
        self._writer.expect(handle)

    def wait_for_room(self, wanted: int) -> Iterator[Result]:
        """Yield rows until `wanted` more requests may be open, no row waits, and the disk takes files."""
        while self._count and (
            self._count + wanted > self._window()
            or not self._writer.ended.empty()
            or (self._writer.disk.failing and not self.stopping)
        ):
            yield from self._next_row()

    def drain(self) -> Iterator[Result]:
        """Yield rows until no request is open."""
        while self._count:
            yield from self._next_row()

    def abandon(self) -> None:
        """Drop what has not begun and finish the rest: an output that is never read would keep its slot."""
        self._executor.cancel()
        for _ in self.drain():
            pass

    def _next_row(self) -> Iterator[Result]:
        """Wait for the next request to end and yield its row. A stop, a rerender or a dead engine yields none."""
        match self._writer.ended.get():
            case None:
                self._executor.cancel()
                for handle in filter(self._writer.has_partial_video, self._handles):
                    self._executor.cancel(handle)
            case Result() as row:
                self._count -= 1
                yield row
            case Rerender(planned):
                self._count -= 1
                if self.stopping:
                    yield self._writer.cancel(planned)
                else:
                    self.submit([planned])
            case OmniGenError() as error:
                self._count -= 1
                self.fatal = self.fatal or error
                self._executor.cancel()
                if isinstance(error, StorageUnavailable):  # no running output can be stored any more
                    for handle in self._handles:
                        self._executor.cancel(handle)
