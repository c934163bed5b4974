"""What the parent holds of one worker."""

import contextlib
from dataclasses import dataclass, field

from omni_cli.executor.launch import WorkerProcess
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotViews


@dataclass(slots=True, eq=False)
class Link:
    """One worker; replaced whole when it is restarted. `started_at` is on the monotonic clock."""

    index: int
    process: WorkerProcess
    started_at: float
    views: SlotViews = field(default_factory=SlotViews)
    ready: bool = False


def send(channel: Channel, message: m.ToWorker, fds: tuple[int, ...] = ()) -> None:
    """Send; a worker that is gone is dealt with by the pump, which hears of it by itself."""
    with contextlib.suppress(OSError):
        channel.send(m.encode(message), fds)
