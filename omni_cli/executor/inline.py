"""The inline executor: the model in this very process, one call after the other, behind the same protocol.

For debugging (a breakpoint in a pipeline works) and as the reference that the local executor's bytes are compared with.
This module imports torch; it is imported only where somebody asked for it.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import msgspec

from omni_cli import platforms
from omni_cli.config import EngineConfig, ModelConfig, check_engine
from omni_cli.errors import (
    EngineError,
    ModelUnavailable,
    UsageError,
)
from omni_cli.events import (
    ForwardDone,
    ForwardStarted,
    ForwardStep,
    ModelLoading,
    ModelReady,
    ModelSwitched,
    Note,
    Observer,
    OutputReady,
)
from omni_cli.executor.faults import as_load_error, as_request_error
from omni_cli.executor.outputs import news
from omni_cli.executor.protocol import Handle, Loading, OnPreview, Output, Preview, RpcMethod
from omni_cli.executor.steering import Steering, Step
from omni_cli.media import Media
from omni_cli.request import Interval, PlannedRequest
from omni_cli.transport.messages import Health, Loaded
from omni_cli.worker.collect import for_request
from omni_cli.worker.interpolate import Interpolator
from omni_cli.worker.packing import Packer
from omni_cli.worker.process import make_runner
from omni_cli.worker.protocol import StepState, StepwiseRunner, Streamed
from omni_cli.worker.validity import Validity


class InlineExecutor:
    """Executor without a process: `submit` returns when the call is over."""

    def __init__(self, engine: EngineConfig, observer: Observer, on_preview: OnPreview = lambda preview: None) -> None:
        """Build the runner; nothing is loaded yet."""
        check_engine(engine)
        self._engine = engine
        self._on_preview = on_preview
        self._observe = observer
        self._runner = make_runner(engine)
        self._platform = platforms.available()[-1]
        self._packer = Packer(self._platform, engine.transport, Validity.of(engine))
        self._loadings: dict[ModelConfig, Loading] = {}
        self._model: ModelConfig | None = None
        self._calls = 0
        self._closed = False

    def load(self, model: ModelConfig) -> Loading:
        """Load `model` now."""
        future = self._load(model)
        self._model = model
        self._loadings[model] = Loading(identified=future, loaded=future)
        return self._loadings[model]

    def identify(self, model: ModelConfig) -> "Future[Loaded | None]":
        """Done at once."""
        future: Future[Loaded | None] = Future()
        _, device = platforms.resolve(model.device)
        try:
            future.set_result(self._runner.identify(msgspec.structs.replace(model, device=device), self._on_loading))
        except Exception as error:  # boundary: whatever a loader raises ends the run
            future.set_exception(as_load_error(error))
        return future

    def _load(self, model: ModelConfig) -> Future[Loaded]:
        start = time.monotonic()
        self._platform, device = platforms.resolve(model.device)
        self._platform.activate(device)
        model = msgspec.structs.replace(model, device=device)
        future: Future[Loaded] = Future()
        try:
            self._packer = Packer(self._platform, self._engine.transport, Validity.of(self._engine))
            self._packer.fill_with(Interpolator.load(self._engine.interpolator, device))
            loaded = self._runner.load(model, self._engine, self._on_loading)
        except Exception as error:  # boundary: whatever a loader raises ends the run
            future.set_exception(as_load_error(error))
            return future
        now = time.monotonic()
        self._observe(
            ModelReady(
                at=now,
                worker=0,
                pipeline=loaded.info.pipeline,
                device=device,
                dtype=loaded.info.dtype,
                seconds=now - start,
            )
        )
        future.set_result(loaded)
        return future

    def submit(
        self, requests: Sequence[PlannedRequest], steering: Steering | None = None, model: ModelConfig | None = None
    ) -> tuple[Handle, ...]:
        """Run the call; the futures are resolved when this returns. Raises what keeps the first model from loading.

        Raises UsageError where somebody wants to take the steps: the thread that would is the one that computes them.
        """
        self.check_health()
        if steering is not None and steering.waits:
            raise UsageError("the inline executor cannot hand out steps; use executor local")
        self._calls += 1
        handles = tuple(Handle(request, f"batch-{self._calls}/{request.id}") for request in requests)
        lacking = None if model is None else self._lacking(model)
        if lacking is not None:
            for handle in handles:
                handle.compute_done.set_exception(lacking)
                handle.output_ready.set_exception(lacking)
            return handles
        ids = tuple(request.id for request in requests)
        start = time.monotonic()
        self._observe(ForwardStarted(at=start, worker=0, ids=ids))
        try:
            medias = self._forward(requests, ids, steering or (Steering() if self._engine.step_execution else None))
            self._platform.synchronize()
        except Exception as error:  # boundary: whatever a pipeline raises fails these requests
            for handle in handles:
                handle.compute_done.set_exception(as_request_error(error))
                handle.output_ready.set_exception(as_request_error(error))
            return handles
        forward = Interval(start, time.monotonic())
        self._observe(ForwardDone(at=forward.end, worker=0, ids=ids, forward=forward))
        for handle, media in zip(handles, medias, strict=True):
            handle.compute_done.set_result(forward)
            assert isinstance(media, Media)  # no sink was given
            self._deliver(handle, media, forward)
        return handles

    def _forward(
        self, requests: Sequence[PlannedRequest], ids: tuple[str, ...], steering: Steering | None
    ) -> Sequence[Media | Streamed]:
        if steering is None and not self._engine.preview_every:
            return self._runner.execute_model(
                requests, lambda step, total: self._on_step(ids, step, total), lambda: False
            )
        if not isinstance(self._runner, StepwiseRunner):
            raise UsageError(f"--runner {self._engine.runner} has no execute_stepwise")

        def on_state(state: StepState) -> bool:
            self._show(ids, state)
            self._on_step(ids, state.step, state.total)
            return steering is None or not steering.ask(Step(state.step, state.total))

        return self._runner.execute_stepwise(requests, on_state)

    def _show(self, ids: tuple[str, ...], state: StepState) -> None:
        if state.fault is not None:
            self._on_preview(Preview(ids[0], state.step, state.total, fault=state.fault))
        for picture in state.pictures:
            pixels = picture.pixels.to("cpu")
            height, width, _ = pixels.shape
            data = pixels.contiguous().numpy().tobytes()
            self._on_preview(Preview(ids[picture.owner], state.step, state.total, width, height, data))

    def drive(self, until: Callable[[], bool]) -> None:
        """Nothing is ever on its way."""

    def wake(self) -> None:
        """Nobody drives."""

    def _lacking(self, model: ModelConfig) -> ModelUnavailable | None:
        """Load `model`, unless it is there; why its requests fail."""
        if model != self._model:
            refused = model in self._loadings and self._loadings[model].loaded.exception() is not None
            if self._loadings and not refused:
                self._observe(ModelSwitched(at=time.monotonic(), model=model.title))
            if not refused:
                self.load(model)
        error = self._loadings[model].loaded.exception()
        if error is None:
            return None
        if all(loading.loaded.exception() is not None for loading in self._loadings.values()):
            raise error
        lacking = ModelUnavailable(str(error))
        lacking.__cause__ = error
        return lacking

    def cancel(self, handle: Handle) -> None:
        """Every call is over when its handle is known."""

    def cancel_waiting(self) -> None:
        """Nothing ever waits."""

    def hold(self, held: bool) -> None:
        """Nothing ever waits."""

    def collective_rpc(self, method: RpcMethod) -> list[Health | bool | None]:
        """Done at once."""
        self.check_health()
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

    def check_health(self) -> None:
        """Raise EngineError once closed."""
        if self._closed:
            raise EngineError("the executor is closed")

    def close(self) -> None:
        """Drop the model."""
        if not self._closed:
            self._closed = True
            self._runner.close()

    def kill(self) -> None:
        """The same as `close`."""
        self.close()

    def kill_workers(self) -> None:
        """There are none."""

    def __enter__(self) -> Self:
        """The executor itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _deliver(self, handle: Handle, media: Media, forward: Interval) -> None:
        start = time.monotonic()
        buffers: list[bytearray] = []

        def allocate(nbytes: int) -> Any:
            buffers[:] = [bytearray(nbytes)]
            return buffers[0]

        try:
            packed = self._packer.pack(for_request(media, handle.planned), None, allocate)
        except Exception as error:  # boundary: whatever packing raises fails this request
            handle.output_ready.set_exception(as_request_error(error))
            return
        now = time.monotonic()
        d2h, queued = Interval(start, now), Interval(forward.start, forward.start)
        self._observe(OutputReady(at=now, worker=0, id=handle.planned.id, d2h=d2h, bytes=packed.nbytes))
        for note in news(packed.notes):
            self._observe(Note(at=now, level="warning", text=f"{handle.planned.id}: {note}"))
        buffer = memoryview(buffers[0]).toreadonly()[: packed.nbytes]
        output = Output(
            packed.header,
            buffer,
            lambda: None,
            queued,
            forward,
            d2h,
            stopped_at=media.stopped_at,
            notes=packed.notes,
        )
        handle.output_ready.set_result(output)

    def _on_loading(self, what: str) -> None:
        self._observe(ModelLoading(at=time.monotonic(), worker=0, what=what))

    def _on_step(self, ids: tuple[str, ...], step: int, total: int) -> None:
        self._observe(ForwardStep(at=time.monotonic(), worker=0, ids=ids, step=step, total=total))
