"""Two paths from a decoded tensor to uint8 frames in the parent's memory, measured in turn. A program of its own.

    ours       device: uint8 ── one DMA (CUDA) or the conversion itself (CPU) ──> ring slot ── mapped view ──> frames
    reference  device ── pinned copy ──> host float ── widen ──> float32 ── copy ──> fresh segment ── copy out ──>
               denormalize, clamp, x255, round ──> frames

The reference path is the one of vLLM-Omni's async diffusion output. Both roles, worker and parent, run in this process
one after the other: the mappings are real, only the message between them (microseconds, the same for both) is missing.
Both paths use one intra-op thread, the share of the output thread.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from typing import Any, Protocol

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from omni_cli import platforms
from omni_cli.bench.machine import peak_bytes, reset_peak
from omni_cli.bench.transport_bench import CaseReport, ClipSize, PathReport, TransportJob
from omni_cli.config import VideoOutputTransport
from omni_cli.host_memory import free_bytes
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.base import Platform
from omni_cli.transport.ring import SlotViews, anonymous_memory
from omni_cli.worker.output.outgoing import pinned_slot_pool
from omni_cli.worker.output.packer import Packer
from omni_cli.writers import Frames, split_samples

Levels = NDArray[np.uint8]
OnFrame = Callable[[int, Levels], None]
"""Receives a frame's number and its levels, uint8 [H, W, C], valid during the call."""

MIN_REPEATS = 3
CASE_BUDGET_S = 40.0

REFERENCE_PEAK = 17
"""Peak host bytes per level that the reference path and its input need on a CPU."""

OVERSHOOT = 1.1
"""Largest absolute value of the input: a decoder's output leaves -1..1 too, so clamping is part of the work."""


@dataclass(frozen=True, slots=True)
class TransferCost:
    """The cost of one transfer besides its time: bytes between the processes, copies of the payload in host memory."""

    moved_bytes: int
    host_copies: int


class TransportPath(Protocol):
    """A path from a decoded output to frames in the parent's memory."""

    def __call__(self, media: Media, on_frame: OnFrame | None = None) -> TransferCost:
        """Transfer `media`; pass each frame to `on_frame`."""

    def close(self) -> None:
        """Free the path's memory."""


class RingPath:
    """The engine's path: the packer's conversion into a slot of the ring, and the parent's view of the slot."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._packer = Packer(platform, VideoOutputTransport())
        self._pool = pinned_slot_pool(platform, 1 << 40)
        self._views = SlotViews()

    def __call__(self, media: Media, on_frame: OnFrame | None = None) -> TransferCost:
        """Transfer `media`; pass each frame to `on_frame` while the slot is in use."""
        slots: list[Any] = []

        def allocate(nbytes: int) -> Any:
            slots.append(self._pool.acquire(nbytes))
            return slots[-1].memory

        packed = self._packer.pack(media, self._platform.record_device_event(), allocate)
        (slot,) = slots
        descriptors = [os.dup(slot.fd)] if slot.fresh else []
        buffer = self._views.view(slot.ref(packed.nbytes, self._pool.take_retired()), descriptors)
        self._pool.mark_shared(slot)
        (frames,) = split_samples(packed.header, buffer)
        assert isinstance(frames, Frames)
        if on_frame is not None:
            for number, frame in enumerate(frames):
                on_frame(number, frame)
        self._pool.release(slot.id)
        return TransferCost(packed.nbytes, 1 if media.data.device.type == "cpu" else 0)

    def close(self) -> None:
        """Free the slots."""
        self._views.close()
        self._pool.close()


class ReferencePath:
    """The reference: floats through a fresh segment, converted on the host."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def __call__(self, media: Media, on_frame: OnFrame | None = None) -> TransferCost:
        """Transfer `media`; pass each frame to `on_frame`."""
        host = self._to_host(media.data)
        copies = int(host.dtype is not torch.float32)
        floats = host.float()
        del host
        shape, nbytes = tuple(floats.shape), floats.nbytes
        descriptor = anonymous_memory(nbytes)
        with mmap(descriptor, nbytes) as segment:
            _write_segment(segment, floats)
        del floats
        # From here on it is the parent's part.
        with mmap(descriptor, nbytes, access=ACCESS_READ) as segment:
            received = _read_segment(segment, shape)
        os.close(descriptor)
        frames = _quantize(received)
        if on_frame is not None:
            for number, frame in enumerate(frames):
                on_frame(number, frame)
        return TransferCost(nbytes, copies + 3)

    def _to_host(self, data: torch.Tensor) -> torch.Tensor:
        if data.device.type == "cpu":
            return data
        after = self._platform.record_device_event()
        pinned = torch.empty(data.shape, dtype=data.dtype, pin_memory=True)
        with self._platform.side_stream(after):
            self._platform.keep_alive(data)
            pinned.copy_(data, non_blocking=True)
        return pinned

    def close(self) -> None:
        """Do nothing: every transfer frees its own memory."""


# The arrays over a segment live in functions of their own: an mmap cannot be closed while an array views it.


def _write_segment(segment: mmap, floats: torch.Tensor) -> None:
    np.frombuffer(segment, np.float32).reshape(floats.shape)[...] = floats.numpy()


