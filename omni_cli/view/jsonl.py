"""`--progress json`: every event, one JSON object per line, always ending in `run_finished`."""

import threading

import msgspec

from omni_cli.events import AnyEvent, ForwardStep, RunFinished
from omni_cli.view.loop import Lines
from omni_cli.view.outlet import Outlet

MAX_LAG = 10_000
"""Lines that may wait for a slow reader before steps of forwards are left out; nothing else ever is."""

_encoder = msgspec.json.Encoder()


def json_line(value: msgspec.Struct) -> bytes:
    """`value` as one line of JSON; lone surrogates (a path that is not UTF-8) become question marks."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_encodable(msgspec.to_builtins(value)))


def _encodable(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {_encodable(key): _encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
        case _:
            return value


class JsonView:
    """Writes events until, and with, the first `run_finished`."""

    def __init__(self, outlet: Outlet) -> None:
        """Write to `outlet`."""
        self._lines = Lines(outlet, "view-json")
        self._lock = threading.Lock()
        self._ended = False

    def __call__(self, event: AnyEvent) -> None:
        """Queue the event's line."""
        if isinstance(event, ForwardStep) and self._lines.lag > MAX_LAG:
            return
        line = json_line(event)
        with self._lock:
            if not self._ended:
                self._ended = isinstance(event, RunFinished)
                self._lines.put(line)

    def close(self) -> None:
        """Write the rest."""
        self._lines.close()
