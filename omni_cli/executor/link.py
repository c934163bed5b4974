"""What the parent holds of one worker."""

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from omni_cli.config import ModelConfig
from omni_cli.executor.launch import WorkerProcess
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotViews


@dataclass(frozen=True, slots=True)
class Held:
    """A slot of the ring that is being read on this side, and since when (monotonic clock)."""

    output_id: str
    since: float


@dataclass(slots=True, eq=False)
class Link:
    """One worker; replaced whole when it is restarted.

    `started_at` is on the monotonic clock. `load_rpc` is the id of its LoadModel, `ready` says that the model is loaded.
    `verdict` is why the parent killed it, if it did. `heard_at` is when its last message came. `held`: by slot, what has not been given
    back to it; any thread may take entries out.
    `started_at` is when it began with what it does first: its own start, or the loading of another model (monotonic clock).
    `load_rpc` is the id of its last LoadModel, `model` what that named, `ready` says that it is loaded. `verdict` is why the
    parent killed it, if it did.
    """

    index: int
    process: WorkerProcess
    started_at: float
    views: SlotViews = field(default_factory=SlotViews)
    load_rpc: int | None = None
    model: ModelConfig | None = None
    ready: bool = False
    verdict: str | None = None
    heard_at: float = field(default_factory=time.monotonic)
    held: dict[int, Held] = field(default_factory=dict)

    def condemn(self, verdict: str) -> None:
        """Kill the process; the pump hears of its end by itself. The first verdict stands."""
        self.verdict = self.verdict or verdict
        self.process.kill()

    @property
    def name(self) -> str:
        """For people."""
        return f"worker {self.index} (pid {self.process.pid})"

    def line(self, now: float) -> str:
        """One line for the log: is it there, has it stalled, and is it waiting for slots that are read here?"""
        state = "ready" if self.ready else "not ready"
        slots = [
            f"slot {id_} read by {held.output_id} for {now - held.since:.1f} s"
            for id_, held in sorted(self.held.copy().items())
        ]
        return f"{self.name}: {state}, last heard of {now - self.heard_at:.1f} s ago; {', '.join(slots) or 'no slot is read here'}"


def send(channel: Channel, message: m.ToWorker) -> None:
    """Send; a worker that is gone is dealt with by the pump, which hears of it by itself."""
    with contextlib.suppress(OSError):
        channel.send(m.encode(message))


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors that nobody wants."""
    for fd in fds:
        os.close(fd)
