"""What is done when a forward runs out of device memory, one rung after the other, until it fits or nothing is left to try.

    a call of several samples ──> halves, down to one sample ──> VAE tiling and slicing ──> model offload ──> OutOfDeviceMemory

What was found is kept: later calls of the same size come in parts that fit, and a switch that is on stays on. The size that the
user asked for is never changed.
"""

import gc
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch

from omni_cli.errors import OutOfDeviceMemory
from omni_cli.log import logger
from omni_cli.platforms.base import Platform
from omni_cli.request import GenerationRequest
from omni_cli.transport.messages import STANDING
from omni_cli.worker.calls import Call

TILING_NOTE = "out of device memory: VAE tiling and slicing switched on"
OFFLOAD_NOTE = "out of device memory: model offload to host memory switched on"

Size = tuple[int | None, int | None, int | None]


class Ladder:
    """The rungs of one loaded pipeline."""

    def __init__(self, pipeline: Any, device: torch.device, platform: Platform, offloaded: bool = False) -> None:
        """No rung is taken yet; `offloaded`: the pipeline was loaded with its weights behind hooks."""
        self._offloaded = offloaded
        self._pipeline = pipeline
        self._device = device
        self._platform = platform
        self._rungs: list[tuple[str, Callable[[], bool]]] = [(TILING_NOTE, self._tile), (OFFLOAD_NOTE, self._offload)]
        self._taken: list[str] = []
        self._fits: dict[Size, int] = {}

    @property
    def offloads(self) -> bool:
        """True if the weights are in host memory between their uses, moved by the pipeline itself."""
        return self._offloaded or OFFLOAD_NOTE in self._taken

    def parts(self, call: Call, request: GenerationRequest) -> list[Call]:
        """`call` in parts that are not known to be too large; `request` is any of those that share it."""
        return _cut(call, self._fits.get(_size(request), len(call.samples)))

    def in_force(self, request: GenerationRequest, whole: int) -> list[str]:
        """Notes on the steps that were taken before and that bear on `request`, whose call would have `whole` samples."""
        notes = [f"{STANDING}{note}" for note in self._taken]
        if (fits := self._fits.get(_size(request), whole)) < whole:
            notes.append(f"{STANDING}out of device memory: calls of this size have at most {fits} samples")
        return notes

    def step_down(self, call: Call, request: GenerationRequest, reason: str) -> tuple[list[Call], str]:
        """What to run in place of `call`, which ran out of memory, and a note on what was changed.

        Must be called when nothing holds the failed call's tensors any more (outside the except block: a traceback does).
        Raises OutOfDeviceMemory if there is nothing left to try; `reason` is the allocator's own message.
        """
        gc.collect()  # frames of the failed call may hang in cycles
        self._platform.empty_cache()
        count = len(call.samples)
        if count > 1:
            self._fits[_size(request)] = half = (count + 1) // 2
            return _cut(call, half), _told(f"out of device memory: a call of {count} samples was halved")
        while self._rungs:
            note, take = self._rungs.pop(0)
            if take():
                self._taken.append(note)
                return [call], _told(note)
        tried = "".join(f"; {note.removeprefix('out of device memory: ')}, not enough" for note in self._taken)
        raise OutOfDeviceMemory(
            f"out of device memory with one sample{tried}: {reason}; "
            "try a smaller size, fewer frames, a narrower --dtype, or a device with more memory"
        )

    def _tile(self) -> bool:
        vae = getattr(self._pipeline, "vae", None)
        return any([_switch(vae, "enable_tiling"), _switch(vae, "enable_slicing")])

    def _offload(self) -> bool:
        """Only where host memory is another memory, and accelerate (whose hooks do it) is installed."""
        if self._offloaded or self._device.type == "cpu" or importlib.util.find_spec("accelerate") is None:
            return False
        return _switch(self._pipeline, "enable_model_cpu_offload", device=self._device)


class Notes:
    """What is noted of each request of a call; a step that is told as taken is not told as still in force beside it."""

    def __init__(self, requests: int) -> None:
        self._notes: list[dict[str, None]] = [{} for _ in range(requests)]

    def add(self, owners: Sequence[int], notes: Sequence[str]) -> None:
        """Note all of `notes` for the requests with these numbers."""
        for owner in owners:
            told = self._notes[owner]
            told.update(dict.fromkeys(note for note in notes if note.removeprefix(STANDING) not in told))

    def of(self, request: int) -> tuple[str, ...]:
        """The notes of one request, in the order in which they came."""
        return tuple(self._notes[request])


def _switch(thing: Any, name: str, **keywords: Any) -> bool:
    """Call the method `name` of an object of diffusers; False if it has none, or has one that says it does nothing."""
    method = getattr(thing, name, None)
    if method is None:
        return False
    try:
        method(**keywords)
    except NotImplementedError:
        return False
    return True


def _told(note: str) -> str:
    logger.info("%s", note)
    return note


def _cut(call: Call, size: int) -> list[Call]:
    """`call` in parts of at most `size` samples, in order."""
    starts: Sequence[int] = range(0, len(call.samples), size)
    return [Call(call.samples[i : i + size], call.owners[i : i + size], call.shared) for i in starts]


def _size(request: GenerationRequest) -> Size:
    """What a sample's memory depends on."""
    return request.height, request.width, request.num_frames
