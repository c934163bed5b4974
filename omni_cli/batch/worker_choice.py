"""How many workers `--workers auto` starts, and how many intra-op threads each of them has on a CPU.

    accelerator           one worker per device, as many as there are calls
    CPU, small requests   one worker per core, of one thread each: threads gain little on small operations
    CPU, large requests   one worker with all cores

A request is small by its work: weights in bytes x pixels of all its frames. The number of threads changes single levels
of pixels, so it depends on the machine, the model and the size of the first request, not on how many requests are left.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from omni_cli.config import EngineConfig
from omni_cli.cores import usable_cores
from omni_cli.host_memory import free_bytes

SMALL_WORK = 2e12
"""Bytes x pixels up to which one worker per core is faster, measured with the demo model on two cores.

128 clips of 64x64x9 (0.6e12): 4.6/s with two workers of one thread, 3.0/s with one worker of two threads. At 512x512
(3.9e12) it depends on the CPU: four images of 4 steps took 8.0 s and 9.1 s on one with AVX2, while one with AVX-512
lost a fifth; one worker needs less memory.
"""

WORKER_BYTES = 1 << 30
"""Host memory of a worker beside its weights: imports and activations of small requests."""

CALLS_PER_CPU_WORKER = 8
"""Calls that are worth another worker on a CPU, whose start keeps a core busy for several seconds."""


@dataclass(frozen=True, slots=True)
class WorkerChoice:
    """At most `limit` workers, one for every `calls_each` calls, of `threads` intra-op threads (None: torch's own)."""

    limit: int
    reason: str
    threads: int | None = None
    calls_each: int = 1

    def workers(self, calls: int) -> int:
        """Return the number of workers for `calls` calls, 1 or more."""
        return max(1, min(self.limit, calls // self.calls_each))

    def describe(self, workers: int) -> str:
        """Return `2 workers of 1 thread: 2 usable cores, small requests`."""
        of = "" if self.threads is None else f" of {_count(self.threads, 'thread')}"
        return f"{_count(workers, 'worker')}{of}: {self.reason}"


def choose_on_devices(device: str, devices: int) -> WorkerChoice:
    """Return the choice for an accelerator of which this process sees `devices`; `device` is the first worker's."""
    kind = device.partition(":")[0]
    return WorkerChoice(devices, f"one per {kind} device, {devices} visible")


def choose_on_cpu(
    engine: EngineConfig,
    work: float | None,
    weights: int,
    *,
    cores: int | None = None,
    free: int | None = None,
    environ: Mapping[str, str] = os.environ,
) -> WorkerChoice:
    """Return the choice for a CPU and requests of `work` (bytes x pixels, None: unknown) of a model of `weights` bytes.

    A number of threads that the user has set, by `engine.threads` or OMP_NUM_THREADS, is kept. `cores` and `free`, the
    bytes of host memory that can be allocated, are those of this machine unless given.
    """
    cores = cores or usable_cores()
    free = free_bytes() if free is None else free
    small = work is not None and work <= SMALL_WORK
    given = engine.threads or _first_number(environ.get("OMP_NUM_THREADS", ""))
    threads = min(given, cores) if given else 1 if small else cores
    size = "small requests" if small else "large requests" if work is not None else "requests of unknown size"
    reasons = [_count(cores, "usable core"), size]
    limit = max(1, cores // threads) if small else 1
    if limit > 1 and free is not None and (room := 1 + int(0.8 * free) // (WORKER_BYTES + 2 * weights)) < limit:
        limit = room
        reasons.append(f"{free / (1 << 30):.1f} GiB of free memory")
    return WorkerChoice(limit, ", ".join(reasons), given or threads, CALLS_PER_CPU_WORKER)


def _first_number(text: str) -> int | None:
    """Return the number of threads that OMP_NUM_THREADS gives; what follows in `4,2` is for nested levels."""
    first = text.partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
