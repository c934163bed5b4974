"""Inputs read ahead: while a request is in its forward, those that wait in the inbox have theirs read and decoded.

    inbox thread ── expect(requests) ──> waiting, in order ──> inputs thread: reads what is not held yet, while there is room
    main thread  ── take(file) ──> held: a copy │ being read: waits for it │ else: reads it here
                 └─ forget(requests) ──> no longer wanted: kept while there is room, oldest out first

One lock guards all of it and is never held while a file is read. A fault is raised where the file is taken, and not kept: the
next one to want the file reads it again.
"""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from omni_cli.inputs import InputFile, InputKind, frame_files, input_files
from omni_cli.request import PlannedRequest
from omni_cli.worker.inputs import read_input

AHEAD_BYTES = 1 << 30
"""Decoded inputs that are held when another one is begun, at most."""

KEPT_BYTES = 256 << 20
"""Of them, those that nobody waits for: the next request may name the same file."""

KEPT_FILES = 64

Read = Callable[[InputFile, int | None], Any]
"""Reads a file, of a clip at most so many frames."""


class _Need(NamedTuple):
    """A file as it is to be read."""

    file: InputFile
    frames: int | None


@dataclass(frozen=True, slots=True)
class _Held:
    """What came of reading a file; `stamp` is what the file was when it was begun."""

    stamp: object
    value: Any
    error: Exception | None
    nbytes: int


class Ahead:
    """The inputs of the calls in hand. `expect`, `take` and `forget` may come from any thread."""

    def __init__(self, read: Read = read_input, budget: int = AHEAD_BYTES, kept: int = KEPT_BYTES) -> None:
        """With nothing read; the thread starts with the first file that is expected."""
        self._read, self._budget, self._kept = read, budget, kept
        self._changed = threading.Condition()
        self._waiting: deque[_Need] = deque()
        self._wanted: Counter[_Need] = Counter()
        self._held: OrderedDict[_Need, _Held] = OrderedDict()
        self._reading: set[_Need] = set()
        self._thread: threading.Thread | None = None
        self._closed = False

    def expect(self, requests: Sequence[PlannedRequest]) -> None:
        """These will run: read their inputs when there is time and room."""
        needs = _needs(requests)
        if not needs:
            return
        with self._changed:
            self._wanted.update(needs)
            self._waiting.extend(needs)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="inputs", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def take(self, file: InputFile, frames: int | None = None) -> Any:
        """What is in `file` as it is now, the caller's own to change. Raises what reading it raised."""
        need, stamp = _need(file, frames), _stamp(file.path)
        with self._changed:
            self._changed.wait_for(lambda: need not in self._reading)
            held = self._held.get(need)
            if held is None or held.stamp != stamp:
                self._reading.add(need)
                held = None
            else:
                self._held.move_to_end(need)
        held = held or self._fill(need)
        if held.error is not None:
            with self._changed:
                self._held.pop(need, None)
            raise held.error
        return _copy(held.value)

    def forget(self, requests: Sequence[PlannedRequest]) -> None:
        """These are over, or will never run."""
        with self._changed:
            for need in _needs(requests):
                self._wanted[need] -= 1
                if self._wanted[need] <= 0:
                    del self._wanted[need]
                    if need in self._held and self._held[need].error is not None:
                        del self._held[need]
            self._trim()
            self._changed.notify_all()

    def close(self) -> None:
        """Read nothing more ahead."""
        with self._changed:
            self._closed = True
            self._held.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while (need := self._next()) is not None:
            self._fill(need)

    def _next(self) -> _Need | None:
        """The next file to read, once there is room for it; None when closed."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._closed or bool(self._waiting and self._has_room()))
                if self._closed:
                    return None
                need = self._waiting.popleft()
                if self._wanted[need] and need not in self._held and need not in self._reading:
                    self._reading.add(need)
                    return need

    def _fill(self, need: _Need) -> _Held:
        """Read a file that was marked as being read."""
        stamp, value, failure = _stamp(need.file.path), None, None
        try:
            value = self._read(need.file, need.frames)
        except Exception as error:  # boundary: whatever a decoder raises belongs to the request that takes the file
            failure = error
        held = _Held(stamp, value, failure, _nbytes(value))
        with self._changed:
            self._reading.discard(need)
            if not self._closed:
                self._held[need] = held
                self._trim()
            self._changed.notify_all()
        return held

    def _has_room(self) -> bool:
        self._trim()
        return sum(held.nbytes for held in self._held.values()) < self._budget

    def _trim(self) -> None:
        """Let go of files that nobody waits for, oldest first, down to what may be kept."""
        idle = [need for need in self._held if not self._wanted[need]]
        idle_bytes = sum(self._held[need].nbytes for need in idle)
        for left, need in zip(range(len(idle), 0, -1), idle, strict=True):
            if left <= KEPT_FILES and idle_bytes <= self._kept:
                break
            idle_bytes -= self._held.pop(need).nbytes


def _needs(requests: Sequence[PlannedRequest]) -> list[_Need]:
    """What the calls of `requests` will take, in order."""
    return [
        _need(file, planned.request.num_frames)
        for planned in requests
        for file in input_files(planned.request)
        if file.kind is not InputKind.LORA
    ]


def _need(file: InputFile, frames: int | None) -> _Need:
    return _Need(file, frames if file.kind in (InputKind.VIDEO, InputKind.MASK) else None)


def _stamp(path: str) -> object:
    """Equal while the file, or every picture of the folder, has not changed."""
    try:
        files = frame_files(path) if Path(path).is_dir() else [Path(path)]
        found = [file.stat() for file in files]
    except (OSError, ValueError):
        return None
    return [(one.st_size, one.st_mtime_ns, one.st_ino) for one in found]


def _nbytes(value: Any) -> int:
    match value:
        case Image.Image():
            return value.width * value.height * len(value.getbands())
        case torch.Tensor():
            return value.nbytes
        case list():
            return sum(map(_nbytes, value))
        case dict():
            return sum(map(_nbytes, value.values()))
        case _:
            return 0


def _copy(value: Any) -> Any:
    """Pipelines may write into what they are given; the next request wants it as it was."""
    match value:
        case Image.Image():
            return value.copy()
        case torch.Tensor():
            return value.clone()
        case list():
            return [_copy(item) for item in value]
        case dict():
            return {key: _copy(item) for key, item in value.items()}
        case _:
            return value
