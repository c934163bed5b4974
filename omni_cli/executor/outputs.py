"""From an OUTPUT_READY message to what its waiter gets: a view over the slot and the duty to give it back."""

from dataclasses import dataclass

from omni_cli.executor.books import Entry
from omni_cli.executor.link import Link, send
from omni_cli.executor.protocol import Output
from omni_cli.request import Interval
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotViews


@dataclass(frozen=True, slots=True)
class Release:
    """Tells the worker that owns the slot that nobody reads it any more."""

    channel: Channel
    slot_id: int | None

    def __call__(self) -> None:
        if self.slot_id is not None:
            send(self.channel, m.ReleaseSlot(slot_id=self.slot_id))


def payload(views: SlotViews, channel: Channel, message: m.OutputReady, fds: list[int]) -> tuple[memoryview, Release]:
    """The output's bytes and how to give them back."""
    if message.slot is not None:
        return views.view(message.slot, fds), Release(channel, message.slot.slot_id)
    return memoryview(message.inline or b""), Release(channel, None)


def make_output(link: Link, entry: Entry, message: m.OutputReady, buffer: memoryview, release: Release) -> Output:
    assert message.header is not None
    forward = message.forward or entry.forward or Interval(message.d2h.start, message.d2h.start)
    return Output(
        header=message.header,
        buffer=buffer,
        release=release,
        queued=Interval(entry.queued_at, max(entry.queued_at, forward.start)),
        forward=forward,
        d2h=message.d2h,
        worker=link.index,
        attempts=entry.attempts,
        notes=message.notes,
    )
