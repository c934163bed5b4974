"""Read and decode the inputs of queued requests while another request is in its forward pass.

    inbox thread ── prefetch(requests) ──> queue ──> inputs thread: reads uncached files while the budget allows
    main thread  ── read(file) ──> cached: a copy │ being read: waits │ else: reads the file itself
                 └─ discard(requests) ──> the file may be evicted, oldest first

One lock guards all state and is released while a file is read. A read error is raised to the reader of the file and is
not cached, so that the next reader tries again.
"""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from omni_cli.inputs import InputFile, InputKind, input_files
from omni_cli.request import PlannedRequest
from omni_cli.storage.file_types import frame_files
from omni_cli.storage.filesystem import file_version
from omni_cli.worker.pipeline.input_loading import ReadInput, read_input
from omni_cli.worker.pipeline.nested import leaves, map_leaves

PREFETCH_BYTES = 1 << 30
"""Bytes of decoded inputs in the cache at which no further file is prefetched."""

IDLE_BYTES = 256 << 20
"""Bytes of decoded inputs that stay cached while no queued request uses them, because a later one may."""

IDLE_FILES = 64
"""The number of files that stay cached while no queued request uses them."""


class _ReadKey(NamedTuple):
    """What identifies one way of reading a file."""

    file: InputFile
    frames: int | None


@dataclass(frozen=True, slots=True)
class _CachedInput:
    """The result of reading a file whose state was `stamp` when the read began."""

    stamp: object
    value: Any
    error: Exception | None
    nbytes: int


class InputPrefetcher:
    """A cache of decoded input files, filled ahead of use by a background thread. All methods are thread-safe."""

    def __init__(
        self, read: ReadInput = read_input, prefetch_bytes: int = PREFETCH_BYTES, idle_bytes: int = IDLE_BYTES
    ) -> None:
        """Create an empty cache; the background thread starts with the first prefetched file."""
        self._read, self._prefetch_bytes, self._idle_bytes = read, prefetch_bytes, idle_bytes
        self._changed = threading.Condition()
        self._queue: deque[_ReadKey] = deque()
        self._users: Counter[_ReadKey] = Counter()
        self._cache: OrderedDict[_ReadKey, _CachedInput] = OrderedDict()
        self._reading: set[_ReadKey] = set()
        self._thread: threading.Thread | None = None
        self._closed = False

    def prefetch(self, requests: Sequence[PlannedRequest]) -> None:
        """Queue the inputs of `requests` for reading."""
        keys = _keys(requests)
        if not keys:
            return
        with self._changed:
            self._users.update(keys)
            self._queue.extend(keys)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="inputs", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def read(self, file: InputFile, frames: int | None = None) -> Any:
        """Return the content of `file`, of a clip at most `frames` frames, as a copy that the caller may change.

        Raises whatever reading the file raised.
        """
        key, stamp = _key(file, frames), _stamp(file.path)
        with self._changed:
            self._changed.wait_for(lambda: key not in self._reading)
            cached = self._cache.get(key)
            if cached is None or cached.stamp != stamp:
                self._reading.add(key)
                cached = None
            else:
                self._cache.move_to_end(key)
        cached = cached or self._fill(key)
        if cached.error is not None:
            with self._changed:
                self._cache.pop(key, None)
            raise cached.error
        return map_leaves(_copy, cached.value)

    def discard(self, requests: Sequence[PlannedRequest]) -> None:
        """Release the inputs of `requests`, which have finished or will not run."""
        with self._changed:
            for key in _keys(requests):
                self._users[key] -= 1
                if self._users[key] <= 0:
                    del self._users[key]
                    if key in self._cache and self._cache[key].error is not None:
                        del self._cache[key]
            self._evict_idle()
            self._changed.notify_all()

    def close(self) -> None:
        """Empty the cache and end the background thread."""
        with self._changed:
            self._closed = True
            self._cache.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while (key := self._next()) is not None:
            self._fill(key)

    def _next(self) -> _ReadKey | None:
        """Wait for a queued file and room in the cache, mark the file as being read and return it; None once closed."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._closed or bool(self._queue and self._has_room()))
                if self._closed:
                    return None
                key = self._queue.popleft()
                if self._users[key] and key not in self._cache and key not in self._reading:
                    self._reading.add(key)
                    return key

    def _fill(self, key: _ReadKey) -> _CachedInput:
        """Read a file that is marked as being read and cache the result."""
        stamp, value, failure = _stamp(key.file.path), None, None
        try:
            value = self._read(key.file, key.frames)
        except Exception as error:  # boundary: whatever a decoder raises belongs to the request that reads the file
            failure = error
        cached = _CachedInput(stamp, value, failure, sum(map(_nbytes, leaves(value))))
        with self._changed:
            self._reading.discard(key)
            if not self._closed:
                self._cache[key] = cached
                self._evict_idle()
            self._changed.notify_all()
        return cached

    def _has_room(self) -> bool:
        self._evict_idle()
        return sum(cached.nbytes for cached in self._cache.values()) < self._prefetch_bytes

    def _evict_idle(self) -> None:
        """Evict files that no queued request uses, oldest first, down to `IDLE_FILES` files and `idle_bytes` bytes."""
        idle = [key for key in self._cache if not self._users[key]]
        idle_bytes = sum(self._cache[key].nbytes for key in idle)
        for remaining, key in zip(range(len(idle), 0, -1), idle, strict=True):
            if remaining <= IDLE_FILES and idle_bytes <= self._idle_bytes:
                break
            idle_bytes -= self._cache.pop(key).nbytes


def _keys(requests: Sequence[PlannedRequest]) -> list[_ReadKey]:
    """Return the files that `requests` will read, in order. The pipeline itself reads LoRA adapters."""
    return [
        _key(file, planned.request.num_frames)
        for planned in requests
        for file in input_files(planned.request)
        if file.kind is not InputKind.LORA
    ]


def _key(file: InputFile, frames: int | None) -> _ReadKey:
    return _ReadKey(file, frames if file.kind in (InputKind.VIDEO, InputKind.MASK) else None)


def _stamp(path: str) -> object:
    """Return a value that changes when the file, or any frame of the folder, changes."""
    try:
        files = frame_files(path) if Path(path).is_dir() else [Path(path)]
        return [file_version(file) for file in files]
    except (OSError, ValueError):
        return None


def _nbytes(leaf: Any) -> int:
    match leaf:
        case Image.Image():
            return leaf.width * leaf.height * len(leaf.getbands())
        case torch.Tensor():
            return leaf.nbytes
        case _:
            return 0


def _copy(leaf: Any) -> Any:
    """Return a copy of an image or tensor [any shape]: a pipeline may write into its inputs."""
    match leaf:
        case Image.Image():
            return leaf.copy()
        case torch.Tensor():
            return leaf.clone()
        case _:
            return leaf
