"""The worker process: one model on one device, in five threads.

    lifeline thread   waits until the parent closes the channel ─> exits the process (started by `__main__`)
    inbox thread      reads the channel ─┬─> work queue ─> main thread
                                         ├─> Proceed, Cancel ─> main thread, which asks for them between steps
                                         ├─> prefetch queue ─> inputs thread
                                         └─> ReleaseSlot ─> ring ─> output thread
    inputs thread     reads and decodes input files ─> cache ─> main thread   (started by the first input file)
    main thread       work queue ─> forward pass ─> outbox queue ─> output thread
                      sends Started, Step, StepOutput, ComputeDone, LoadProgress, Warned, Identified, RpcResult
    output thread     side stream: uint8, copy to the host into a slot of the ring   (main thread with --no-async)
                      sends OutputReady, OutputPiece, Preview

The main and the output thread both write to the channel, whose lock keeps each message whole. Every ExecuteModel and
ExecuteStepwise is answered by one ComputeDone, cancelled or not, so that the parent knows which calls this process
has.
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
from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, OmniGenError, ProtocolError, RequestCancelled
from omni_cli.log import warnings_to
from omni_cli.request import Interval
from omni_cli.text import encodable
from omni_cli.transport.channel import Channel
from omni_cli.transport.messages import (
    ComputeDone,
    ExecuteModel,
    ExecuteStepwise,
    FromWorker,
    Health,
    Identified,
    Identify,
    Loaded,
    LoadModel,
    LoadProgress,
    Rpc,
    RpcResult,
    SetThreads,
    Started,
    Warned,
    decode_to_worker,
    encode,
)
from omni_cli.worker.error_report import exit_process, remote_error
from omni_cli.worker.inbox import Inbox
from omni_cli.worker.intra_op_threads import default_threads, threads_on
from omni_cli.worker.output.interpolate import Interpolator
from omni_cli.worker.output.outbox import Outbox
from omni_cli.worker.output.outgoing import Outgoing, pinned_slot_pool
from omni_cli.worker.output.output_check import OutputPolicy
from omni_cli.worker.output.packer import Packer
from omni_cli.worker.pipeline.media_from_output import add_float_consumers
from omni_cli.worker.runner_protocol import MemoryFreeingRunner, Runner
from omni_cli.worker.stepwise import StepwiseDriver
from omni_cli.worker.streaming_decode import CallOutputs

HELD_SHARE = 0.1
"""The share of a device's memory that is in use where other programs compute; a display or an idle context has less."""


def serve(channel: Channel, on_parent_gone: Callable[[], None] = exit_process) -> None:
    """Serve the channel until it delivers Shutdown; `on_parent_gone` is called when the parent closes it.

    Raises ProtocolError if the first message is not LoadModel or Identify, or if a later one is unknown.
    """
    received = channel.receive()
    if received is None:
        return
    first = decode_to_worker(received[0])
    if not isinstance(first, LoadModel | Identify):
        raise ProtocolError(f"the first message to a worker must be LoadModel or Identify, not {type(first).__name__}")
    # From here on: what importing a backend or asking for its devices warns of is for the person, too.
    with warnings_to(lambda text: channel.send(encode(Warned(text=encodable(text))))):
        try:
            worker = Worker(channel, first, on_parent_gone)
        except OmniGenError as error:  # a setting that cannot work on this machine, such as an absent device
            channel.send(encode(RpcResult(rpc_id=first.rpc_id, error=remote_error(error))))
            return
        worker.run(first)


