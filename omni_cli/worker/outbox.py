"""The worker's way out: outputs are converted, copied and sent while the main thread is in the next forward.

    main thread ── put(outputs) ──> queue, bounded in bytes ──> output thread: pack ──> OUTPUT_READY
                ├─ show(sketch) ──> the latest of each request ──> output thread, before any output: D2H ──> PREVIEW
                └─ deliver(outputs)   --no-async: the same, on the caller's thread, one after the other

An output that finds no free slot waits in the output thread; the queue behind it fills, `put` waits, and with it the next
forward: finished outputs never pile up on the device.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from omni_cli.config import INLINE_BYTES
from omni_cli.media import Media
from omni_cli.platforms.base import Platform
from omni_cli.request import Interval
from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import OutputReady, Preview, encode
from omni_cli.transport.ring import Slot, SlotPool
from omni_cli.worker.faults import give_up, remote_error
from omni_cli.worker.packing import Packed, Packer


@dataclass(slots=True)
class Output:
    """One request's decoded output on the device; `begun` and `done` are the events around its forward."""

    output_id: str
    media: Media
    begun: Any | None
    done: Any | None

    @property
    def nbytes(self) -> int:
        """Bytes it holds on the device."""
        return self.media.nbytes


@dataclass(frozen=True, slots=True)
class Sketch:
    """A preview on its way: `pixels` (uint8 [H, W, 3]) are on the device once the event `done` has happened; `message` lacks them."""

    message: Preview
    pixels: torch.Tensor
    done: Any | None


INLINE_COPIES = 5
"""Out of the buffer, into the message, into the frame, into the socket, out of it: what a slot saves larger payloads."""


@dataclass(slots=True)
class Buffer:
    """Where one tensor's bytes went: a slot of the ring, or a small buffer that travels inside the message."""

    pool: SlotPool
    slot: Slot | None = None
    inline: bytearray | None = None

    def allocate(self, nbytes: int) -> Any:
        """At most 1 MB inline, else a slot. A second call (after a fall-back) gives the first one's slot back."""
        self.give_back()
        if nbytes <= INLINE_BYTES:
            self.inline = bytearray(nbytes)
            return self.inline
        self.slot = self.pool.acquire(nbytes)
        return self.slot.memory

    def give_back(self) -> None:
        """Release what was taken; nothing was sent."""
        if self.slot is not None:
            self.pool.release(self.slot.id)
        self.slot = self.inline = None