def _read_segment(segment: mmap, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.frombuffer(segment, np.float32).reshape(shape).copy()


def _quantize(floats: NDArray[np.float32]) -> Levels:
    """Convert [1, C, T, H, W] or [1, C, H, W] in -1..1 to uint8 [T, H, W, C], in the steps of diffusers' processors."""
    unit = (torch.from_numpy(floats) * 0.5 + 0.5).clamp(0, 1).numpy()[0]
    frames = unit[:, None] if unit.ndim == 3 else unit
    levels = np.empty((*frames.shape[1:], frames.shape[0]), np.uint8)
    for number in range(len(levels)):
        levels[number] = (frames[:, number].transpose(1, 2, 0) * 255).round()
    return levels


def random_media(clip: ClipSize, dtype: torch.dtype, device: str) -> Media:
    """Return a decoded output of that size. All frames differ, so that mixed-up frames are noticed."""
    noise = torch.rand(3, clip.height, clip.width, generator=torch.Generator().manual_seed(0))
    first = noise.mul_(2 * OVERSHOOT).sub_(OVERSHOOT).to(dtype)
    if clip.frames == 1:
        return Media(MediaSpec(Kind.IMAGE, Layout.BCHW, Encoding.FLOAT, NORMALIZED), first[None].to(device))
    data = torch.empty(1, 3, clip.frames, clip.height, clip.width, dtype=dtype, device=device)
    for number in range(clip.frames):
        data[0, :, number] = first.roll(number, dims=-1)
    return Media(MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED), data)


def main() -> None:
    """Read the job from stdin and print a line per case."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=TransportJob)
    platform, device = platforms.resolve(job.device)
    platform.activate(device)
    torch.set_num_threads(1)
    for clip in job.clips:
        for dtype in job.dtypes:
            report = _case(clip, dtype, job.repeats, platform, device)
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()


def _case(clip: ClipSize, dtype: str, repeats: int, platform: Platform, device: str) -> CaseReport:
    """Measure one case, or report why it is skipped."""
    need, free = REFERENCE_PEAK * clip.levels, free_bytes()
    if free is not None and need > free:
        reason = f"needs {need / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free"
        return CaseReport(clip=clip, dtype=dtype, device=device, skipped=reason)
    try:
        media = random_media(clip, getattr(torch, dtype), device)
        return _measure(clip, dtype, media, repeats, platform, device)
    except (RuntimeError, MemoryError) as error:
        if not platform.is_out_of_memory(error):
            raise
        return CaseReport(clip=clip, dtype=dtype, device=device, skipped="does not fit into memory")


def _measure(clip: ClipSize, dtype: str, media: Media, repeats: int, platform: Platform, device: str) -> CaseReport:
    peaks = [_peaks(open_path, media, platform) for open_path in (RingPath, ReferencePath)]
    ours, reference = RingPath(platform), ReferencePath(platform)
    try:
        levels_apart, costs = _compare(ours, reference, media)
        seconds = _alternate((ours, reference), media, repeats, platform)
    finally:
        ours.close()
    reports = [
        PathReport(
            seconds=tuple(path_seconds),
            moved_bytes=cost.moved_bytes,
            host_copies=cost.host_copies,
            device_peak_bytes=device_peak,
            host_peak_bytes=host_peak,
        )
        for path_seconds, cost, (device_peak, host_peak) in zip(seconds, costs, peaks, strict=True)
    ]
    return CaseReport(
        clip=clip, dtype=dtype, device=device, ours=reports[0], reference=reports[1], levels_apart=levels_apart
    )


def _peaks(
    open_path: Callable[[Platform], TransportPath], media: Media, platform: Platform
) -> tuple[int | None, int | None]:
    """Return the peak device and host bytes of a first transfer, beyond those in use before; None where unknown."""
    path = open_path(platform)
    device_before = platform.memory_in_use()
    if platform.asynchronous:
        torch.accelerator.reset_peak_memory_stats()
    host_before = reset_peak()
    path(media)
    host_peak = None if host_before is None else max(0, peak_bytes() - host_before)
    device_peak = torch.accelerator.max_memory_allocated() - device_before if platform.asynchronous else None
    path.close()
    return device_peak, host_peak


def _compare(
    ours: TransportPath, reference: TransportPath, media: Media
) -> tuple[int, tuple[TransferCost, TransferCost]]:
    """Return the largest difference in levels between both paths' frames, and their costs.

    It is their warm-up as well.
    """
    frames: list[Levels] = []
    differences = [0]

    def compare(number: int, frame: Levels) -> None:
        # int16 holds -255..255; unsigned levels would wrap.
        differences.append(int(np.abs(frame.astype(np.int16) - frames[number].astype(np.int16)).max()))

    cost = ours(media, lambda _, frame: frames.append(frame.copy()))
    reference_cost = reference(media, compare)
    return max(differences), (cost, reference_cost)


def _alternate(paths: Sequence[TransportPath], media: Media, repeats: int, platform: Platform) -> list[list[float]]:
    """Return the seconds of each path; the order alternates, and slow paths are repeated less often."""
    seconds: list[list[float]] = [[] for _ in paths]
    begun = time.monotonic()
    for repeat in range(repeats):
        turns = list(zip(paths, seconds, strict=True))
        for path, path_seconds in turns if repeat % 2 == 0 else reversed(turns):
            platform.synchronize()
            start = time.monotonic()
            path(media)
            path_seconds.append(time.monotonic() - start)
        if repeat + 1 >= MIN_REPEATS and time.monotonic() - begun > CASE_BUDGET_S:
            break
    return seconds


if __name__ == "__main__":
    main()
