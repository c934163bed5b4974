"""The worker's sender: outputs are converted, copied and sent while the main thread is in the next forward.

    main thread ── put(outputs) ──> queue, bounded in bytes ──> output thread: encode ──> OUTPUT_READY, OUTPUT_PIECE
                ├─ show(preview) ──> latest per request ──> output thread, before any output: D2H ──> PREVIEW
                └─ deliver(outputs)   --no-async: the same on the caller's thread, one after the other

An output that finds no free slot waits in the output thread. The queue behind it fills, `put` blocks, and with it the
next forward: finished outputs never pile up on the device. An output that finds no device memory for its copy waits
until the forward in progress is over, and holds up the next one until it has been copied.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from omni_cli.errors import OmniGenError, OutOfDeviceMemory
from omni_cli.platforms.base import Platform
from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import OutputReady, Preview, encode
from omni_cli.transport.ring import SlotPool
from omni_cli.worker.error_report import exit_on_error, remote_error
from omni_cli.worker.output.outgoing import EncodedMessage, Outgoing, PackContext, output_interval
from omni_cli.worker.output.packer import Packer


@dataclass(frozen=True, slots=True)
class OutgoingPreview:
    """A preview on the device: `pixels`, uint8 RGB [H, W, 3], are valid after event `done`; `message` lacks them."""

    message: Preview
    pixels: torch.Tensor
    done: Any | None


class Outbox:
    """Sends outputs, from its own thread (`put`) or the caller's (`deliver`)."""

    def __init__(self, channel: Channel, pool: SlotPool, packer: Packer, platform: Platform, limit: int) -> None:
        """`limit`: bytes of finished outputs that may wait on the device; one output may wait whatever its size."""
        self._channel = channel
        self._context = PackContext(pool, packer, platform)
        self._limit = limit
        self._changed = threading.Condition()
        self._queue: deque[Outgoing] = deque()
        self._previews: dict[tuple[int, str], OutgoingPreview] = {}
        self._in_flight = 0
        self._bytes = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._next_lock = threading.Lock()  # held while waiting for the other: who waits for a forward's end is next
        self._forward_lock = threading.Lock()
        self._free_memory: Callable[[], str | None] = lambda: None

    def free_memory_by(self, free_memory: Callable[[], str | None]) -> None:
        """Call `free_memory` between two forwards for an output that does not find the memory for its copy otherwise.

        It returns a note on what it has done, None if there is nothing left to do.
        """
        self._free_memory = free_memory

    @contextlib.contextmanager
    def forward(self) -> Iterator[None]:
        """Run a forward in the block, once no output waits for device memory."""
        with self._next_lock:
            self._forward_lock.acquire()
        try:
            yield
        finally:
            self._forward_lock.release()

    def give_way(self, timeout: float) -> bool:
        """Drain in the middle of `forward`, at most `timeout` seconds; return False if nothing was in flight.

        For a forward that lacks memory and holds none: an output may wait for just that.
        """
        if self._in_flight == 0:
            return False
        self._forward_lock.release()
        try:
            self.drain(timeout)
        finally:
            self._forward_lock.acquire()
        return True

    def start(self, device: str) -> None:
        """Start the output thread on `device` and wait until it has set its number of intra-op threads.

        The caller must set its own number of threads afterwards: torch keeps one number per process, which a thread
        adopts when it first computes, and the output thread's number must not become the forward's.
        """
        self._thread = threading.Thread(target=self._run, args=(device,), name="output", daemon=True)
        self._thread.start()
        self._ready.wait()

    def put(self, outputs: Sequence[Outgoing]) -> None:
        """Queue finished outputs for the output thread. Blocks while too many bytes wait on the device."""
        for output in outputs:
            with self._changed:
                while self._bytes and self._bytes + output.nbytes > self._limit:
                    self._changed.wait()
                self._queue.append(output)
                self._in_flight += 1
                self._bytes += output.nbytes
                self._changed.notify_all()

    def show(self, preview: OutgoingPreview) -> None:
        """Send a preview soon, in place of an earlier one of the same request that has not been sent yet."""
        if self._thread is None:
            self._send_preview(preview)
            return
        with self._changed:
            key = (preview.message.rpc_id, preview.message.request_id)
            self._in_flight += key not in self._previews
            self._previews[key] = preview
            self._changed.notify_all()

    def deliver(self, outputs: Sequence[Outgoing]) -> None:
        """Encode and send on the caller's thread, each before the next is encoded, which may wait for a slot."""
        for output in outputs:
            self._send(self._encode(output))

    def close(self, timeout: float) -> bool:
        """Drain, at most `timeout` seconds, then end and join the output thread.

        Returns False if the outbox did not drain: the thread may then still read an output.
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
        """Outputs and previews that have been put and not been sent."""
        return self._in_flight

    def _run(self, device: str) -> None:
        try:
            self._context.platform.activate(device)
            # On a CPU the forward owns the cores: a second pool of intra-op threads would spin against it.
            torch.set_num_threads(1)
            torch.get_num_threads()  # adopts the number for good: a later change elsewhere does not reach this thread
            self._ready.set()
            while self._step():
                pass
        except BaseException as error:
            exit_on_error(error)

    def _step(self) -> bool:
        """Wait for the next output or preview and send it; False once the outbox is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._previews or self._queue or self._closed)
            if self._previews:  # first: small, and useless once its request's output has been sent
                work: OutgoingPreview | Outgoing = self._previews.pop(next(iter(self._previews)))
            elif self._queue:
                work = self._queue.popleft()
            else:
                return False
        size = 0
        if isinstance(work, OutgoingPreview):
            self._send_preview(work)
        else:
            size = work.nbytes
            encoded = self._encode(work)
            del work  # frees the device memory before the message leaves
            self._send(encoded)
        with self._changed:
            self._bytes -= size
            self._in_flight -= 1
            self._changed.notify_all()
        return True

    def _encode(self, output: Outgoing) -> EncodedMessage | None:
        start = time.monotonic()
        try:
            return output.encode(self._context)
        except Exception as error:  # boundary: whatever packing raises fails this request, not the worker
            if not isinstance(error, OutOfDeviceMemory) or (waiting := output.with_notes()) is None:
                return self._failure(output, error, start)
        # Outside of the except block: the error's traceback would keep tensors alive.
        return self._encode_between_forwards(waiting, start)

    def _encode_between_forwards(self, output: Outgoing, start: float) -> EncodedMessage | None:
        """Encode an output for which there was no memory, while no forward runs and with less memory in use."""
        with self._next_lock, self._forward_lock:
            while True:
                self._context.platform.empty_cache()
                try:
                    return output.encode(self._context)
                except Exception as error:  # boundary: as in `_encode`
                    failure = self._failure(output, error, start)
                    if not isinstance(error, OutOfDeviceMemory):
                        return failure
                if (note := self._free_memory()) is None or (noted := output.with_notes(note)) is None:
                    return failure
                output = noted

    def _failure(self, output: Outgoing, error: Exception, start: float) -> EncodedMessage:
        """Return the message that `output` has failed with `error`. `start` is when its encoding began."""
        if not isinstance(error, OmniGenError):
            # A broken device raises here as well, which ends the process: the parent starts another one.
            self._context.platform.synchronize()
        forward = output.forward(self._context.platform)
        ready = start if forward is None else forward.end
        message = OutputReady(
            async_output_id=output.output_id,
            error=remote_error(error),
            d2h=output_interval(ready, start, time.monotonic()),
            forward=forward,
        )
        return EncodedMessage(encode(message))

    def _send_preview(self, preview: OutgoingPreview) -> None:
        platform = self._context.platform
        try:
            with platform.side_stream(preview.done):
                platform.keep_alive(preview.pixels)
                host = preview.pixels.to("cpu")
            height, width, _ = host.shape
            pixels = host.contiguous().numpy().tobytes()
            message = msgspec.structs.replace(preview.message, width=width, height=height, pixels=pixels)
        except Exception as error:  # boundary: a preview that fails must not fail its request
            platform.synchronize()  # but a broken device ends the process
            message = msgspec.structs.replace(preview.message, fault=f"{type(error).__name__}: {error}")
        self._send(EncodedMessage(encode(message)))

    def _send(self, encoded: EncodedMessage | None) -> None:
        """Send a message, with its slot's descriptor if the parent does not have it yet."""
        if encoded is None:
            return
        slot = encoded.slot
        with contextlib.suppress(OSError):  # the parent is gone; the inbox thread ends the process
            self._channel.send(encoded.data, (slot.fd,) if slot is not None and slot.fresh else ())
        if slot is not None:
            self._context.pool.mark_shared(slot)
