"""The runner for diffusers: requests in, checked media on the device out.

requests ── plan ──> calls ── pipeline ──> output ── check ──> Media per call ── split ──> Media per request
                       └── out of device memory: OomLadder cuts the call, or saves memory and retries it
"""

import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, ForwardError, OmniGenError
from omni_cli.inputs import reads_clip
from omni_cli.log import logger
from omni_cli.media import Media
from omni_cli.models.keywords import NAMES
from omni_cli.notes import MAX_NOTES
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.transport.messages import Loaded
from omni_cli.worker.loader import LoadedPipeline, identify, load, weights_of
from omni_cli.worker.model_state import ModelState
from omni_cli.worker.pipeline.call_notes import nsfw_flags, nsfw_note
from omni_cli.worker.pipeline.device_output_processor import DEVICE, output_range
from omni_cli.worker.pipeline.input_prefetcher import InputPrefetcher
from omni_cli.worker.pipeline.invocation import Invocation, plan_invocations, sample_arguments, to_device
from omni_cli.worker.pipeline.library_warnings import library_warnings
from omni_cli.worker.pipeline.media_from_output import LATENT, check_size, media_from_output, sample_rate
from omni_cli.worker.pipeline.oom import RequestNotes
from omni_cli.worker.pipeline.step_reporter import StepReporter
from omni_cli.worker.runner_protocol import (
    IsCancelled,
    OnFrames,
    OnIdentified,
    OnProgress,
    OnState,
    OnStep,
    StepState,
)
from omni_cli.worker.sleeping_models import SleepingModels


@dataclass(frozen=True, slots=True)
class _CallResult:
    """The media of one pipeline call, the notes on each sample, and whether the safety checker blackened it."""

    media: Media
    notes: list[tuple[str, ...]]
    nsfw: tuple[bool, ...]


