"""The two ways from a decoded tensor to uint8 frames in the parent's memory, measured in turn. A program of its own.

    ours   device: uint8 ── one DMA (CUDA) or the conversion itself (CPU) ──> ring slot ── mapped view ──> frames
    seed   device ── pinned copy ──> host float ── widen ──> float32 ── copy ──> fresh segment ── copy out ──>
           denormalize, clamp, x255, round ──> frames

Both roles, worker and parent, are played in this process, one after the other: the mappings are real, only the message
between them (microseconds, the same for both) is missing. One intra-op thread for both: that is the output thread's share.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from omni_cli import platforms
from omni_cli.bench.machine import free_bytes, peak_bytes, reset_peak
from omni_cli.bench.transport import CaseReport, Clip, TransportJob, WayReport
from omni_cli.config import VideoOutputTransport
from omni_cli.media import NORMALIZED, Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.platforms.base import Platform
from omni_cli.transport.ring import SlotPool, SlotViews, anonymous_memory
from omni_cli.worker.packing import Packer
from omni_cli.worker.pinning import pin, unpin
from omni_cli.writers import Frames, samples

Levels = NDArray[np.uint8]

LEAST_REPEATS = 3
CASE_BUDGET_S = 40.0

SEED_PEAK = 17
"""Bytes of host memory per pixel and channel that the seed documents' way and its input need at their worst, on a CPU."""

OVERSHOOT = 1.1
"""Values reach beyond -1..1, as a decoder's do: clamping is part of the work."""


@dataclass(frozen=True, slots=True)
class Trip:
    """What one trip cost beside time."""

    moved_bytes: int
    host_copies: int


class Ours:
    """`worker.packing` into a slot of the ring, and the parent's view of it."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._packer = Packer(platform, VideoOutputTransport())
        self._pool = SlotPool(1 << 40, lambda memory: pin(platform, memory), lambda memory: unpin(platform, memory))
        self._views = SlotViews()

    def __call__(self, media: Media, see: Callable[[int, Levels], None] | None = None) -> Trip:
        """Move `media`; `see` gets each frame while the slot is held."""
        slots: list[Any] = []

        def allocate(nbytes: int) -> Any:
            slots.append(self._pool.acquire(nbytes))
            return slots[-1].memory

        packed = self._packer.pack(media, self._platform.record_device_event(), allocate)
        (slot,) = slots
        descriptors = [os.dup(slot.fd)] if slot.fresh else []
        buffer = self._views.view(slot.ref(packed.nbytes, self._pool.take_retired()), descriptors)
        self._pool.shared(slot)
        (frames,) = samples(packed.header, buffer)
        assert isinstance(frames, Frames)
        if see is not None:
            for number, frame in enumerate(frames):
                see(number, frame)
        self._pool.release(slot.id)
        return Trip(packed.nbytes, 1 if media.data.device.type == "cpu" else 0)

    def close(self) -> None:
        """Give the slots back."""
        self._views.close()
        self._pool.close()


class Seed:
    """The way that the documents this project started from describe, on the same kinds of memory."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def __call__(self, media: Media, see: Callable[[int, Levels], None] | None = None) -> Trip:
        """Move `media`; `see` gets each frame."""
        host = self._to_host(media.data)
        copies = int(host.dtype is not torch.float32)
        floats = host.float()
        del host
        shape, nbytes = tuple(floats.shape), floats.nbytes
        descriptor = anonymous_memory(nbytes)
        with mmap(descriptor, nbytes) as segment:
            _fill(segment, floats)
        del floats
        # Here the parent takes over.
        with mmap(descriptor, nbytes, access=ACCESS_READ) as segment:
            arrived = _copy_out(segment, shape)
        os.close(descriptor)
        frames = _quantize(arrived)
        if see is not None:
            for number, frame in enumerate(frames):
                see(number, frame)
        return Trip(nbytes, copies + 3)

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
        """Nothing is kept."""


def _fill(segment: mmap, floats: torch.Tensor) -> None:
    np.frombuffer(segment, np.float32).reshape(floats.shape)[...] = floats.numpy()


def _copy_out(segment: mmap, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.frombuffer(segment, np.float32).reshape(shape).copy()


def _quantize(arrived: NDArray[np.float32]) -> Levels:
    """[1, C, T, H, W] or [1, C, H, W] in -1..1 to [T, H, W, C], in the steps of diffusers' processors."""
    unit = (torch.from_numpy(arrived) * 0.5 + 0.5).clamp(0, 1).numpy()[0]
    frames = unit[:, None] if unit.ndim == 3 else unit
    levels = np.empty((*frames.shape[1:], frames.shape[0]), np.uint8)
    for number in range(len(levels)):
        levels[number] = (frames[:, number].transpose(1, 2, 0) * 255).round()
    return levels


def media_of(clip: Clip, dtype: torch.dtype, device: str) -> Media:
    """A decoded output of that size. Each frame is another, so that frames cannot be mixed up unnoticed."""
    noise = torch.rand(3, clip.height, clip.width, generator=torch.Generator().manual_seed(0))
    first = noise.mul_(2 * OVERSHOOT).sub_(OVERSHOOT).to(dtype)
    if clip.frames == 1:
        return Media(MediaSpec(Kind.IMAGE, Layout.BCHW, Encoding.FLOAT, NORMALIZED), first[None].to(device))
    data = torch.empty(1, 3, clip.frames, clip.height, clip.width, dtype=dtype, device=device)
    for number in range(clip.frames):
        data[0, :, number] = first.roll(number, dims=-1)
    return Media(MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, NORMALIZED), data)


