"""One run over one output folder: owns what a run opens, and closes it in reverse order.

open_folder: folder locked, manifest open ─┐
known facts: files, cards, cache ──────────┴─> models identified ─> planner ─> render: output writer, run loop
                     └─ a model that they do not tell ─> start_engine      start_engine ─┘  once a forward is certain

Other models than the first are loaded when their first request is due.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from msgspec import structs

from omni_cli.api.stepwise_stream import StepwiseStream
from omni_cli.batch import BatchSize, DiskRetry, Origin, OutputWriter, Previews, Stop, micro_batches, render
from omni_cli.batch.worker_choice import WorkerChoice, choose_on_cpu, choose_on_devices
from omni_cli.config import EngineConfig, ModelConfig, RunConfig, with_float_arrays
from omni_cli.cores import usable_cores
from omni_cli.errors import Interrupted, UsageError
from omni_cli.events import AnyEvent, Note, Observer, RequestFinished, RunStopping
from omni_cli.executor import make_executor
from omni_cli.executor.protocol import Executor, LoadHandle
from omni_cli.executor.step_controller import StepController
from omni_cli.journal import Journal, ManifestReader
from omni_cli.models.weights import read_ahead_weights, weight_bytes
from omni_cli.planner import FinishedWork, ModelFacts, Models, Planner, batches, grouped
from omni_cli.planner.facts import KnownFacts
from omni_cli.planner.refusals import Refusals, refusal
from omni_cli.request import PlannedRequest, Result
from omni_cli.text import quote
from omni_cli.trace import ForwardClock, Timeline
from omni_cli.transport.messages import Health, Loaded
from omni_cli.writers import sweep

T = TypeVar("T")


class Session(AbstractContextManager["Session"]):
    """An output folder, an executor and its models for one run. Nothing is opened before it is asked for.

    `models` are described by what is `known` of them here, and by the engine where that is not enough.
    """

    def __init__(
        self,
        config: RunConfig,
        observer: Observer,
        timeline: Timeline,
        *,
        base: Path = Path(),
        dry_run: bool = False,
    ) -> None:
        """Take the settings.

        Relative paths of inputs and models start at `base`; with `dry_run`, no weights are loaded.
        """
        self.config = config = with_float_arrays(config)
        self.base = base
        self.timeline = timeline
        self.stop = Stop()
        self._forward_clock = ForwardClock()
        self.skipped = 0
        self._dry_run = dry_run
        self._observer = observer
        self._stack = ExitStack()
        self._executor: Executor | None = None
        self._loads: dict[ModelConfig, LoadHandle] = {}
        self._read: set[ModelConfig] = set()
        self._device: str | None = None
        self._is_asleep = False
        self._choice: WorkerChoice | None = None
        self._calls = 0
        self.workers = config.engine.least_workers
        self.expected: int | None = None
        """Requests that are to be rendered, where that is known."""
        self._previews = Previews(config.output, self.observe) if config.engine.preview_every else None
        self._streams: set[StepwiseStream] = set()
        self.known = KnownFacts(config.engine, network=True)
        self.models = Models(config.model, base, self._model_facts)
        self._expected_facts: dict[ModelConfig, Loaded] = {}

    def open_folder(self) -> None:
        """Lock the output folder, open its manifest and remove left-over temporary files. Raises OutputFolderError."""
        self.journal = self._stack.enter_context(Journal.open(self.config.output.output_dir, self.config.shard))
        sweep(Path(self.config.output.output_dir))

    def start_engine(self, model: ModelConfig | None = None, *, load: bool = True) -> None:
        """Start the worker processes, and the loading of `model` (None: the run's own). Returns at once.

        With `load=False`, workers import what the model's pipeline needs and read no weights; does nothing if they are
        running already. The kernel reads the weights meanwhile, while the workers import the libraries.
        """
        model = model or self.config.model
        self._read_ahead(model)
        if not load:
            if self._executor is None:
                self.executor.identify(model)
        elif model not in self._loads:
            self._loads[model] = self.executor.load(model)

    def _read_ahead(self, model: ModelConfig) -> None:
        """Start to read the weights of `model` into the page cache, once; another runner may have no use for them."""
        if model not in self._read and self.config.engine.runner == EngineConfig().runner:
            self._read.add(model)
            threading.Thread(
                target=read_ahead_weights, args=(model, model.variant), name="read-ahead", daemon=True
            ).start()

    def wait_until_loaded(self) -> Loaded:
        """Load the run's own model; return its facts when every worker is ready for its first forward.

        Raises ModelLoadError, WorkerDied, or Interrupted if a stop is requested meanwhile.
        """
        self.start_engine()
        return self._wait(self._loads[self.config.model].loaded)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel open streams, then close processes, threads and the folder."""
        for stream in list(self._streams):
            stream.close()
        self._stack.__exit__(kind, value, trace)

    def observe(self, event: AnyEvent) -> None:
        """Pass an event to the timeline and the observer. With `fail_fast`, a failed request stops the run."""
        self.timeline(event)
        self._forward_clock(event)
        self._observer(event)
        if self.config.fail_fast and isinstance(event, RequestFinished) and event.result.status == "failed":
            self.stop.request()

    @property
    def executor(self) -> Executor:
        """The executor; its worker processes start on first use."""
        if self._executor is None:
            self._choice, self.workers = None, self.config.engine.least_workers
            if self._previews is None:
                executor = make_executor(self.config.engine, self.observe, on_facts=self.known.learn)
            else:
                previews = self._stack.enter_context(self._previews)
                executor = make_executor(self.config.engine, self.observe, previews.submit, self.known.learn)
            self._executor = self._stack.enter_context(executor)
            for model, facts in self._expected_facts.items():
                executor.expect(model, facts)
        return self._executor

    def planner(self) -> Planner:
        """Return a fresh planner over `models`."""
        return Planner(self.config, self.models, self.base)

    def missing(self, planned: Iterable[PlannedRequest]) -> Iterator[PlannedRequest]:
        """Yield what is to be rendered of each request, as `FinishedWork` decides; count the others in `skipped`.

        A request that is refused only now (an input has changed since the check) is reported and left out.
        """
        work = self.finished_work(self.journal)
        for request in planned:
            decision = work.decide(request)
            if decision.remaining is None:
                self.skipped += 1
                if decision.refused:
                    text = f"request {quote(request.id)} {refusal(decision)}"
                    self.observe(Note(at=time.monotonic(), level="error", text=text))
                continue
            if (superseded := work.superseded.get(request.id)) is not None:
                self.journal.supersede(superseded, request.id)
            yield decision.remaining

    def finished_work(self, manifest: ManifestReader) -> FinishedWork:
        """Return a fresh view of the finished requests of `manifest`, that of the output folder."""
        return FinishedWork(manifest, self.config, self.models, self.planner())

    def check_finished_work(
        self, planned: Iterable[PlannedRequest], on_missing: Callable[[], None] = lambda: None
    ) -> None:
        """Raise UsageError if any of `planned` would replace finished files unasked; what is on disk is not hashed.

        Otherwise count the missing ones in `expected`, if anything was finished before. `on_missing` is called for each
        of them, as soon as it is found.
        """
        if self.journal.is_empty or self.config.output.overwrite:
            return
        work, refusals = self.finished_work(self.journal), Refusals()
        self.expected = 0
        for request in planned:
            decision = work.decide(request, hashed=False)
            if decision.remaining is not None:
                self.expected += 1
                on_missing()
            if decision.refused:
                refusals.add(request.id, decision)
        if refusals:
            raise refusals.error(self.config.output.output_dir)

    def render(self, planned: Iterable[PlannedRequest], *, live: bool = False) -> Iterator[Result]:
        """Render the missing requests and yield their rows in completion order; if there are none, start no engine.

        With `live`, only requests that have already arrived are grouped: none waits for a later one. Raises
        EngineError.
        """
        writers = self.config.output.writers or (1 if self._on_cpu() else max(1, min(8, usable_cores() // 2)))
        sizes = BatchSize(self.config.engine.batch_size, self.workers, writers)
        missing, lookahead = self.missing(planned), self.config.lookahead
        parts = micro_batches(missing, self.stop, lookahead) if live else [missing]
        groups = (grouped(part, lookahead) for part in parts)
        calls = (call for group in groups for call in batches(group, sizes.size, sizes.buffer_size))
        with self.stop.waking(self._announce_stop):
            first = next(calls, None)
            if first is None:
                return
        with self._output_writer(writers, rerender=True) as writer, self.stop.waking(self._announce_stop):
            scaled = self._scaling(chain([first], calls), sizes)
            yield from render(scaled, self.executor, writer, self.stop, sizes.window, sizes.watch, self.models.model_of)

    def prepare_workers(self, planned: PlannedRequest, calls: int) -> None:
        """Start the workers that a run of `calls` calls like that of `planned` has, and wait until they are ready.

        Raises EngineError, or Interrupted at a stop.
        """
        self.wait_until_loaded()
        if (scaled := self._scale(planned, calls)) is not None:
            self._wait(scaled)

    def _scale(self, planned: PlannedRequest, calls: int) -> "Future[None] | None":
        """With `--workers auto`, start the workers for `calls` calls like that of `planned`, and say so.

        The first call decides for the whole session. The result is there when all are ready; None if nothing changed.
        Raises EngineError if a process cannot be started.
        """
        engine = self.config.engine
        if engine.workers != "auto":
            return None
        is_first = self._choice is None
        self._choice = self._choice or self._choose_workers(planned)
        # Pure step mode and this process are one worker, of as many threads as other modes have: the pixels are equal.
        is_single = engine.is_synchronous or engine.executor == "inline"
        workers = 1 if is_single else self._choice.workers(calls)
        if workers <= self.workers and not is_first:
            return None
        self.workers = max(workers, self.workers)
        self.observe(Note(at=time.monotonic(), level="info", text=self._choice.describe(self.workers)))
        return self.executor.scale(self.workers, self._choice.threads)

    def _choose_workers(self, planned: PlannedRequest) -> WorkerChoice:
        facts, request = self.models.facts(planned.request.model), planned.request
        if facts.device != "cpu":
            return choose_on_devices(facts.device, facts.devices)
        model = self.models.model_of(request)
        weights = weight_bytes(model, model.variant, facts.info.dtype) if facts.info is not None else None
        known = weights is not None and request.height is not None and request.width is not None
        pixels = (request.height or 0) * (request.width or 0) * (request.num_frames or 1)
        return choose_on_cpu(self.config.engine, (weights or 0) * pixels if known else None, weights or 0)

    def _scaling(
        self, calls: Iterable[tuple[PlannedRequest, ...]], sizes: BatchSize
    ) -> Iterator[tuple[PlannedRequest, ...]]:
        """Yield `calls`, with as many workers as they are worth: those expected, or those seen so far."""
        for call in calls:
            self._calls += 1
            self._scale(call[0], max(self._calls, (self.expected or 0) // max(1, self.config.engine.batch_size)))
            sizes.workers = self.workers
            yield call

    def stream(self, planned: PlannedRequest, *, latents: bool) -> StepwiseStream:
        """Render one request step by step, whether or not it is already done; `latents`: steps carry the latents.

        Raises UsageError if finished files would be replaced unasked.
        """
        work = self.finished_work(self.journal)
        decision = work.decide(planned, again=True)
        if decision.remaining is None:
            raise UsageError(f"request {quote(planned.id)} {refusal(decision)}")
        planned = decision.remaining
        if (superseded := work.superseded.get(planned.id)) is not None:
            self.journal.supersede(superseded, planned.id)
        self._scale(planned, 1)  # as many threads as in a run: the pixels are the same
        controller = StepController(paced=True, latents=latents)
        writer = self._output_writer(writers=1)
        writer.announce([planned])
        (handle,) = self.executor.submit([planned], controller, self.models.model_of(planned.request))
        writer.expect(handle)
        stream = StepwiseStream(self.executor, writer, handle, controller, self._streams.discard)
        self._streams.add(stream)
        return stream

    def sleep(self, level: int) -> None:
        """Free device memory: with `level` 1 weights go to host memory, with 2 the worker processes end.

        Raises EngineError if outputs are still on the device.
        """
        if self._executor is None:
            return
        if level == 1:
            self.wait_until_loaded()
            self._executor.collective_rpc("sleep")
            self._is_asleep = True
        else:
            self._executor.shutdown()
            self._executor = None
            self._loads.clear()
            self._is_asleep = False

    def wake_up(self) -> None:
        """Undo `sleep`; does nothing if the engine is awake. Raises ModelLoadError, WorkerDied or EngineError."""
        if self._is_asleep:
            self.executor.collective_rpc("wake_up")
            self._is_asleep = False
        self.start_engine()

    @property
    def is_streaming(self) -> bool:
        """Whether a request is rendered step by step."""
        return bool(self._streams)

    def health(self) -> tuple[Health, ...]:
        """Return the state of each worker, once its model is loaded; none while there is no worker.

        Raises ModelLoadError or WorkerDied.
        """
        if self._executor is None:
            return ()
        self.wait_until_loaded()
        return tuple(health for health in self._executor.collective_rpc("health") if isinstance(health, Health))

    def kill(self) -> None:
        """Kill the worker processes at once; safe in a signal handler."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    def abort(self) -> None:
        """Kill the worker processes and cancel what they are rendering; outputs that have arrived are written."""
        if self._executor is not None:
            self._executor.abort()

    def _announce_stop(self) -> None:
        """Emit what the stop still waits for, and for how long at most."""
        now, limit = time.monotonic(), self.config.stop_timeout
        timeout = self.config.engine.forward_timeout
        seconds = self._forward_clock.seconds_left(now, None if timeout == "auto" else timeout)
        is_limit = limit is not None and (seconds is None or limit < seconds)
        self.observe(RunStopping(at=now, seconds=limit if is_limit else seconds, is_limit=is_limit))

    def _model_facts(self, model: ModelConfig) -> ModelFacts:
        """Return what is known of `model`; ask the engine, and load the model, only where nothing else can tell.

        Workers that report something else end the run.
        """
        loaded = self.known.look_up(model)
        if loaded is not None:
            self._expected_facts[model] = loaded
            if self._executor is not None:
                self._executor.expect(model, loaded)
            if model in self._loads:  # a worker may have reported it first
                loaded = self._wait(self._loads[model].identified)
        else:
            loaded = self._ask_engine(model)
            self.known.learn(model, loaded)
        self._device = loaded.device
        return ModelFacts(loaded.card, loaded.info, loaded.versions, loaded.device, loaded.devices)

    def _ask_engine(self, model: ModelConfig) -> Loaded:
        """Let a worker identify `model`, or load it if that is not enough."""
        loaded = None if model in self._loads else self._wait(self.executor.identify(model))
        if loaded is None:
            if self._dry_run:
                raise UsageError(
                    f"--dry-run: the parameters of the model {model.title!r} are known only once its weights are"
                    " loaded, because its pipeline class has no card; render it with `run`, or write it a card"
                )
            self.start_engine(model)
            loaded = self._wait(self._loads[model].identified)
        return loaded

    def _wait(self, future: "Future[T]") -> T:
        """Return the result of a future of the engine. Raises Interrupted if a stop is requested first."""
        wakeups: queue.SimpleQueue[Future[T] | None] = queue.SimpleQueue()
        future.add_done_callback(wakeups.put)
        with self.stop.waking(lambda: wakeups.put(None)), self.stop.waking(self.executor.cancel):
            self.executor.pump_until(lambda: not wakeups.empty())
            done = wakeups.get()
        if done is None:
            raise Interrupted("stopped while a model was loading")
        return done.result()

    def _on_cpu(self) -> bool:
        """Whether forwards run on the cores that the encoders need. All models of a run use the same device."""
        return (self._device or self.models.facts(None).device) == "cpu"

    def _output_writer(self, writers: int, *, rerender: bool = False) -> OutputWriter:
        output = structs.replace(self.config.output, encoder_timeout=self.config.engine.output_timeout)
        return OutputWriter(
            output,
            lambda request: Origin(self.models.info_of(request), self.models.provenance_of(request, output)),
            self.journal.append,
            self.observe,
            writers=writers,
            background=self._on_cpu(),
            disk=DiskRetry(
                Path(output.output_dir),
                output.disk_wait,
                notify=lambda text: self.observe(Note(at=time.monotonic(), level="warning", text=text)),
                pause_forwards=self.executor.pause_dispatch,
                stop=self.stop,
            ),
            previews=self._previews,
            rerender=rerender,
        )
