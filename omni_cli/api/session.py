"""One run over one output folder: everything that must be given back, opened in order and closed in reverse.

journal (folder held) ─> executor (processes start) ─> model loaded ─> planner ─> desk (writers) ─> render
"""

import os
import queue
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from omni_cli.api.stream import Stream
from omni_cli.batch import Desk, Sizes, Stop, Storage, render
from omni_cli.config import RunConfig
from omni_cli.errors import Interrupted
from omni_cli.events import AnyEvent, Note, Observer
from omni_cli.executor import make_executor
from omni_cli.executor.protocol import Executor
from omni_cli.executor.steering import Steering
from omni_cli.journal import Journal
from omni_cli.planner import Planner, batches
from omni_cli.request import PlannedRequest, Result
from omni_cli.trace import Timeline
from omni_cli.transport.messages import Loaded
from omni_cli.writers import sweep


class Session(AbstractContextManager["Session"]):
    """A held output folder, an executor, and from `load` on a model."""

    def __init__(self, config: RunConfig, observer: Observer, timeline: Timeline) -> None:
        """Nothing is opened before the session is entered."""
        self.config = config
        self.timeline = timeline
        self._show = observer
        self._stack = ExitStack()
        self._executor: Executor | None = None
        self._loaded: Loaded | None = None
        self._streams: set[Stream] = set()
        self.stop = Stop()
        self.skipped = 0

    def __enter__(self) -> Self:
        """Nothing is taken yet: the folder is held by `hold`, the model loaded by `start`."""
        return self

    def hold(self) -> None:
        """Hold the output folder, with its manifest. Raises OutputFolderError if that is not possible."""
        self.journal = self._stack.enter_context(Journal.open(self.config.output.output_dir))
        sweep(Path(self.config.output.output_dir))

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give everything back: processes, slots, threads, the folder. Streams that are not over are given up."""
        for stream in list(self._streams):
            stream.close()
        self._stack.__exit__(kind, value, trace)

    def observe(self, event: AnyEvent) -> None:
        """Every event of the run passes here: first the figures, then whoever looks."""
        self.timeline(event)
        self._show(event)

    def start(self) -> None:
        """Start the worker processes and the loading of the model; returns at once."""
        if self._executor is None:
            self._executor = self._stack.enter_context(make_executor(self.config.engine, self.observe))
            self._loading = self._executor.load(self.config.model)

    def load(self) -> Loaded:
        """The model's facts; waits until they are known, which may be before it is ready for its first forward.

        Raises ModelLoadError or WorkerDied, or Interrupted if a stop comes first.
        """
        if self._loaded is None:
            self.start()
            arrived: queue.SimpleQueue[Future[Loaded] | None] = queue.SimpleQueue()
            self._loading.identified.add_done_callback(arrived.put)
            with self.stop.waking(lambda: arrived.put(None)), self.stop.waking(self.executor.wake):
                self.executor.drive(lambda: not arrived.empty())
                future = arrived.get()
            if future is None:
                raise Interrupted("stopped while the model was loading; nothing was rendered")
            self._loaded = future.result()
        return self._loaded

    def ready(self) -> Loaded:
        """The model's facts, once every worker is ready for its first forward. Raises as `load` does."""
        self.load()
        self.executor.drive(self._loading.loaded.done)
        return self._loading.loaded.result()

    @property
    def started(self) -> bool:
        """True once worker processes were started."""
        return self._executor is not None

    @property
    def executor(self) -> Executor:
        """The started executor."""
        self.start()
        assert self._executor is not None
        return self._executor

    def missing(self, planned: Iterable[PlannedRequest]) -> Iterator[PlannedRequest]:
        """What has no good row and files yet; counts the rest in `skipped`. With `overwrite`, everything."""
        for request in planned:
            if not self.config.output.overwrite and self.journal.is_done(request):
                self.skipped += 1
            else:
                yield request

    def render(self, planned: Iterable[PlannedRequest]) -> Iterator[Result]:
        """Render what is missing and yield rows in completion order."""
        on_cpu = self.load().device == "cpu"
        writers = self.config.output.writers or (1 if on_cpu else max(1, min(8, (os.cpu_count() or 2) // 2)))
        sizes = Sizes(self.config.engine.batch_size, self.config.engine.workers, writers)
        with self._desk(writers) as desk:
            calls = batches(self.missing(planned), sizes.size, sizes.look_ahead)
            yield from render(calls, self.executor, desk, self.stop, sizes.window, sizes.watch)

    def stream(self, planned: PlannedRequest, *, latents: bool) -> Stream:
        """Render one request step by step, done before or not; `latents`: each step brings them."""
        steering = Steering(paced=True, latents=latents)
        desk = self._desk(writers=1)
        (handle,) = self.executor.submit([planned], steering)
        desk.expect(handle)
        stream = Stream(self.executor, desk, handle, steering, self._streams.discard)
        self._streams.add(stream)
        return stream

    def _desk(self, writers: int) -> Desk:
        loaded = self.load()
        output = structs.replace(self.config.output, encoder_timeout=self.config.engine.output_timeout)
        return Desk(
            output,
            loaded.info,
            self.journal.append,
            self.observe,
            writers=writers,
            background=loaded.device == "cpu",
            storage=self._storage(),
        )

    def _storage(self) -> Storage:
        """The output folder, which holds forwards up while it takes no files."""
        return Storage(
            Path(self.config.output.output_dir),
            self.config.output.disk_wait,
            note=lambda text: self.observe(Note(at=time.monotonic(), level="warning", text=text)),
            hold=self.executor.hold,
            stop=self.stop,
        )

    def planner(self, base: Path = Path()) -> Planner:
        """A fresh planner for the loaded model; relative input paths start at `base`."""
        loaded = self.load()
        return Planner(self.config, loaded.card, loaded.info, loaded.versions, base)

    def kill(self) -> None:
        """End the worker processes at once; safe in a signal handler."""
        if self._executor is not None:
            self._executor.kill_workers()
