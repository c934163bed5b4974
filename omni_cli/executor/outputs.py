"""From an OUTPUT_READY or OUTPUT_PIECE message to what its waiter gets: a view over the slot and the duty to give it back."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omni_cli.errors import ProtocolError
from omni_cli.executor.call import Entry
from omni_cli.executor.feed import FramePiece
from omni_cli.executor.link import Held, Link, close_all, send
from omni_cli.executor.protocol import Output
from omni_cli.executor.steering import Latents
from omni_cli.request import Interval
from omni_cli.transport import messages as m


@dataclass(frozen=True, slots=True)
class Release:
    """Tells the worker that owns the slot that nobody reads it any more."""

    link: Link
    slot_id: int | None

    def __call__(self) -> None:
        if self.slot_id is not None:
            self.link.held.pop(self.slot_id, None)  # first: the worker may fill it again at once
            send(self.link.process.channel, m.ReleaseSlot(slot_id=self.slot_id))


def payload(link: Link, message: m.OutputReady, fds: list[int]) -> tuple[memoryview, Release]:
    """The output's bytes (none with an error) and how to give them back. Raises ProtocolError if there is neither."""
    somewhere = message.slot is not None or message.inline is not None or message.pieces > 0
    if message.error is None and (message.header is None or not somewhere):
        close_all(fds)
        raise ProtocolError(f"{message.async_output_id} came without an output and without an error")
    if message.slot is not None:
        return _view(link, message.async_output_id, message.slot, fds)
    close_all(fds)
    return memoryview(message.inline or b""), Release(link, None)


def news(notes: Iterable[str]) -> Iterator[str]:
    """The notes that people have not been told yet."""
    return (note for note in notes if not note.startswith(m.STANDING))


def take_latents(link: Link, message: m.StepOutput, fds: list[int]) -> Latents | None:
    """A copy of the latents, if the step brought any; their slot goes back at once. Raises ProtocolError."""
    latents = message.latents
    if latents is None or latents.slot is None:
        close_all(fds)
        return None if latents is None else Latents(latents.shape, latents.inline or b"")
    buffer, release = _view(link, "latents", latents.slot, fds)
    data = bytes(buffer)
    release()
    return Latents(latents.shape, data)


def make_piece(link: Link, message: m.OutputPiece, fds: list[int]) -> FramePiece:
    """The frames of an OUTPUT_PIECE. Raises ProtocolError if they cannot be where it says."""
    buffer, release = _view(link, message.async_output_id, message.slot, fds)
    return FramePiece(message.header, buffer, release, message.first_sample, message.first_frame)


def _view(link: Link, output_id: str, slot: m.SlotRef, fds: list[int]) -> tuple[memoryview, Release]:
    try:
        buffer = link.views.view(slot, fds)
    except (KeyError, IndexError, ValueError) as error:
        raise ProtocolError(f"{output_id} lies in {slot}, which cannot be: {error!r}") from error
    link.held[slot.slot_id] = Held(output_id, time.monotonic())
    return buffer, Release(link, slot.slot_id)


def make_output(link: Link, entry: Entry, message: m.OutputReady, buffer: memoryview, release: Release) -> Output:
    """What the waiter gets, from a message that `payload` has accepted."""
    forward = message.forward or entry.forward
    assert message.header is not None
    assert forward is not None
    return Output(
        header=message.header,
        buffer=buffer,
        release=release,
        queued=Interval(entry.queued_at, max(entry.queued_at, forward.start)),
        forward=forward,
        d2h=message.d2h,
        worker=link.index,
        attempts=entry.attempts,
        stopped_at=message.stopped_at,
        notes=message.notes,
        pieces=message.pieces,
    )
