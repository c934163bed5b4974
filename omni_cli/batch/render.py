"""The main loop of a run."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from omni_cli.batch.desk import Again, Desk
from omni_cli.batch.stop import Stop
from omni_cli.config import ModelConfig
from omni_cli.errors import EngineError, OmniGenError, StorageLost
from omni_cli.executor.protocol import Executor, Handle
from omni_cli.request import GenerationRequest, PlannedRequest, Result

STOPPING = "stopping: no new forwards, finishing what is computed; Ctrl-C again stops at once"


def render(
    calls: Iterable[Sequence[PlannedRequest]],
    executor: Executor,
    desk: Desk,
    stop: Stop,
    window: int | Callable[[], int],
    watch: Callable[[Sequence[PlannedRequest], Sequence[Handle]], None] | None = None,
    model_of: Callable[[GenerationRequest], ModelConfig] | None = None,
) -> Iterator[Result]:
    """Render `calls`, each one pipeline call of one model (the loaded one without `model_of`), and yield every request's row as it ends, in completion order.

    At most `window` requests are open at a time (one call may always be), so memory does not grow with their number; the number
    may change while it goes on. `watch` sees every call as it is submitted. After
    `stop`, nothing new is submitted and what has not begun is dropped; the running forward and all finished outputs are
    completed. While nothing can be stored, nothing is submitted. If the engine dies, what can still be finished is, and then its error is raised. If the caller leaves the loop, or
    `calls` raises, it ends as after a stop, without the rows being seen.
    """
    walk = _Walk(executor, desk, stop, window if callable(window) else lambda: window, model_of or (lambda _: None))
    with stop.waking(lambda: desk.ended.put(None)):
        try:
            for call in calls:
                yield from walk.make_room(len(call))
                if walk.stopped:
                    break
                handles = walk.submit(call)
                if watch is not None:
                    watch(call, handles)
            yield from walk.finish()
        except (GeneratorExit, Exception):
            walk.leave()
            raise
    if walk.fatal is not None:
        raise walk.fatal


class _Walk:
    """The open requests of one run."""

    def __init__(
        self,
        executor: Executor,
        desk: Desk,
        stop: Stop,
        window: Callable[[], int],
        model_of: Callable[[GenerationRequest], ModelConfig | None],
    ) -> None:
        self._executor = executor
        self._desk = desk
        self._stop = stop
        self._window = window
        self._model_of = model_of
        self._open = 0
        self._handles: list[Handle] = []  # those of open requests, and of some that are being written
        self.fatal: OmniGenError | None = None

    @property
    def stopped(self) -> bool:
        """True when nothing more is to be submitted."""
        return self._stop.requested or self.fatal is not None

    def submit(self, call: Sequence[PlannedRequest]) -> Sequence[Handle]:
        """Hand a call to the executor and its requests to the desk."""
        try:
            self._desk.announce(call)
            handles = self._executor.submit(call, model=self._model_of(call[0].request))
        except EngineError as error:
            self.fatal = error
            return ()
        self._handles = [handle for handle in self._handles if not handle.output_ready.done()] + [*handles]
        for handle in handles:
            self._open += 1
            self._desk.expect(handle)
        return handles

    def leave(self) -> None:
        """Finish what has begun: an output that nobody takes would keep its slot for good."""
        self._executor.cancel_waiting()
        for _ in self.finish():
            pass

    def finish(self) -> Iterator[Result]:
        """Yield rows until nothing is open."""
        while self._open:
            yield from self._take()

    def make_room(self, wanted: int) -> Iterator[Result]:
        """Yield rows until `wanted` more requests may be open."""
        while self._open and (self._open + wanted > self._window() or self._must_wait()):
            yield from self._take()

    def _must_wait(self) -> bool:
        """True while rows are there to be taken, and while nothing can be stored: the request that waits for it is open."""
        return not self._desk.ended.empty() or (self._desk.storage.failing and not self.stopped)

    def _take(self) -> Iterator[Result]:
        """The row of the next request that ends."""
        ended = self._desk.ended.get()
        if ended is None:
            self._desk.note(STOPPING)
            self._executor.cancel_waiting()
            for handle in filter(self._desk.has_frames, self._handles):
                self._executor.cancel(handle)
            return
        self._open -= 1
        if isinstance(ended, Result):
            yield ended
        elif isinstance(ended, Again):
            if self.stopped:
                yield self._desk.cancelled(ended.planned)
            else:
                self.submit([ended.planned])
        else:
            self.fatal = self.fatal or ended
            self._executor.cancel_waiting()
            if isinstance(ended, StorageLost):  # nobody can use what still runs
                for handle in self._handles:
                    self._executor.cancel(handle)
