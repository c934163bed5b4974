"""One run over one output folder: everything that must be given back, opened in order and closed in reverse.

journal (folder held) ─> executor (processes start) ─> models identified ─> planner ─> desk (writers) ─> render
                                                            └─ loaded when the first of their requests is due
"""

import os
import queue
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from msgspec import structs

from omni_cli.api.stream import Stream
from omni_cli.batch import Desk, Previews, Sizes, Stop, Storage, bursts, render
from omni_cli.config import ModelConfig, RunConfig
from omni_cli.errors import Interrupted, UsageError
from omni_cli.events import AnyEvent, Note, Observer, RequestFinished
from omni_cli.executor import make_executor
from omni_cli.executor.protocol import Executor, Loading
from omni_cli.executor.steering import Steering
from omni_cli.journal import Journal
from omni_cli.planner import Facts, Models, Planner, batches, grouped
from omni_cli.request import PlannedRequest, Result
from omni_cli.trace import Timeline
from omni_cli.transport.messages import Loaded
from omni_cli.writers import sweep

T = TypeVar("T")


class Session(AbstractContextManager["Session"]):
    """A held output folder, an executor, and from `load` on a model."""

    def __init__(self, config: RunConfig, observer: Observer, timeline: Timeline, *, dry: bool = False) -> None:
        """Nothing is opened before the session is entered. `dry`: no weights are ever loaded."""
        self._dry = dry
        self.config = config
        self.timeline = timeline
        self._show = observer
        self._stack = ExitStack()
        self._executor: Executor | None = None
        self._known: dict[ModelConfig, Loaded] = {}
        self._loading: dict[ModelConfig, Loading] = {}
        self._models: Models | None = None
        self._previews = Previews(config.output, self.observe) if config.engine.preview_every else None
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
        """Every event of the run passes here: first the figures, then whoever looks. A failure stops the run if that was asked for."""
        self.timeline(event)
        self._show(event)
        if self.config.fail_fast and isinstance(event, RequestFinished) and event.result.status == "failed":
            self.stop.request()

    def start(self, likely: ModelConfig | None = None) -> None:
        """Start the worker processes; returns at once. To be asked of the `likely` model makes them import all they need."""
        if self._executor is None:
            if self._previews is None:
                executor = make_executor(self.config.engine, self.observe)
            else:
                self._stack.enter_context(self._previews)
                executor = make_executor(self.config.engine, self.observe, self._previews.take)
            self._executor = self._stack.enter_context(executor)
            if likely is not None:
                self._executor.identify(likely)

    def begin(self, model: ModelConfig | None = None) -> None:
        """Start the worker processes and the loading of `model` (None: the run's own); returns at once."""
        model = model or self.config.model
        if model not in self._loading:
            self._loading[model] = self.executor.load(model)

    def load(self, model: ModelConfig | None = None) -> Loaded:
        """The facts of `model`, which is loaded now; waits until they are known, which may be before its first forward can run.

        Raises ModelLoadError or WorkerDied, or Interrupted if a stop comes first.
        """
        model = model or self.config.model
        self.begin(model)
        if model not in self._known:
            self._known[model] = self._wait(self._loading[model].identified)
        return self._known[model]

    def ready(self) -> Loaded:
        """The facts of the run's own model, once every worker is ready for its first forward. Raises as `load` does."""
        self.load()
        loaded = self._loading[self.config.model].loaded
        self.executor.drive(loaded.done)
        return loaded.result()

    def identify(self, model: ModelConfig) -> Loaded | None:
        """The facts of `model`, without its weights; None if only loading tells them. Raises as `load` does."""
        if model in self._loading:
            return self.load(model)
        if model not in self._known:
            facts = self._wait(self.executor.identify(model))
            if facts is None:
                return None
            self._known[model] = facts
        return self._known[model]

    def models(self, base: Path = Path()) -> Models:
        """The models of the run, of which the engine is asked; one whose facts only loading tells is loaded for them."""
        if self._models is None:
            self._models = Models(self.config.model, base, self._look)
        return self._models

    def _look(self, model: ModelConfig) -> Facts:
        loaded = self.identify(model)
        if loaded is None:
            if self._dry:
                raise UsageError(
                    f"--dry-run: what the model {model.title!r} takes is told only by its loaded weights, because its pipeline"
                    " class has no card here; its requests cannot be planned without rendering"
                )
            loaded = self.load(model)
        return Facts(loaded.card, loaded.info, loaded.versions, loaded.device)

    def _wait(self, future: "Future[T]") -> T:
        """The result of a future of the engine; Interrupted if a stop comes first."""
        arrived: queue.SimpleQueue[Future[T] | None] = queue.SimpleQueue()
        future.add_done_callback(arrived.put)
        with self.stop.waking(lambda: arrived.put(None)), self.stop.waking(self.executor.wake):
            self.executor.drive(lambda: not arrived.empty())
            done = arrived.get()
        if done is None:
            raise Interrupted("stopped while the model was loading; nothing was rendered")
        return done.result()

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

    def render(self, planned: Iterable[PlannedRequest], *, live: bool = False) -> Iterator[Result]:
        """Render what is missing and yield rows in completion order; of a `live` source, nothing waits for what comes later."""
        on_cpu = self._on_cpu()
        writers = self.config.output.writers or (1 if on_cpu else max(1, min(8, (os.cpu_count() or 2) // 2)))
        sizes = Sizes(self.config.engine.batch_size, self.config.engine.workers, writers)
        with self._desk(writers, rerender=True) as desk:
            missing = self.missing(planned)
            parts = bursts(missing, self.stop, self.config.lookahead) if live else [missing]
            calls = (
                call
                for part in parts
                for call in batches(grouped(part, self.config.lookahead), sizes.size, sizes.look_ahead)
            )
            model_of = self.models().model_of
            yield from render(calls, self.executor, desk, self.stop, sizes.window, sizes.watch, model_of)

    def stream(self, planned: PlannedRequest, *, latents: bool) -> Stream:
        """Render one request step by step, done before or not; `latents`: each step brings them."""
        steering = Steering(paced=True, latents=latents)
        desk = self._desk(writers=1)
        desk.announce([planned])
        (handle,) = self.executor.submit([planned], steering, self.models().model_of(planned.request))
        desk.expect(handle)
        stream = Stream(self.executor, desk, handle, steering, self._streams.discard)
        self._streams.add(stream)
        return stream

    def _on_cpu(self) -> bool:
        """True if the forward needs the same cores as the encoders. All models of a run get the same device."""
        return (next(iter(self._known.values()), None) or self.load()).device == "cpu"

    def _desk(self, writers: int, *, rerender: bool = False) -> Desk:
        output = structs.replace(self.config.output, encoder_timeout=self.config.engine.output_timeout)
        return Desk(
            output,
            self.models().info_of,
            self.journal.append,
            self.observe,
            made_of=lambda request: self.models().made_of(request, output),
            writers=writers,
            background=self._on_cpu(),
            storage=self._storage(),
            previews=self._previews,
            rerender=rerender,
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
        """A fresh planner that asks the engine about models; relative input paths, and paths of models, start at `base`."""
        return Planner(self.config, self.models(base), base)

    def kill(self) -> None:
        """End the worker processes at once; safe in a signal handler."""
        if self._executor is not None:
            self._executor.kill_workers()
