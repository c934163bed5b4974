"""What the parent holds of one worker."""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from omni_cli.executor.launch import WorkerProcess
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotViews


@dataclass(slots=True, eq=False)
class Link:
    """One worker; replaced whole when it is restarted.

    `started_at` is on the monotonic clock. `load_rpc` is the id of its LoadModel, `ready` says that the model is loaded.
    `verdict` is why the parent killed it, if it did.
    """

    index: int
    process: WorkerProcess
    started_at: float
    views: SlotViews = field(default_factory=SlotViews)
    load_rpc: int | None = None
    ready: bool = False
    verdict: str | None = None

    def condemn(self, verdict: str) -> None:
        """Kill the process; the pump hears of its end by itself. The first verdict stands."""
        self.verdict = self.verdict or verdict
        self.process.kill()

    @property
    def name(self) -> str:
        """For people."""
        return f"worker {self.index} (pid {self.process.pid})"


def send(channel: Channel, message: m.ToWorker) -> None:
    """Send; a worker that is gone is dealt with by the pump, which hears of it by itself."""
    with contextlib.suppress(OSError):
        channel.send(m.encode(message))


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors that nobody wants."""
    for fd in fds:
        os.close(fd)
