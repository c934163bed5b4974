"""`--progress json`: one JSON object per event and line; the last one is always `run_finished`."""

import threading

import msgspec

from omni_cli.events import AnyEvent, ForwardStep, RunFinished
from omni_cli.request import to_json, with_exact_seeds
from omni_cli.text import encodable_value
from omni_cli.view.safe_stream import SafeStream
from omni_cli.view.view_thread import LineWriter

MAX_BACKLOG = 10_000
"""Lines waiting for a slow reader above which `forward_step` events are left out; all others are written."""


def json_line(value: msgspec.Struct) -> bytes:
    """Encode `value` as one line of JSON. Lone surrogates (of a path that is not UTF-8) become question marks."""
    try:
        return to_json(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(encodable_value(with_exact_seeds(msgspec.to_builtins(value))))


class JsonView:
    """A view that writes the events up to and including the first `run_finished`."""

    def __init__(self, stream: SafeStream) -> None:
        """Write to `stream`."""
        self._writer = LineWriter(stream, "view-json")
        self._lock = threading.Lock()
        self._ended = False

    def __call__(self, event: AnyEvent) -> None:
        """Queue the event's line."""
        if isinstance(event, ForwardStep) and self._writer.backlog > MAX_BACKLOG:
            return
        line = json_line(event)
        with self._lock:
            if not self._ended:
                self._ended = isinstance(event, RunFinished)
                self._writer.put(line)

    def close(self) -> None:
        """Write the queued lines and end the writing thread."""
        self._writer.close()
