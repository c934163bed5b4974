"""How much longer running forwards take: an estimate for a person who stops a run."""

import threading
from dataclasses import dataclass

from omni_cli.events import AnyEvent, ForwardDone, ForwardStarted, ForwardStep, RequestFinished


@dataclass(slots=True)
class _RunningForward:
    """A request in its forward since `start`; `steps_end` is when its last step ends at the speed of those so far."""

    start: float
    steps_end: float = 0.0


class ForwardClock:
    """An observer of a run, callable from any thread. Its memory is bounded by the requests in flight."""

    def __init__(self) -> None:
        """Start without events."""
        self._lock = threading.Lock()
        self._running: dict[str, _RunningForward] = {}
        self._computed: dict[str, float] = {}  # request id -> end of its forward, until it is finished
        self._longest_forward = 0.0
        self._longest_output = 0.0

    def __call__(self, event: AnyEvent) -> None:
        """Record an event."""
        with self._lock:
            match event:
                case ForwardStarted():
                    self._running |= {id_: _RunningForward(event.at) for id_ in event.ids}
                case ForwardStep():
                    for id_ in event.ids:
                        if (forward := self._running.get(id_)) is not None:
                            per_step = (event.at - forward.start) / event.step
                            forward.steps_end = forward.start + per_step * event.total
                case ForwardDone():
                    self._longest_forward = max(self._longest_forward, event.forward.seconds)
                    for id_ in event.ids:
                        self._running.pop(id_, None)
                        self._computed[id_] = event.forward.end
                case RequestFinished():
                    self._running.pop(event.result.id, None)
                    computed = self._computed.pop(event.result.id, event.at)
                    if event.result.status == "done":
                        self._longest_output = max(self._longest_output, event.at - computed)
                case _:
                    pass

    def seconds_left(self, now: float, forward_timeout: float | None = None) -> float | None:
        """Return how long the requests in their forward take at most, their output included; 0 without any.

        A forward is taken to last as long as the longest one so far, or as its steps so far suggest, and no longer than
        `forward_timeout`. None if nothing is known of one, or it takes longer than that.
        """
        with self._lock:
            left = 0.0
            for forward in self._running.values():
                ends = [forward.steps_end] if forward.steps_end else []
                if self._longest_forward:
                    ends.append(forward.start + self._longest_forward)
                end = max(ends, default=None)
                if forward_timeout is not None:
                    end = min(forward.start + forward_timeout, end or float("inf"))
                if end is None or end < now:
                    return None
                left = max(left, end - now)
            return left + self._longest_output if self._running else 0.0
