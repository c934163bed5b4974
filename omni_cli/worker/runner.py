"""The runner for diffusers: requests in, checked media on the device out.

requests ──plan──> calls ──pipeline──> seam ──> media_of ──check──> split ──> one Media per request
                     └─ out of device memory: the ladder gives smaller ones, or the same with less memory in use
"""

import contextlib
import gc
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from omni_cli import platforms
from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, ForwardError, OmniGenError
from omni_cli.media import Media
from omni_cli.models.keywords import NAMES
from omni_cli.platforms.base import Platform
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.adapters import Adapters
from omni_cli.worker.ahead import Ahead
from omni_cli.worker.calls import Call, per_sample, placed, plan
from omni_cli.worker.chunks import RequestStreams, Tap
from omni_cli.worker.collect import LATENT, check_size, media_of, sample_rate_of, split
from omni_cli.worker.loader import LoadedPipeline, identify, load
from omni_cli.worker.memo import PromptMemo
from omni_cli.worker.memory import Ladder, Notes
from omni_cli.worker.preview import Previewer
from omni_cli.worker.protocol import OnState, Sink, StepState, Streamed
from omni_cli.worker.seam import DEVICE, value_range
from omni_cli.worker.steps import Steps


class DiffusersRunner:
    """Runs one diffusers pipeline on one device (see `protocol.Runner`)."""

    def __init__(self) -> None:
        self._loaded: LoadedPipeline | None = None
        self._adapters: Adapters | None = None
        self._ladder: Ladder | None = None
        self._previewer: Previewer | None = None
        self._memo = PromptMemo(0)
        self._platform = Platform()
        self._inputs = Ahead()
        self._tap: Tap | None = None
        self._sink: Sink | None = None

    @property
    def _model(self) -> LoadedPipeline:
        if self._loaded is None:
            raise EngineError("no model is loaded")
        return self._loaded

    @property
    def _memory(self) -> Ladder:
        if self._ladder is None:
            raise EngineError("no model is loaded")
        return self._ladder

    def identify(self, model: ModelConfig, report: Callable[[str], None]) -> Loaded | None:
        """What `load` would return, without the weights."""
        return identify(model, report)

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        report: Callable[[str], None],
        identified: Callable[[Loaded], None] | None = None,
    ) -> Loaded:
        """Load `model`, in place of the one before."""
        self._drop()
        loaded = load(model, report, identified)
        self._platform, _ = platforms.resolve(str(loaded.device))
        self._memo = PromptMemo(engine.prompt_cache_bytes)
        self._memo.install(loaded.pipeline)
        self._loaded, self._adapters = loaded, Adapters(loaded.pipeline, self._memo.forget)
        self._ladder = Ladder(loaded.pipeline, loaded.device, self._platform, model.tuning.offload != "none")
        self._tap = Tap.on(loaded.pipeline)
        if engine.preview_every:
            self._previewer = Previewer(loaded, engine.preview_every, report)
        return loaded.facts

    def stream_to(self, sink: Sink | None) -> None:
        """Where the frames of the next `execute_model` may go."""
        self._sink = sink

    def expect(self, requests: Sequence[PlannedRequest]) -> None:
        """Read the inputs of `requests` ahead."""
        self._inputs.expect(requests)

    def forget(self, requests: Sequence[PlannedRequest]) -> None:
        """The inputs of `requests` are wanted no more."""
        self._inputs.forget(requests)

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: Callable[[int, int], None], stop: Callable[[], bool]
    ) -> Sequence[Media | Streamed]:
        """One result per request; see the protocol. What a pipeline raises becomes ForwardError.

        Raises OutOfDeviceMemory where nothing that saves memory was enough.
        """

        def on_state(state: StepState) -> bool:
            on_step(state.step, state.total)
            return True

        return self._execute(requests, on_state, stop)

    def execute_stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> Sequence[Media | Streamed]:
        """As `execute_model`, led by `on_state`; see the protocol."""
        return self._execute(requests, on_state, lambda: False)

    def _execute(
        self, requests: Sequence[PlannedRequest], on_state: OnState, stop: Callable[[], bool]
    ) -> Sequence[Media | Streamed]:
        """Every pipeline call of these requests, smaller or with less memory in use where it runs out."""
        ladder = self._memory
        planned = [
            (call, requests[call.owners[0]].request) for call in plan(requests, self._model.card, self._inputs.take)
        ]
        calls = deque((part, request) for call, request in planned for part in ladder.parts(call, request))
        notes = Notes(len(requests))
        for call, request in planned:
            notes.add(call.owners, ladder.in_force(request, len(call.samples)))
        steps = Steps(len(calls), on_state, stop)
        streams = self._streams(stop)
        medias: list[Media] = []
        owners: list[int] = []
        while calls:
            call, request = calls.popleft()
            steps.next_call()
            if streams is not None:
                streams.begin(call.owners, owners)
            made = self._try(call, request, steps, streams)
            if isinstance(made, Media):
                notes.add(call.owners, ladder.in_force(request, len(call.samples)))
                medias.append(made)
                owners.extend(call.owners)
                continue
            self._memo.forget()
            parts, note = ladder.step_down(call, request, made)
            steps.again(len(parts))
            calls.extendleft((part, request) for part in reversed(parts))
            notes.add(call.owners, [note])
        local: Sequence[Media | Streamed] = (
            split(medias, owners, len(requests)) if streams is None else streams.settle(medias, owners, len(requests))
        )
        return [
            replace(media, notes=(*notes.of(index), *steps.notes), stopped_at=steps.stopped_at)
            for index, media in enumerate(local)
        ]

    def _streams(self, stop: Callable[[], bool]) -> RequestStreams | None:
        """Where frames may go as they are decoded; None if they are wanted whole, or come so."""
        tap = self._tap
        if self._sink is None or tap is None or self._model.card.output_type != DEVICE:
            return None
        return RequestStreams(self._sink, tap.seam.video_range, stop)

    def _try(self, call: Call, request: GenerationRequest, steps: Steps, streams: RequestStreams | None) -> Media | str:
        """The media of one call, or, where device memory ran out, the reason; nothing of the call is then held any more."""
        try:
            return self._run(call, request, steps, streams)
        except (RuntimeError, MemoryError) as error:
            if not self._platform.is_out_of_memory(error):
                raise
            return str(error)

    def _run(self, call: Call, request: GenerationRequest, steps: Steps, streams: RequestStreams | None) -> Media:
        """One invocation of the pipeline; where its frames went to `streams`, the media's data is a stand-in."""
        model, card = self._model, self._model.card
        if self._adapters is not None:
            self._adapters.use(request.lora or ())
        keywords = placed(call.shared, model.device, getattr(torch, model.info.dtype)) | per_sample(call.samples)
        sketcher = None if self._previewer is None else self._previewer.sketcher(call, request)
        keywords |= steps.attach(model.pipeline, card.parameters, request.num_inference_steps or 1, sketcher)
        for seam in model.seams:
            seam.forget()
        latent = request.format == LATENT
        with contextlib.ExitStack() as stack:
            catch = None
            if streams is not None and self._tap is not None and self._tap.handed_on:
                catch = stack.enter_context(self._tap.catching(streams.emit))
            output = self._invoke(model.pipeline, keywords | {"output_type": LATENT if latent else card.output_type})
            device_range = value_range(model.seams) if card.output_type == DEVICE and not latent else card.value_range
            rate = card.sample_rate or sample_rate_of(model.pipeline)
            media = media_of(output, card, device_range, len(call.samples), rate, latent)
            frames = request.num_frames if set(NAMES["num_frames"]) & set(card.parameters) else None
            check_size(media, request.height, request.width, frames)
            return media if catch is None else replace(media, data=catch.settle(media.data, media.audio is None))

    def _invoke(self, pipeline: Any, keywords: dict[str, Any]) -> Any:
        """Call the pipeline. Our own errors and lack of memory pass, anything else becomes ForwardError with its cause."""
        try:
            with torch.inference_mode():
                return pipeline(**keywords)
        except OmniGenError:
            raise
        except Exception as error:  # boundary: a pipeline may raise anything, and it fails these requests alone
            if self._platform.is_out_of_memory(error):
                raise
            raise ForwardError(
                f"{type(pipeline).__name__}: {type(error).__name__}: {error}{_given(keywords)}"
            ) from error

    def synchronize(self) -> None:
        """Return when the device has done all its work."""
        if self._model.device.type != "cpu":
            torch.accelerator.synchronize(self._model.device)

    def sleep(self) -> None:
        """Move the weights to host memory; the cache of the allocator is the caller's to empty."""
        self._memo.forget()
        if self._memory.offloads:
            self._model.pipeline.maybe_free_model_hooks()
        else:
            self._model.pipeline.to("cpu")

    def wake_up(self) -> None:
        """Move the weights back; with model offload the pipeline does so itself."""
        if not self._memory.offloads:
            self._model.pipeline.to(self._model.device)

    def close(self) -> None:
        """Drop the model and read nothing more; harmless without a model."""
        self._inputs.close()
        self._drop()

    def _drop(self) -> None:
        self._memo.forget()
        self._loaded = self._adapters = self._ladder = self._previewer = self._tap = None
        gc.collect()  # pipelines hold cycles: without this the device's memory waits for the collector's own time


def _given(keywords: dict[str, Any]) -> str:
    """The tensors that a request brought, for the reader of an error about shapes."""
    tensors = sorted((name, value) for name, value in keywords.items() if isinstance(value, torch.Tensor))
    shapes = [f"{name} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}" for name, tensor in tensors]
    return f"; given: {', '.join(shapes)}" if shapes else ""
