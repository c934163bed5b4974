"""The pieces of a request's video on their way to whoever writes it.

pump thread ── put ──> Feed ──> listener, in order        (kept until there is one)
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from omni_cli.transport.messages import MediaHeader


@dataclass(frozen=True, slots=True)
class FramePiece:
    """Frames from `first_frame` on, of the samples from `first_sample` on; frame 0 begins a sample anew.

    `buffer` holds them C-contiguous as `header` says, a view over a ring slot: valid until `release` is called, which must happen
    exactly once. Until then the slot may be what the decoder waits for.
    """

    header: MediaHeader
    buffer: memoryview
    release: Callable[[], None]
    first_sample: int
    first_frame: int


Listener = Callable[[FramePiece], None]
"""Takes a piece, and the duty to release it. Must return at once, and must not raise."""


class Feed:
    """The pieces of one request, in the order in which they were made."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._lock = threading.Lock()
        self._kept: list[FramePiece] = []
        self._listener: Listener | None = None

    def put(self, piece: FramePiece) -> None:
        """The next piece."""
        with self._lock:
            if self._listener is None:
                self._kept.append(piece)
            else:
                self._listener(piece)

    def listen(self, listener: Listener) -> None:
        """Give every piece to `listener` from now on, those that are here already first. Only once."""
        with self._lock:
            self._listener = listener
            for piece in self._kept:
                listener(piece)
            self._kept.clear()
