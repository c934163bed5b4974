"""The frames of a video that arrive before it is complete.

pump thread ── put ──> FrameStream ──> listener, in order        (pieces are kept until there is a listener)
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from omni_cli.media import MediaHeader
from omni_cli.request import UNNAMED_DEVICE, ExecutedOn


@dataclass(frozen=True, slots=True)
class FramePiece:
    """Frames of a video, from `first_frame` of `first_sample` on. Frame 0 starts its sample again.

    `buffer` holds them C-contiguous as `header` describes them. It is a view over a ring slot and valid until `release`
    is called, which must happen exactly once; until then the decoder may have no slot to go on with.
    """

    header: MediaHeader
    buffer: memoryview
    release: Callable[[], None]
    first_sample: int
    first_frame: int
    executed_on: ExecutedOn = UNNAMED_DEVICE


Listener = Callable[[FramePiece], None]
"""Callback that takes over a piece and must release it. It must return at once and must not raise."""


class FrameStream:
    """The pieces of one request, in decoding order."""

    def __init__(self) -> None:
        """Start without a listener."""
        self._lock = threading.Lock()
        self._waiting: list[FramePiece] = []
        self._listener: Listener | None = None

    def put(self, piece: FramePiece) -> None:
        """Pass `piece` to the listener, or keep it until there is one."""
        with self._lock:
            if self._listener is None:
                self._waiting.append(piece)
            else:
                self._listener(piece)

    def listen(self, listener: Listener) -> None:
        """Pass every piece to `listener` from now on, beginning with those that are here. May be called once."""
        with self._lock:
            self._listener = listener
            for piece in self._waiting:
                listener(piece)
            self._waiting.clear()