def main() -> None:
    """Read the job, print a line per case."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=TransportJob)
    platform, device = platforms.resolve(job.device)
    platform.activate(device)
    torch.set_num_threads(1)
    for clip in job.clips:
        for dtype in job.dtypes:
            report = _case(clip, dtype, job.repeats, platform, device)
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()


def _case(clip: Clip, dtype: str, repeats: int, platform: Platform, device: str) -> CaseReport:
    need, free = SEED_PEAK * clip.levels, free_bytes()
    if free is not None and need > free:
        reason = f"needs {need / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free"
        return CaseReport(clip=clip, dtype=dtype, device=device, skipped=reason)
    try:
        media = media_of(clip, getattr(torch, dtype), device)
        return _measure(clip, dtype, media, repeats, platform, device)
    except (RuntimeError, MemoryError) as error:
        if not platform.is_out_of_memory(error):
            raise
        return CaseReport(clip=clip, dtype=dtype, device=device, skipped="does not fit into memory")


def _measure(clip: Clip, dtype: str, media: Media, repeats: int, platform: Platform, device: str) -> CaseReport:
    ours_peaks, seed_peaks = _peaks(Ours, media, platform), _peaks(Seed, media, platform)
    ours, seed = Ours(platform), Seed(platform)
    try:
        apart, trip, seed_trip = _compare(ours, seed, media)
        times = _alternate(ours, seed, media, repeats, platform)
    finally:
        ours.close()
    return CaseReport(
        clip=clip,
        dtype=dtype,
        device=device,
        ours=_way(times[0], trip, ours_peaks),
        seed=_way(times[1], seed_trip, seed_peaks),
        levels_apart=apart,
    )


def _way(seconds: list[float], trip: Trip, peaks: tuple[int | None, int | None]) -> WayReport:
    return WayReport(
        seconds=tuple(seconds),
        moved_bytes=trip.moved_bytes,
        host_copies=trip.host_copies,
        device_peak_bytes=peaks[0],
        host_peak_bytes=peaks[1],
    )


def _alternate(
    ours: Ours, seed: Seed, media: Media, repeats: int, platform: Platform
) -> tuple[list[float], list[float]]:
    """Seconds of each way, in turn, the order turned each time; fewer repeats where one takes long."""
    times: tuple[list[float], list[float]] = ([], [])
    begun = time.monotonic()
    for repeat in range(repeats):
        ways: list[tuple[int, Ours | Seed]] = [(0, ours), (1, seed)]
        for column, way in ways if repeat % 2 == 0 else reversed(ways):
            platform.synchronize()
            start = time.monotonic()
            way(media)
            times[column].append(time.monotonic() - start)
        if repeat + 1 >= LEAST_REPEATS and time.monotonic() - begun > CASE_BUDGET_S:
            break
    return times


def _compare(ours: Ours, seed: Seed, media: Media) -> tuple[int, Trip, Trip]:
    """The largest difference in levels between both ways' frames, and what each trip cost; also their warm-up."""
    frames: list[Levels] = []
    apart = [0]
    trip = ours(media, lambda _, frame: frames.append(frame.copy()))
    seed_trip = seed(media, lambda number, frame: apart.append(_apart(frame, frames[number])))
    return max(apart), trip, seed_trip


def _apart(one: Levels, other: Levels) -> int:
    """The largest difference; wide enough for -255..255, since levels are unsigned and would wrap."""
    return int(np.abs(one.astype(np.int16) - other.astype(np.int16)).max())


def _peaks(
    way_of: Callable[[Platform], Ours | Seed], media: Media, platform: Platform
) -> tuple[int | None, int | None]:
    """Device and host bytes beyond what was there before, at the worst moment of a first trip; None where not known."""
    way: Ours | Seed = way_of(platform)
    before_device = platform.memory_in_use()
    if platform.asynchronous:
        torch.accelerator.reset_peak_memory_stats()
    before = reset_peak()
    way(media)
    host = None if before is None else max(0, peak_bytes() - before)
    peak = torch.accelerator.max_memory_allocated() - before_device if platform.asynchronous else None
    way.close()
    return peak, host


if __name__ == "__main__":
    main()
