"""The inline executor: runs pipeline calls in this process, on the thread that submits them.

    submit ──> runner ──> media on the device ──> packer ──> host memory ──> both futures are done ──> submit returns

For debugging (breakpoints in a pipeline work), and as the reference for the bytes of the local executor. Importing
this module imports torch, so only `make_executor` does.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from omni_cli import platforms
from omni_cli.config import EngineConfig, ModelConfig, check_engine
from omni_cli.errors import EngineError, ModelUnavailable, UsageError
from omni_cli.events import (
    ForwardDone,
    ForwardStarted,
    ForwardStep,
    ModelLoading,
    ModelReady,
    ModelSwitched,
    Note,
    Observer,
    OutputArrived,
)
from omni_cli.executor.error_mapping import changed_facts, with_cause, wrap_load_error, wrap_request_error
from omni_cli.executor.futures import fail
from omni_cli.executor.protocol import (
    Executor,
    Handle,
    LoadHandle,
    OnFacts,
    OnPreview,
    Output,
    PreviewImage,
    RpcMethod,
    ignore,
)
from omni_cli.executor.step_controller import StepController, StepEvent
from omni_cli.media import Media
from omni_cli.notes import NoteFilter
from omni_cli.request import ExecutedOn, Interval, PlannedRequest
from omni_cli.transport.messages import Health, Loaded
from omni_cli.worker.intra_op_threads import intra_op_threads, threads_on
from omni_cli.worker.output.interpolate import Interpolator
from omni_cli.worker.output.output_check import OutputPolicy
from omni_cli.worker.output.packer import Packer
from omni_cli.worker.pipeline.media_from_output import add_float_consumers
from omni_cli.worker.process import make_runner
from omni_cli.worker.runner_protocol import StepState, StepwiseRunner


class InlineExecutor(Executor):
    """Executor without worker processes: a call is over when `submit` returns."""

    def __init__(
        self,
        engine: EngineConfig,
        observer: Observer,
        on_preview: OnPreview = lambda preview: None,
        on_facts: OnFacts = lambda model, facts: None,
    ) -> None:
        """Build the runner without loading a model; `on_facts` is called with what each load gives.

        Raises UsageError if settings contradict each other.
        """
        check_engine(engine)
        self._engine = engine
        self._on_preview = on_preview
        self._on_facts = on_facts
        self._expected: dict[ModelConfig, Loaded] = {}
        self._observe = observer
        self._note_filter = NoteFilter()
        self._runner = make_runner(engine)
        self._threads = engine.threads
        self._platform = platforms.available()[-1]
        self._device = ""
        self._packer = Packer(self._platform, engine.transport, OutputPolicy.from_config(engine))
        self._load_handles: dict[ModelConfig, LoadHandle] = {}
        self._model: ModelConfig | None = None
        self._calls = 0
        self._closed = False
        self._released = False

    def load(self, model: ModelConfig) -> LoadHandle:
        """Load `model` before returning."""
        future = self._load(model)
        self._model = model
        self._load_handles[model] = LoadHandle(identified=future, loaded=future)
        return self._load_handles[model]

    def _load(self, model: ModelConfig) -> Future[Loaded]:
        start = time.monotonic()
        self._platform, device = platforms.resolve(model.device)
        self._platform.activate(device)
        self._device = device
        future: Future[Loaded] = Future()
        try:
            self._packer = Packer(self._platform, self._engine.transport, OutputPolicy.from_config(self._engine))
            self._packer.interpolator = Interpolator.load(self._engine.interpolator, device)
            loaded = self._runner.load(msgspec.structs.replace(model, device=device), self._engine, self._on_progress)
            self._on_facts(model, loaded)
            if changes := changed_facts(self._expected.setdefault(model, loaded), loaded):
                raise EngineError(f"this process {changes}")
        except Exception as error:  # boundary: a loader may raise anything
            future.set_exception(wrap_load_error(error))
            return future
        now = time.monotonic()
        pipeline, dtype = loaded.info.pipeline, loaded.info.dtype
        self._observe(ModelReady(at=now, worker=0, pipeline=pipeline, device=device, dtype=dtype, seconds=now - start))
        future.set_result(loaded)
        return future

    def expect(self, model: ModelConfig, facts: Loaded) -> None:
        """Refuse the load of `model` if it gives other facts than `facts`."""
        self._expected.setdefault(model, facts)

    def identify(self, model: ModelConfig) -> Future[Loaded | None]:
        """Identify `model` before returning."""
        future: Future[Loaded | None] = Future()
        _, device = platforms.resolve(model.device)
        try:
            future.set_result(self._runner.identify(msgspec.structs.replace(model, device=device), self._on_progress))
        except Exception as error:  # boundary: a loader may raise anything
            future.set_exception(wrap_load_error(error))
        return future

    def submit(
        self,
        requests: Sequence[PlannedRequest],
        step_controller: StepController | None = None,
        model: ModelConfig | None = None,
        expect: Callable[[Handle], object] = ignore,
    ) -> tuple[Handle, ...]:
        """Run the call; its futures are done on return.

        Raises EngineError once closed, the error of the first model if it cannot be loaded, and UsageError for a paced
        or paused `step_controller`: the thread that would take the steps is the one that computes them.
        """
        self._raise_if_closed()
        if step_controller is not None and step_controller.waits:
            raise UsageError("the inline executor cannot hand out steps; use --executor local")
        self._calls += 1
        handles = tuple(Handle(request, f"batch-{self._calls}/{request.id}") for request in requests)
        for handle in handles:
            expect(handle)
        unavailable = None if model is None else self._ensure_loaded(model)
        if unavailable is not None:
            for handle in handles:
                fail(handle, unavailable)
            return handles
        ids = tuple(request.id for request in requests)
        start = time.monotonic()
        self._observe(ForwardStarted(at=start, worker=0, ids=ids))
        if step_controller is None and self._engine.step_execution:
            step_controller = StepController()
        try:
            with intra_op_threads(self._threads):
                executed_on = ExecutedOn(self._device, threads_on(self._device))
                medias = self._forward(requests, ids, step_controller)
                self._platform.synchronize()
        except Exception as error:  # boundary: a pipeline may raise anything; it fails these requests
            for handle in handles:
                fail(handle, wrap_request_error(error))
            return handles
        forward = Interval(start, time.monotonic())
        self._observe(ForwardDone(at=forward.end, worker=0, ids=ids, forward=forward))
        for handle, media in zip(handles, medias, strict=True):
            handle.compute_done.set_result(forward)
            self._deliver(handle, media, forward, executed_on)
        return handles

    def scale(self, workers: int, threads: int | None = None) -> Future[None]:
        """Compute with `threads` intra-op threads from now on; there is one worker, this process."""
        self._threads = threads or self._threads
        return super().scale(workers, threads)

    def collective_rpc(self, method: RpcMethod) -> list[Health | bool | None]:
        """Call `method` in this process and return its one answer. Raises EngineError once closed."""
        self._raise_if_closed()
        match method:
            case "synchronize":
                self._platform.synchronize()
            case "sleep":
                self._runner.sleep()
                self._platform.empty_cache()
                return [True]
            case "wake_up":
                self._runner.wake_up()
            case "drain":
                return [True]
            case "health":
                return [Health(device_bytes=self._platform.memory_in_use(), inflight=0, slots=0, slot_bytes=0)]
        return [None]

    def shutdown(self, wait: bool = True) -> None:
        """Refuse further calls, and with `wait` release the model."""
        self._closed = True
        if wait and not self._released:
            self._released = True
            self._runner.close()

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise EngineError("the executor is closed")

    def _ensure_loaded(self, model: ModelConfig) -> ModelUnavailable | None:
        """Load `model` unless it is loaded; return why its requests fail, if they do.

        Raises the error of `model` if no other model was loaded before.
        """
        if model != self._model:
            has_failed = model in self._load_handles and self._load_handles[model].loaded.exception() is not None
            if self._load_handles and not has_failed:
                self._observe(ModelSwitched(at=time.monotonic(), model=model.title))
            if not has_failed:
                self.load(model)
        error = self._load_handles[model].loaded.exception()
        if error is None:
            return None
        if all(handle.loaded.exception() is not None for handle in self._load_handles.values()):
            raise error
        return with_cause(ModelUnavailable(str(error)), error)

    def _forward(
        self, requests: Sequence[PlannedRequest], ids: tuple[str, ...], step_controller: StepController | None
    ) -> Sequence[Media]:
        if step_controller is None and not self._engine.preview_every:
            return self._runner.execute_model(
                requests, lambda step, total: self._on_step(ids, step, total), lambda: False
            )
        if not isinstance(self._runner, StepwiseRunner):
            raise UsageError(f"--runner {self._engine.runner} has no execute_stepwise")

        def on_state(state: StepState) -> bool:
            self._show_previews(ids, state)
            self._on_step(ids, state.step, state.total)
            return step_controller is None or not step_controller.wait_for_decision(StepEvent(state.step, state.total))

        return self._runner.execute_stepwise(requests, on_state)

    def _show_previews(self, ids: tuple[str, ...], state: StepState) -> None:
        if state.fault is not None:
            self._on_preview(PreviewImage(ids[0], state.step, state.total, fault=state.fault))
        for picture in state.pictures:
            pixels = picture.pixels.to("cpu")
            height, width, _ = pixels.shape
            data = pixels.contiguous().numpy().tobytes()
            self._on_preview(PreviewImage(ids[picture.owner], state.step, state.total, width, height, data))

    def _deliver(self, handle: Handle, media: Media, forward: Interval, executed_on: ExecutedOn) -> None:
        """Pack `media` into host memory and resolve `output_ready`."""
        start = time.monotonic()
        buffers: list[bytearray] = []

        def allocate(nbytes: int) -> Any:
            buffers[:] = [bytearray(nbytes)]
            return buffers[0]

        try:
            packed = self._packer.pack(add_float_consumers(media, handle.planned), None, allocate)
        except Exception as error:  # boundary: packing may raise anything; it fails this request
            handle.output_ready.set_exception(wrap_request_error(error))
            return
        now = time.monotonic()
        d2h, queued = Interval(start, now), Interval(forward.start, forward.start)
        self._observe(OutputArrived(at=now, worker=0, id=handle.planned.id, d2h=d2h, bytes=packed.nbytes))
        for note in self._note_filter.news(packed.notes):
            self._observe(Note(at=now, level="warning", text=f"{handle.planned.id}: {note}"))
        output = Output(
            header=packed.header,
            buffer=memoryview(buffers[0]).toreadonly()[: packed.nbytes],
            release=lambda: None,
            queued=queued,
            forward=forward,
            d2h=d2h,
            stopped_at=media.stopped_at,
            notes=packed.notes,
            executed_on=executed_on,
        )
        handle.output_ready.set_result(output)

    def _on_progress(self, what: str) -> None:
        self._observe(ModelLoading(at=time.monotonic(), worker=0, what=what))

    def _on_step(self, ids: tuple[str, ...], step: int, total: int) -> None:
        self._observe(ForwardStep(at=time.monotonic(), worker=0, ids=ids, step=step, total=total))
