"""The worker process: one model, one device, four threads.

    inbox thread   reads the channel; slots, cancels and decisions at once, work into the queue; ends the process with the channel
    inputs thread  reads and decodes the input files of the work in the queue    (not started before there is one)
    main thread    receive ─> forward ─> COMPUTE_DONE ─> straight on to the next request   (step mode: see stepwise)
    output thread  side stream: uint8, D2H into a slot ─> OUTPUT_READY          (not started with --no-async)

Only COMPUTE_DONE and OUTPUT_READY are written by two threads; the channel's lock makes each one whole. Every ExecuteModel is
answered by one COMPUTE_DONE, cancelled or not, so the parent always knows what this process has in hand.
"""

import importlib
import sys
import time
from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec
import torch

from omni_cli import platforms
from omni_cli.config import EngineConfig
from omni_cli.errors import EngineError, OmniGenError, ProtocolError, RequestCancelled
from omni_cli.request import Interval
from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import (
    ComputeDone,
    ExecuteModel,
    ExecuteStepwise,
    FromWorker,
    Health,
    Identified,
    Identify,
    Loading,
    LoadModel,
    Rpc,
    RpcResult,
    Started,
    decode_to_worker,
    encode,
)
from omni_cli.transport.ring import SlotPool
from omni_cli.worker.chunks.sink import OutboxSink
from omni_cli.worker.chunks.stream import streams
from omni_cli.worker.collect import for_request
from omni_cli.worker.faults import remote_error
from omni_cli.worker.inbox import Inbox, leave
from omni_cli.worker.interpolate import Interpolator
from omni_cli.worker.outbox import Outbox
from omni_cli.worker.packing import Packer
from omni_cli.worker.parcels import Parcel
from omni_cli.worker.pinning import pin, unpin
from omni_cli.worker.protocol import Runner, Streamed, StreamingRunner
from omni_cli.worker.stepwise import Leader
from omni_cli.worker.validity import Validity


def serve(channel: Channel, on_parent_gone: Callable[[], None] = leave) -> None:
    """Take the first message, which must be LoadModel or Identify, then work until Shutdown or until the parent is gone."""
    received = channel.receive()
    if received is None:
        return
    first = decode_to_worker(received[0])
    if not isinstance(first, LoadModel | Identify):
        raise ProtocolError(f"the first message to a worker must be LoadModel or Identify, not {type(first).__name__}")
    try:
        worker = Worker(channel, first, on_parent_gone)
    except OmniGenError as error:  # a setting that cannot be used here, such as a device that is not there
        channel.send(encode(RpcResult(rpc_id=first.rpc_id, error=remote_error(error))))
        return
    worker.run(first)