class DiffusersRunner:
    """A Runner of one diffusers pipeline on one device; see `runner_protocol`."""

    def __init__(self) -> None:
        self._inputs = InputPrefetcher()
        self._on_frames: OnFrames | None = None
        self._drain: Callable[[], bool] = lambda: False
        self._loaded_state: ModelState | None = None
        self._loaded_model: ModelConfig | None = None
        self._asleep = SleepingModels[ModelState]()

    @property
    def _state(self) -> ModelState:
        if self._loaded_state is None:
            raise EngineError("no model is loaded")
        return self._loaded_state

    @property
    def _model(self) -> LoadedPipeline:
        return self._state.loaded

    def identify(self, model: ModelConfig, on_progress: OnProgress) -> Loaded | None:
        """Return what `load` would return, without reading weights. Raises ModelLoadError."""
        return identify(model, on_progress)

    def load(
        self,
        model: ModelConfig,
        engine: EngineConfig,
        on_progress: OnProgress,
        on_identified: OnIdentified | None = None,
    ) -> Loaded:
        """Load `model`; the previous one leaves the device before, for host memory if it fits there.

        A model that sleeps in host memory is woken up, if its files are still the same. Raises ModelLoadError.
        """
        self._suspend(model, engine.least_workers)
        woken = self._asleep.take(model)

        def reuse(revision: str) -> LoadedPipeline | None:
            nonlocal woken
            if woken is not None and woken.loaded.info.revision != revision:
                woken = None
            return None if woken is None else woken.loaded

        with _warning_of(f"loading {model.title}"):
            loaded = load(model, on_progress, on_identified, reuse)
        if woken is None:
            woken = ModelState.of(loaded, model, engine, on_progress)
        else:
            on_progress(f"onto {loaded.device}")
            woken.wake_up()
        self._loaded_state, self._loaded_model = woken, model
        return loaded.loaded_message

    def prefetch(self, requests: Sequence[PlannedRequest]) -> None:
        """Start reading the inputs of `requests`. Thread-safe."""
        self._inputs.prefetch(requests)

    def discard(self, requests: Sequence[PlannedRequest]) -> None:
        """Release the inputs of `requests`."""
        self._inputs.discard(requests)

    def stream_to(self, on_frames: OnFrames | None) -> None:
        """Pass on frames of the next batch to `on_frames` while they are being decoded."""
        self._on_frames = on_frames

    def drain_by(self, drain: Callable[[], bool]) -> None:
        """Call `drain` when a batch has run out of device memory, before the ladder steps down."""
        self._drain = drain

    def free_memory(self) -> str | None:
        """Switch model offload on, if that is possible and was not done before; return a note on it."""
        return self._state.oom_ladder.offload()

    def execute_model(
        self, requests: Sequence[PlannedRequest], on_step: OnStep, is_cancelled: IsCancelled
    ) -> Sequence[Media]:
        """Run one batch and return one Media per request.

        Raises RequestCancelled, OutOfDeviceMemory if no measure against it is left, and ForwardError for whatever else
        the pipeline raises.
        """

        def on_state(state: StepState) -> bool:
            on_step(state.step, state.total)
            return True

        return self._execute(requests, on_state, is_cancelled)

    def execute_stepwise(self, requests: Sequence[PlannedRequest], on_state: OnState) -> Sequence[Media]:
        """Run one batch like `execute_model`, calling `on_state` after each step."""
        return self._execute(requests, on_state, lambda: False)

    def _execute(
        self, requests: Sequence[PlannedRequest], on_state: OnState, is_cancelled: IsCancelled
    ) -> Sequence[Media]:
        """Run the pipeline calls of one batch, with smaller calls or less memory in use after running out of memory."""
        state, ladder = self._state, self._state.oom_ladder
        planned = [
            (call, requests[call.owners[0]]) for call in plan_invocations(requests, self._model.card, self._inputs.read)
        ]
        calls = deque((part, request) for call, request in planned for part in ladder.parts(call, request.shape.size))
        notes = RequestNotes(len(requests))
        for call, request in planned:
            notes.add(call.owners, ladder.notes_in_force(request.shape.size, len(call.samples)))
        steps = StepReporter(len(calls), on_state, is_cancelled)
        state.streamer.begin(self._on_frames, is_cancelled)
        medias, owners, nsfw = list[Media](), list[int](), list[bool]()
        drained = False
        while calls:
            call, request = calls.popleft()
            steps.next_call()
            result = self._try(call, request.request, steps)
            if isinstance(result, _CallResult):
                notes.add(call.owners, ladder.notes_in_force(request.shape.size, len(call.samples)))
                for owner, sample_notes in zip(call.owners, result.notes, strict=True):
                    notes.add([owner], sample_notes)
                medias.append(result.media)
                owners.extend(call.owners)
                nsfw.extend(result.nsfw)
                continue
            parts, note = self._save_memory(call, request, result, may_drain=not drained)
            drained = True  # once per batch: pieces of its own videos are outputs, too
            steps.retry_call(len(parts))
            calls.extendleft((part, request) for part in reversed(parts))
            notes.add(call.owners, [note])
        results = []
        for index, media in enumerate(state.streamer.split(medias, owners, len(requests))):
            flags = [flag for flag, owner in zip(nsfw, owners, strict=True) if owner == index]
            all_notes = (*filter(None, [nsfw_note(flags)]), *notes.of(index), *steps.notes)
            results.append(replace(media, notes=all_notes, nsfw=nsfw_note(flags), stopped_at=steps.stopped_at))
        return results

    def _save_memory(
        self, call: Invocation, request: PlannedRequest, reason: str, may_drain: bool
    ) -> tuple[list[Invocation], str]:
        """Return what to run in place of `call`, which ran out of memory for `reason`, and a note on the measure.

        Raises OutOfDeviceMemory if no measure is left.
        """
        ladder = self._state.oom_ladder
        self._state.prompt_embeds.clear()
        if may_drain and (note := ladder.drain(self._drain)) is not None:
            return [call], note
        return ladder.step_down(call, request.shape.size, reason)

    def _try(self, call: Invocation, request: GenerationRequest, steps: StepReporter) -> "_CallResult | str":
        """Return the result of one call, or the allocator's message if it ran out of device memory.

        The error itself is not returned, because its traceback references the tensors of the call.
        """
        try:
            return self._run(call, request, steps)
        except (RuntimeError, MemoryError) as error:
            if not self._state.platform.is_out_of_memory(error):
                raise
            return str(error)

    def _run(self, call: Invocation, request: GenerationRequest, steps: StepReporter) -> "_CallResult":
        """Run one pipeline call and return its checked media, with what there is to note."""
        state, model, card = self._state, self._model, self._model.card
        state.adapters.activate(request.lora or ())
        is_latent = request.format == LATENT
        make_previews = None if state.previewer is None else state.previewer.for_call(call, request)
        arguments = {
            **to_device(call.shared, model.device, getattr(torch, model.info.dtype)),
            **sample_arguments(call.samples),
            **steps.attach(model.pipeline, card.parameters, request.num_inference_steps or 1, make_previews),
            "output_type": LATENT if is_latent else card.output_type,
        }
        for processor in model.processors:
            processor.reset()
        with state.streamer.capture(call.owners) as finish:
            with state.call_notes.collecting(call):
                output = self._call(model.pipeline, arguments, len(call.samples) if request.prompt_weighting else 0)
            is_raw = card.output_type == DEVICE and not is_latent
            value_range = output_range(model.processors) if is_raw else card.value_range
            rate = card.sample_rate or sample_rate(model.pipeline)
            media = media_from_output(output, card, value_range, len(call.samples), rate, is_latent)
            makes_frames = set(NAMES["num_frames"]) & set(card.parameters) and not reads_clip(request)
            check_size(media, request.height, request.width, request.num_frames if makes_frames else None)
            nsfw = nsfw_flags(output, len(call.samples))
            return _CallResult(finish(media), state.call_notes.of(call, request, nsfw), nsfw)

    def _call(self, pipeline: Any, arguments: dict[str, Any], weighted: int) -> Any:
        """Call the pipeline; the text of `weighted` samples, if any, is replaced by its embeddings.

        Raises our own errors and out-of-memory errors as they are, any other as ForwardError.
        """
        try:
            with torch.inference_mode():
                if weighted:
                    arguments = self._state.weighted_prompts.replace_texts(arguments, weighted)
                return pipeline(**arguments)
        except OmniGenError:
            raise
        except Exception as error:  # boundary: a pipeline may raise anything, which fails these requests alone
            if self._state.platform.is_out_of_memory(error):
                raise
            message = f"{type(pipeline).__name__}: {type(error).__name__}: {error}"
            raise ForwardError(message + _tensor_shapes(arguments)) from error

    def synchronize(self) -> None:
        """Wait until the device has finished all work."""
        if self._model.device.type != "cpu":
            torch.accelerator.synchronize(self._model.device)

    def sleep(self) -> None:
        """Move the weights to host memory. The caller empties the allocator's cache."""
        self._state.sleep()

    def wake_up(self) -> None:
        """Move the weights back to the device; with model offload, the pipeline does that itself."""
        self._state.wake_up()

    def close(self) -> None:
        """Release the model, if one is loaded, and stop reading inputs."""
        self._inputs.close()
        self._asleep.clear()
        self._release()

    def _suspend(self, following: ModelConfig, workers: int) -> None:
        """Free the device for `following`: put the loaded model to sleep where host memory has room, else release it.

        Each of `workers` workers may take its share of the free memory.
        """
        state, model = self._loaded_state, self._loaded_model
        if state is None or model is None:
            return
        moved = state.device_bytes
        read = 0 if following in self._asleep else weights_of(following) or state.loaded.nbytes
        if model != following and self._asleep.has_room(moved + read, workers):
            try:
                state.sleep()
                self._asleep.add(model, state)
            except (RuntimeError, MemoryError) as error:
                logger.info("%s cannot be kept in host memory: %s", model.title, error)
        platform = state.platform
        del state
        self._release()
        platform.empty_cache()

    def _release(self) -> None:
        self._loaded_state = self._loaded_model = None
        gc.collect()  # pipelines contain reference cycles, which would keep device memory until the next collection


@contextmanager
def _warning_of(action: str) -> Iterator[None]:
    """Log what libraries warn of inside the `with` block, during `action`, as one warning."""
    texts: dict[str, None] = {}
    try:
        with library_warnings(texts.setdefault):
            yield
    finally:
        if texts:
            more = len(texts) - MAX_NOTES
            shown = [*list(texts)[:MAX_NOTES], *([f"and {more} more warnings"] if more > 0 else [])]
            logger.warning("%s: %s", action, "; ".join(shown))


def _tensor_shapes(arguments: dict[str, Any]) -> str:
    """Return the shapes of the request's tensors, to be appended to an error message about shapes."""
    tensors = sorted((name, value) for name, value in arguments.items() if isinstance(value, torch.Tensor))
    shapes = [f"{name} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}" for name, tensor in tensors]
    return f"; input tensors: {', '.join(shapes)}" if shapes else ""
