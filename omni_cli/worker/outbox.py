"""The worker's way out: outputs are converted, copied and sent while the main thread is in the next forward.

    main thread ── put(outputs) ──> queue, bounded in bytes ──> output thread: pack ──> OUTPUT_READY, OUTPUT_PIECE
                ├─ show(sketch) ──> the latest of each request ──> output thread, before any output: D2H ──> PREVIEW
                └─ deliver(outputs)   --no-async: the same, on the caller's thread, one after the other

An output that finds no free slot waits in the output thread; the queue behind it fills, `put` waits, and with it the next
forward: finished outputs never pile up on the device. Pieces of a video are put one at a time: the next one may be decoded, and
waits there until the one before has left.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from omni_cli.platforms.base import Platform
from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import Preview, encode
from omni_cli.transport.ring import SlotPool
from omni_cli.worker.faults import give_up
from omni_cli.worker.packing import Packer
from omni_cli.worker.parcels import Dock, Packet, Parcel


@dataclass(frozen=True, slots=True)
class Sketch:
    """A preview on its way: `pixels` (uint8 [H, W, 3]) are on the device once the event `done` has happened; `message` lacks them."""

    message: Preview
    pixels: torch.Tensor
    done: Any | None


class Outbox:
    """Sends outputs, from its own thread (`put`) or the caller's (`deliver`)."""

    def __init__(self, channel: Channel, pool: SlotPool, packer: Packer, platform: Platform, limit: int) -> None:
        """`limit` bounds the bytes of finished outputs that wait on the device; one output may always wait."""
        self._channel = channel
        self._pool = pool
        self._dock = Dock(pool, packer, platform)
        self._platform = platform
        self._limit = limit
        self._changed = threading.Condition()
        self._queue: deque[Parcel] = deque()
        self._sketches: dict[tuple[int, str], Sketch] = {}
        self._in_flight = 0
        self._bytes = 0
        self._pieces = 0
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

    def put(self, outputs: Sequence[Parcel]) -> None:
        """Hand finished outputs over; waits while too many bytes wait on the device."""
        for output in outputs:
            with self._changed:
                while (self._bytes and self._bytes + output.nbytes > self._limit) or (output.piece and self._pieces):
                    self._changed.wait()
                self._queue.append(output)
                self._in_flight += 1
                self._bytes += output.nbytes
                self._pieces += output.piece
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

    def deliver(self, outputs: Sequence[Parcel]) -> None:
        """Pack and send on the caller's thread. Each is sent before the next is packed, which may have to wait for its slot."""
        for output in outputs:
            self._send_packet(output.packet(self._dock))

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
                work: Sketch | Parcel = self._sketches.pop(next(iter(self._sketches)))
            elif self._queue:
                work = self._queue.popleft()
            else:
                return False
        size, piece = 0, False
        if isinstance(work, Sketch):
            self._send_sketch(work)
        else:
            size, piece = work.nbytes, work.piece
            packet = work.packet(self._dock)
            del work  # the device memory is free before the message leaves
            self._send_packet(packet)
        with self._changed:
            self._bytes -= size
            self._pieces -= piece
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

    def _send_packet(self, packet: Packet | None) -> None:
        """Send a packed parcel; its slot's descriptor rides along the first time."""
        if packet is None:
            return
        payload, fds, slot = packet
        with contextlib.suppress(OSError):  # the parent is gone; the inbox thread ends the process
            self._channel.send(payload, fds)
        if slot is not None:
            self._pool.shared(slot)