class Outbox:
    """Sends outputs, from its own thread (`put`) or the caller's (`deliver`)."""

    def __init__(self, channel: Channel, pool: SlotPool, packer: Packer, platform: Platform, limit: int) -> None:
        """`limit` bounds the bytes of finished outputs that wait on the device; one output may always wait."""
        self._channel = channel
        self._pool = pool
        self._packer = packer
        self._platform = platform
        self._limit = limit
        self._changed = threading.Condition()
        self._queue: deque[Output] = deque()
        self._sketches: dict[tuple[int, str], Sketch] = {}
        self._in_flight = 0
        self._bytes = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()

    def start(self, device: str) -> None:
        """Start the output thread on `device`; returns when its share of the cores is set.

        The caller must then set its own number of threads: torch keeps one for the process, which a thread takes on when it
        first computes, and this one's must not become the forward's.
        """
        self._thread = threading.Thread(target=self._run, args=(device,), name="output", daemon=True)
        self._thread.start()
        self._ready.wait()

    def put(self, outputs: Sequence[Output]) -> None:
        """Hand finished outputs over; waits while too many bytes wait on the device."""
        for output in outputs:
            with self._changed:
                while self._bytes and self._bytes + output.nbytes > self._limit:
                    self._changed.wait()
                self._queue.append(output)
                self._in_flight += 1
                self._bytes += output.nbytes
                self._changed.notify_all()

    def show(self, sketch: Sketch) -> None:
        """Send a preview soon; one of the same request that nobody has taken up yet is out of date and is left out."""
        if self._thread is None:
            self._send_sketch(sketch)
            return
        with self._changed:
            key = (sketch.message.rpc_id, sketch.message.request_id)
            self._in_flight += key not in self._sketches
            self._sketches[key] = sketch
            self._changed.notify_all()

    def deliver(self, outputs: Sequence[Output]) -> None:
        """Pack and send on the caller's thread. Each is sent before the next is packed, which may have to wait for its slot."""
        for output in outputs:
            self._send_packet(self._packet(output))

    def close(self, timeout: float) -> bool:
        """Drain, and end the output thread if that went well: the interpreter must not end while it is in the middle of something.

        True if it drained; else the thread may still be reading an output.
        """
        drained = self.drain(timeout)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and drained:
            self._thread.join()
        return drained

    def drain(self, timeout: float) -> bool:
        """Wait until nothing is in flight, at most `timeout` seconds; True if it drained."""
        with self._changed:
            return self._changed.wait_for(lambda: self._in_flight == 0, timeout)

    @property
    def in_flight(self) -> int:
        """Outputs and previews that were put and have not been sent."""
        return self._in_flight

    def _run(self, device: str) -> None:
        try:
            self._platform.activate(device)
            # On a CPU the forward owns the cores: a second pool of intra-op threads would spin against it.
            torch.set_num_threads(1)
            torch.get_num_threads()  # takes the number on for good: a later change elsewhere does not reach this thread
            self._ready.set()
            while self._step():
                pass
        except BaseException as error:
            give_up(error)

    def _step(self) -> bool:
        """Wait for the next output or preview and send it; False once there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._sketches or self._queue or self._closed)
            if self._sketches:  # first: small, and of no use once its request's output is there
                work: Sketch | Output = self._sketches.pop(next(iter(self._sketches)))
            elif self._queue:
                work = self._queue.popleft()
            else:
                return False
        size = 0
        if isinstance(work, Sketch):
            self._send_sketch(work)
        else:
            size = work.nbytes
            packet = self._packet(work)
            del work  # the device memory is free before the message leaves
            self._send_packet(packet)
        with self._changed:
            self._bytes -= size
            self._in_flight -= 1
            self._changed.notify_all()
        return True

    def _send_sketch(self, sketch: Sketch) -> None:
        try:
            with self._platform.side_stream(sketch.done):
                self._platform.keep_alive(sketch.pixels)
                host = sketch.pixels.to("cpu")
            height, width, _ = host.shape
            pixels = host.contiguous().numpy().tobytes()
            message = msgspec.structs.replace(sketch.message, width=width, height=height, pixels=pixels)
        except Exception as error:  # boundary: no request fails for its preview
            message = msgspec.structs.replace(sketch.message, fault=f"{type(error).__name__}: {error}")
        with contextlib.suppress(OSError):  # the parent is gone; the inbox thread ends the process
            self._channel.send(encode(message))

    def _send_packet(self, packet: tuple[bytes, tuple[int, ...], Slot | None]) -> None:
        """Send a packed output; its slot's descriptor rides along the first time."""
        payload, fds, slot = packet
        with contextlib.suppress(OSError):  # the parent is gone; the inbox thread ends the process
            self._channel.send(payload, fds)
        if slot is not None:
            self._pool.shared(slot)

    def _packet(self, output: Output) -> tuple[bytes, tuple[int, ...], Slot | None]:
        """Pack one output. A fault in packing fails this request alone: its slot is free and nothing is half-sent."""
        buffer, start = Buffer(self._pool), time.monotonic()
        try:
            packed = self._packer.pack(output.media, output.done, buffer.allocate)
            return self._told(output, packed, buffer, start)
        except Exception as error:  # boundary: whatever packing raises fails this request, not the worker
            buffer.give_back()
            took = Interval(start, time.monotonic())
            message = OutputReady(async_output_id=output.output_id, error=remote_error(error), d2h=took)
            return encode(message), (), None

    def _told(
        self, output: Output, packed: Packed, buffer: Buffer, start: float
    ) -> tuple[bytes, tuple[int, ...], Slot | None]:
        """The message of an output that was packed into `buffer` from the time `start` on."""
        slot = buffer.slot
        begun, done = self._platform.host_time(output.begun), self._platform.host_time(output.done)
        if done is not None:
            start = max(start, done)  # waiting for the forward is not output time
        message = OutputReady(
            async_output_id=output.output_id,
            header=packed.header,
            slot=slot.ref(packed.nbytes, self._pool.take_retired()) if slot else None,
            inline=bytes(buffer.inline) if buffer.inline is not None else None,
            host_copies=0 if slot else INLINE_COPIES,
            d2h=Interval(start, time.monotonic()),
            forward=None if begun is None or done is None else Interval(begun, done),
            stopped_at=output.media.stopped_at,
            notes=packed.notes,
        )
        return encode(message), (slot.fd,) if slot and slot.fresh else (), slot
