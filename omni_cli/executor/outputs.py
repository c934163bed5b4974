"""Turn a worker's output messages into views over its ring slots, each with a callable that releases the slot."""

from dataclasses import dataclass

from omni_cli.errors import ProtocolError
from omni_cli.executor.call import RequestEntry
from omni_cli.executor.frame_stream import FramePiece
from omni_cli.executor.protocol import Output
from omni_cli.executor.step_controller import Latents
from omni_cli.executor.worker_handle import SlotInUse, WorkerHandle, close_fds
from omni_cli.request import Interval
from omni_cli.transport import messages as m


@dataclass(frozen=True, slots=True)
class SlotRelease:
    """Returns a slot to the worker that owns it; does nothing without a slot."""

    worker: WorkerHandle
    slot_id: int | None

    def __call__(self) -> None:
        if self.slot_id is not None:
            self.worker.slots_in_use.pop(self.slot_id, None)  # before sending: the worker may fill it again at once
            self.worker.send(m.ReleaseSlot(slot_id=self.slot_id))


def map_output(worker: WorkerHandle, message: m.OutputReady, fds: list[int]) -> tuple[memoryview, SlotRelease]:
    """Return a view of the output's bytes (empty with an error) and its release.

    Raises ProtocolError if the message has neither output nor error, or names memory that does not exist.
    """
    has_data = message.slot is not None or message.inline is not None or message.pieces > 0
    if message.error is None and (message.header is None or not has_data):
        close_fds(fds)
        raise ProtocolError(f"{message.async_output_id}: expected an output or an error, got neither")
    if message.slot is not None:
        return _map_slot(worker, message.async_output_id, message.slot, fds)
    close_fds(fds)
    return memoryview(message.inline or b""), SlotRelease(worker, None)


def map_piece(worker: WorkerHandle, message: m.OutputPiece, fds: list[int]) -> FramePiece:
    """Return the frames of an OutputPiece. Raises ProtocolError if it names memory that does not exist."""
    buffer, release = _map_slot(worker, message.async_output_id, message.slot, fds)
    return FramePiece(message.header, buffer, release, message.first_sample, message.first_frame, worker.executes_on)


def copy_latents(worker: WorkerHandle, message: m.StepOutput, fds: list[int]) -> Latents | None:
    """Return a copy of a step's latents, if it has any, and release their slot.

    Raises ProtocolError if the message names memory that does not exist.
    """
    latents = message.latents
    if latents is None or latents.slot is None:
        close_fds(fds)
        return None if latents is None else Latents(latents.shape, latents.inline or b"")
    buffer, release = _map_slot(worker, "latents", latents.slot, fds)
    data = bytes(buffer)
    release()
    return Latents(latents.shape, data)


def to_output(
    worker: WorkerHandle, entry: RequestEntry, message: m.OutputReady, buffer: memoryview, release: SlotRelease
) -> Output:
    """Return the Output of a message without an error, with what `map_output` gave for it."""
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
        worker=worker.index,
        attempts=entry.attempts,
        stopped_at=message.stopped_at,
        notes=message.notes,
        pieces=message.pieces,
        executed_on=worker.executes_on,
    )


def _map_slot(worker: WorkerHandle, output_id: str, slot: m.SlotRef, fds: list[int]) -> tuple[memoryview, SlotRelease]:
    try:
        buffer = worker.views.view(slot, fds)
    except (KeyError, IndexError, ValueError) as error:
        raise ProtocolError(f"{output_id}: {slot} cannot be mapped: {error!r}") from error
    worker.slots_in_use[slot.slot_id] = SlotInUse(output_id, worker.last_message_at)
    return buffer, SlotRelease(worker, slot.slot_id)
