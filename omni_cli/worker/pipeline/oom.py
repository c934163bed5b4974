"""Recover from running out of device memory: try one measure after the other until the call fits.

    earlier outputs on the device ──> the same once they have left it
    several samples ──> halves, down to one sample ──> VAE tiling and slicing ──> model offload ──> OutOfDeviceMemory

The measures of the second line stay in force: later calls of the same size are cut into parts that fit, and tiling and
offload stay on. The requested size is never changed.
"""

import gc
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch

from omni_cli.errors import OutOfDeviceMemory
from omni_cli.log import logger
from omni_cli.notes import MAX_NOTES, STANDING
from omni_cli.platforms.base import Platform
from omni_cli.shape import Size
from omni_cli.worker.pipeline.invocation import Invocation

TILING_NOTE = "out of device memory: VAE tiling and slicing switched on"
OFFLOAD_NOTE = "out of device memory: model offload to host memory switched on"
DRAINED_NOTE = "out of device memory: tried again once earlier outputs had left the device"


class OomLadder:
    """The measures against running out of device memory for one loaded pipeline."""

    def __init__(self, pipeline: Any, device: torch.device, platform: Platform, offloaded: bool = False) -> None:
        """Start with no measure taken. `offloaded`: the pipeline was loaded with model offload."""
        self._offloaded = offloaded
        self._pipeline = pipeline
        self._device = device
        self._platform = platform
        self._measures: list[tuple[str, Callable[[], bool]]] = [
            (TILING_NOTE, self._enable_tiling),
            (OFFLOAD_NOTE, self._enable_offload),
        ]
        self._taken: list[str] = []
        self._max_samples: dict[Size, int] = {}

    def drain(self, drain: Callable[[], bool]) -> str | None:
        """Call `drain`, which returns True if it has sent outputs, and return a note that the call may fit now.

        Returns None if there was nothing to be sent. To be called like `step_down`.
        """
        if not drain():
            return None
        self._free_unused()
        logger.info("%s", DRAINED_NOTE)
        return DRAINED_NOTE

    def offload(self) -> str | None:
        """Move the weights off the device, without a call that has failed; return a note, None if that cannot help."""
        if OFFLOAD_NOTE in self._taken or not self._enable_offload():
            return None
        self._measures = [measure for measure in self._measures if measure[0] != OFFLOAD_NOTE]
        self._taken.append(OFFLOAD_NOTE)
        self._free_unused()
        logger.info("%s", OFFLOAD_NOTE)
        return OFFLOAD_NOTE

    @property
    def offloads(self) -> bool:
        """True if the pipeline keeps its weights in host memory and moves them by itself."""
        return self._offloaded or OFFLOAD_NOTE in self._taken

    def parts(self, call: Invocation, size: Size) -> list[Invocation]:
        """Return `call`, whose samples have size `size`, cut into parts that are not known to be too large."""
        return _cut(call, self._max_samples.get(size, len(call.samples)))

    def notes_in_force(self, size: Size, samples: int) -> list[str]:
        """Return notes on earlier measures that affect a call of `samples` samples of size `size`."""
        notes = [f"{STANDING}{note}" for note in self._taken]
        if (limit := self._max_samples.get(size, samples)) < samples:
            notes.append(f"{STANDING}out of device memory: calls of this size have at most {limit} samples")
        return notes

    def step_down(self, call: Invocation, size: Size, reason: str) -> tuple[list[Invocation], str]:
        """Take the next measure after `call` ran out of memory; return what to run instead and a note on the measure.

        Call this when nothing references the failed call's tensors, so outside of the except block: its traceback does.
        `reason` is the allocator's message. Raises OutOfDeviceMemory if no measure is left.
        """
        self._free_unused()
        count = len(call.samples)
        if count > 1:
            self._max_samples[size] = half = (count + 1) // 2
            note = f"out of device memory: a call of {count} samples was halved"
            logger.info("%s", note)
            return _cut(call, half), note
        while self._measures:
            note, enable = self._measures.pop(0)
            if enable():
                self._taken.append(note)
                logger.info("%s", note)
                return [call], note
        tried = "".join(f"; {note.removeprefix('out of device memory: ')}, not enough" for note in self._taken)
        raise OutOfDeviceMemory(
            f"out of device memory with one sample{tried}: {reason}; "
            "try a smaller size, fewer frames, a narrower --dtype, or a device with more memory"
        )

    def _free_unused(self) -> None:
        gc.collect()  # reference cycles may hold tensors of the failed call
        self._platform.empty_cache()

    def _enable_tiling(self) -> bool:
        vae = getattr(self._pipeline, "vae", None)
        return any([_enable(vae, "enable_tiling"), _enable(vae, "enable_slicing")])

    def _enable_offload(self) -> bool:
        """Enable model offload if the device has its own memory and accelerate, which implements it, is installed."""
        if self._offloaded or self._device.type == "cpu" or importlib.util.find_spec("accelerate") is None:
            return False
        return _enable(self._pipeline, "enable_model_cpu_offload", device=self._device)


class RequestNotes:
    """The notes of each request of a batch. A note on a measure taken now replaces the note that it is in force."""

    def __init__(self, requests: int) -> None:
        """Start with no notes for `requests` requests."""
        self._notes: list[dict[str, None]] = [{} for _ in range(requests)]

    def add(self, owners: Sequence[int], notes: Sequence[str]) -> None:
        """Add `notes` to the requests with the indices `owners`."""
        for owner in owners:
            existing = self._notes[owner]
            existing.update(dict.fromkeys(note for note in notes if note.removeprefix(STANDING) not in existing))

    def of(self, request: int) -> tuple[str, ...]:
        """Return the first MAX_NOTES notes of the request with index `request`, and how many more there were."""
        notes = tuple(self._notes[request])
        more = len(notes) - MAX_NOTES
        return (*notes[:MAX_NOTES], f"{more} further notes are left out") if more > 0 else notes


def _enable(component: Any, method: str, **keywords: Any) -> bool:
    """Call a method of a diffusers object; return False if it is missing or not implemented."""
    enable = getattr(component, method, None)
    if enable is None:
        return False
    try:
        enable(**keywords)
    except NotImplementedError:
        return False
    return True


def _cut(call: Invocation, max_samples: int) -> list[Invocation]:
    """Return `call` in parts of at most `max_samples` samples, in order."""
    starts: Sequence[int] = range(0, len(call.samples), max_samples)
    return [
        Invocation(call.samples[i : i + max_samples], call.owners[i : i + max_samples], call.shared) for i in starts
    ]