class Worker:
    """The main thread of a worker process."""

    def __init__(self, channel: Channel, first: LoadModel | Identify, on_parent_gone: Callable[[], None]) -> None:
        """Build everything that does not depend on the model. Raises UsageError for a device that does not exist."""
        engine = first.engine
        self._channel = channel
        self._engine = engine
        self._platform, self._device = platforms.resolve(first.model.device, first.worker)
        self._pool = pinned_slot_pool(self._platform, engine.max_inflight_bytes)
        self._packer = Packer(self._platform, engine.transport, OutputPolicy.from_config(engine))
        self._outbox = Outbox(channel, self._pool, self._packer, self._platform, engine.max_inflight_bytes)
        self._runner: Runner = make_runner(engine)
        if isinstance(self._runner, MemoryFreeingRunner):
            self._runner.drain_by(lambda: self._outbox.give_way(engine.drain_timeout))
            self._outbox.free_memory_by(self._runner.free_memory)
        self._driver = StepwiseDriver(self._runner, engine, self._platform, channel, self._pool, self._outbox)
        self._inbox = Inbox(channel, self._pool, on_parent_gone, prefetch=self._runner.prefetch)

    def run(self, first: LoadModel | Identify) -> None:
        """Handle `first` and then the inbox, up to Shutdown; send outstanding outputs and release the model.

        Raises ProtocolError for a message that a worker does not handle.
        """
        self._platform.activate(self._device)
        threads = self._engine.threads or default_threads(torch.get_num_threads(), self._engine.least_workers)
        if self._engine.async_output:
            self._outbox.start(self._device)
        torch.set_num_threads(threads)
        for message in chain([first], self._inbox):
            match message:
                case ExecuteModel() | ExecuteStepwise():
                    self._execute(message)
                case LoadModel() | Identify() | Rpc():
                    self._answer(message)
                case SetThreads(threads=threads):
                    torch.set_num_threads(threads)
                case _:
                    raise ProtocolError(f"a worker has no use for {type(message).__name__}")
        if self._outbox.close(self._engine.drain_timeout):
            self._runner.close()
        else:  # the output thread still reads tensors that the runner would free
            sys.stderr.write(f"{self._not_drained()} {self._outbox.in_flight} outputs are lost\n")

    def _send(self, message: FromWorker) -> None:
        self._channel.send(encode(message))

    def _execute(self, message: ExecuteModel | ExecuteStepwise) -> None:
        """Execute one call: forward pass, ComputeDone, outputs."""
        rpc_id, start = message.rpc_id, time.monotonic()
        try:
            outputs = self._forward(message)
        except Exception as error:  # boundary: whatever a pipeline raises fails these requests, not the worker
            # A broken device raises here as well, which ends the process: the parent starts another one.
            self._platform.synchronize()
            forward = Interval(start, time.monotonic())
            self._send(ComputeDone(rpc_id=rpc_id, async_output_ids=(), forward=forward, error=remote_error(error)))
        else:
            self._publish(message, outputs, Interval(start, time.monotonic()))
        finally:
            self._inbox.finish(rpc_id)
            self._runner.discard(message.requests)

    def _forward(self, message: ExecuteModel | ExecuteStepwise) -> list[Outgoing]:
        """Run the pipeline, unless the call has been cancelled; return its outputs, which may still be computing."""
        rpc_id = message.rpc_id
        if self._inbox.is_cancelled(rpc_id):
            raise RequestCancelled("cancelled before its forward began")
        request_ids = tuple(request.id for request in message.requests)
        self._send(Started(rpc_id=rpc_id, request_ids=request_ids, threads=threads_on(self._device)))
        ids = [f"{message.batch_id}/{request.id}" for request in message.requests]
        with self._outbox.forward():
            outputs = CallOutputs(self._outbox, self._platform, self._engine, message.requests, ids)
            self._runner.stream_to(outputs.on_frames)
            medias = self._driver.execute(message, self._inbox)
            done = self._platform.record_device_event()
        return [
            outputs.outgoing(number, add_float_consumers(media, request), done)
            for number, (request, media) in enumerate(zip(message.requests, medias, strict=True))
        ]

    def _publish(self, message: ExecuteModel | ExecuteStepwise, outputs: list[Outgoing], forward: Interval) -> None:
        """Send ComputeDone and pass the outputs to the output thread, or send them here with --no-async."""
        rpc_id, ids = message.rpc_id, tuple(f"{message.batch_id}/{request.id}" for request in message.requests)
        launched = self._platform.asynchronous
        self._send(ComputeDone(rpc_id=rpc_id, async_output_ids=ids, forward=forward, launched=launched))
        if self._engine.async_output:
            self._outbox.put(outputs)
        else:
            self._outbox.deliver(outputs)

    def _answer(self, message: LoadModel | Identify | Rpc) -> None:
        """Answer anything but execution with one RpcResult. Outputs are drained before memory is released."""
        result: dict[str, Any] = {}
        try:
            match message:
                case LoadModel():
                    result["loaded"] = self._load(message)
                case Identify(model=model):
                    identified = self._runner.identify(self._on_this_device(model), self._send_progress)
                    result["loaded"] = identified and self._with_devices(identified, model)
                case Rpc(method="synchronize"):
                    self._platform.synchronize()
                case Rpc(method="drain"):
                    result["drained"] = self._outbox.drain(self._engine.drain_timeout)
                case Rpc(method="sleep"):
                    result["drained"] = self._outbox.drain(self._engine.drain_timeout)
                    if not result["drained"]:
                        raise EngineError(f"{self._not_drained()} nothing was released")
                    self._runner.sleep()
                    self._platform.empty_cache()
                case Rpc(method="wake_up"):
                    self._runner.wake_up()
                case Rpc(method="health"):
                    result["health"] = self._health()
        except Exception as error:  # boundary: whatever is raised here is raised again by the caller in the parent
            result["error"] = remote_error(error)
        self._send(RpcResult(rpc_id=message.rpc_id, **result))

    def _load(self, message: LoadModel) -> Loaded:
        if not self._outbox.drain(self._engine.drain_timeout):
            raise EngineError(f"{self._not_drained()} the model before was not released")
        if message.worker > 0 and self._engine.workers == "auto":
            self._raise_if_held()
        self._packer.interpolator = Interpolator.load(message.engine.interpolator, self._device)
        loaded = self._runner.load(
            self._on_this_device(message.model),
            message.engine,
            self._send_progress,
            lambda facts: self._send(
                Identified(rpc_id=message.rpc_id, loaded=self._with_devices(facts, message.model))
            ),
        )
        return self._with_devices(loaded, message.model)

    def _raise_if_held(self) -> None:
        """Raise EngineError if other programs hold a part of this worker's device."""
        used, total = self._platform.memory_held(self._device)
        if used > HELD_SHARE * total:
            gib = 1 << 30
            raise EngineError(
                f"{self._device} is left alone: {used / gib:.1f} of {total / gib:.1f} GiB are in use by other programs"
            )

    def _with_devices(self, loaded: Loaded, model: ModelConfig) -> Loaded:
        """Return `loaded` with the number of devices that workers of `model` are spread over."""
        devices = 1 if ":" in model.device else self._platform.device_count()
        return msgspec.structs.replace(loaded, devices=devices)

    def _on_this_device(self, model: ModelConfig) -> ModelConfig:
        return msgspec.structs.replace(model, device=self._device)

    def _send_progress(self, what: str) -> None:
        self._send(LoadProgress(what=what))

    def _health(self) -> Health:
        slots, slot_bytes = self._pool.usage()
        return Health(
            device_bytes=self._platform.memory_in_use(),
            inflight=self._outbox.in_flight,
            slots=slots,
            slot_bytes=slot_bytes,
        )

    def _not_drained(self) -> str:
        return f"the outputs did not drain within {self._engine.drain_timeout:g} s;"


def make_runner(engine: EngineConfig) -> Runner:
    """Return an instance of the runner class `engine.runner` ("package.module:Class")."""
    module, _, name = engine.runner.partition(":")
    runner: Runner = getattr(importlib.import_module(module), name)()
    return runner