class Worker:
    """The state of a worker process."""

    def __init__(self, channel: Channel, first: LoadModel | Identify, on_parent_gone: Callable[[], None]) -> None:
        """Build what does not depend on the model."""
        engine = first.engine
        self._channel = channel
        self._engine = engine
        self._platform, self._device = platforms.resolve(first.model.device, first.worker)
        self._pool = SlotPool(
            engine.max_inflight_bytes,
            lambda memory: pin(self._platform, memory),
            lambda memory: unpin(self._platform, memory),
        )
        self._packer = Packer(self._platform, engine.transport, Validity.of(engine))
        self._outbox = Outbox(channel, self._pool, self._packer, self._platform, engine.max_inflight_bytes)
        self._runner: Runner = make_runner(engine)
        self._leader = Leader(self._runner, engine, self._platform, channel, self._pool, self._outbox)
        self._inbox = Inbox(channel, self._pool, on_parent_gone, expect=self._runner.expect)

    def run(self, first: LoadModel | Identify) -> None:
        """Receive, decide, run, publish."""
        self._platform.activate(self._device)
        threads = self._engine.threads or torch.get_num_threads()
        if self._engine.async_output:
            self._outbox.start(self._device)
        torch.set_num_threads(threads)
        for message in chain([first], self._inbox):
            match message:
                case ExecuteModel() | ExecuteStepwise():
                    self._execute(message)
                case Rpc():
                    self._answer(message)
                case LoadModel():
                    self._load(message)
                case Identify():
                    self._identify(message)
                case _:
                    raise ProtocolError(f"a worker has no use for {type(message).__name__}")
        if self._outbox.close(self._engine.drain_timeout):
            self._runner.close()
        else:  # the output thread still reads what the runner would let go
            sys.stderr.write(f"{self._not_drained()} {self._outbox.in_flight} outputs are lost\n")

    def _send(self, message: FromWorker) -> None:
        self._channel.send(encode(message))

    def _load(self, message: LoadModel) -> None:
        model = msgspec.structs.replace(message.model, device=self._device)
        try:
            if not self._outbox.drain(self._engine.drain_timeout):
                raise EngineError(f"{self._not_drained()} the model before was not released")
            self._packer.fill_with(Interpolator.load(message.engine.interpolator, self._device))
            loaded = self._runner.load(
                model,
                message.engine,
                lambda what: self._send(Loading(what=what)),
                lambda facts: self._send(Identified(rpc_id=message.rpc_id, loaded=facts)),
            )
        except Exception as error:  # boundary: whatever a loader raises is told to the parent, which ends the run
            self._send(RpcResult(rpc_id=message.rpc_id, error=remote_error(error)))
        else:
            self._send(RpcResult(rpc_id=message.rpc_id, loaded=loaded))

    def _identify(self, message: Identify) -> None:
        model = msgspec.structs.replace(message.model, device=self._device)
        try:
            facts = self._runner.identify(model, lambda what: self._send(Loading(what=what)))
        except Exception as error:  # boundary: whatever a loader raises is told to the parent
            self._send(RpcResult(rpc_id=message.rpc_id, error=remote_error(error)))
        else:
            self._send(RpcResult(rpc_id=message.rpc_id, loaded=facts))

    def _execute(self, message: ExecuteModel | ExecuteStepwise) -> None:
        """One pipeline call: forward, COMPUTE_DONE, outputs."""
        rpc_id, start = message.rpc_id, time.monotonic()
        try:
            outputs = self._forward(message)
        except Exception as error:  # boundary: whatever a pipeline raises fails these requests, not the worker
            # A device that is broken for good raises here as well and ends the process: the parent starts another one.
            self._platform.synchronize()
            forward = Interval(start, time.monotonic())
            self._send(ComputeDone(rpc_id=rpc_id, async_output_ids=(), forward=forward, error=remote_error(error)))
        else:
            self._publish(message, outputs, Interval(start, time.monotonic()))
        finally:
            self._inbox.forget(rpc_id)
            self._runner.forget(message.requests)

    def _forward(self, message: ExecuteModel | ExecuteStepwise) -> list[Parcel]:
        """Run the pipeline; what it gives may still be computing. A call that was cancelled in the inbox is not begun."""
        rpc_id = message.rpc_id
        if self._inbox.is_cancelled(rpc_id):
            raise RequestCancelled("cancelled before its forward began")
        self._send(Started(rpc_id=rpc_id, request_ids=tuple(request.id for request in message.requests)))
        ids = [f"{message.batch_id}/{request.id}" for request in message.requests]
        begun = self._platform.record_device_event()
        sink = OutboxSink(self._outbox, self._platform, ids, begun, wait=not self._engine.async_output)
        if isinstance(self._runner, StreamingRunner):
            self._runner.stream_to(sink if streams(self._engine, message.requests) else None)
        made = self._leader.lead(message, self._inbox)
        done = self._platform.record_device_event()
        return [
            sink.parcel(owner, media if isinstance(media, Streamed) else for_request(media, request), done)
            for owner, (request, media) in enumerate(zip(message.requests, made, strict=True))
        ]

    def _publish(self, message: ExecuteModel | ExecuteStepwise, outputs: list[Parcel], forward: Interval) -> None:
        """COMPUTE_DONE; then the output thread does the rest, or with --no-async this one, before the next forward."""
        rpc_id, ids = message.rpc_id, tuple(f"{message.batch_id}/{request.id}" for request in message.requests)
        launched = self._platform.asynchronous
        self._send(ComputeDone(rpc_id=rpc_id, async_output_ids=ids, forward=forward, launched=launched))
        if self._engine.async_output:
            self._outbox.put(outputs)
        else:
            self._outbox.deliver(outputs)

    def _answer(self, message: Rpc) -> None:
        """Everything that is not execution. A release of memory drains the outputs first."""
        result: dict[str, Any] = {}
        try:
            match message.method:
                case "synchronize":
                    self._platform.synchronize()
                case "drain":
                    result["drained"] = self._outbox.drain(self._engine.drain_timeout)
                case "sleep":
                    result["drained"] = self._outbox.drain(self._engine.drain_timeout)
                    if not result["drained"]:
                        raise EngineError(f"{self._not_drained()} nothing was released")
                    self._runner.sleep()
                    self._platform.empty_cache()
                case "wake_up":
                    self._runner.wake_up()
                case "health":
                    slots, slot_bytes = self._pool.usage()
                    result["health"] = Health(
                        device_bytes=self._platform.memory_in_use(),
                        inflight=self._outbox.in_flight,
                        slots=slots,
                        slot_bytes=slot_bytes,
                    )
        except Exception as error:  # boundary: the answer says what was raised, and the caller raises it
            result["error"] = remote_error(error)
        self._send(RpcResult(rpc_id=message.rpc_id, **result))

    def _not_drained(self) -> str:
        return f"the outputs did not drain within {self._engine.drain_timeout:g} s;"


def make_runner(engine: EngineConfig) -> Runner:
    """The runner class named by `engine.runner` ("package.module:Class"), built without arguments."""
    module, _, name = engine.runner.partition(":")
    runner: Runner = getattr(importlib.import_module(module), name)()
    return runner
