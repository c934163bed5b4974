"""A worker that does what the test says, when the test says it.

    executor ── starts ──> puppet process ── hands its end of the channel over ──> test

The process is real: it has a pid, a log, and it dies in every way a worker can. Its end of the channel is in the test's
hands, so the test speaks as the worker, in whatever order it likes, and nothing has to be waited for by the clock.
"""

import contextlib
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.events import AnyEvent
from omni_cli.executor.local import LocalExecutor
from omni_cli.media import ColorModel, Kind
from omni_cli.models.cards import Card
from omni_cli.request import GenerationRequest, Interval, ModelInfo, PlannedRequest
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotPool

PROGRAM = """
import os, signal, socket, sys
stage = socket.socket(socket.AF_UNIX)
stage.connect(chr(0) + sys.argv[1])
socket.send_fds(stage, [b"here"], [int(sys.argv[2])])
os.close(int(sys.argv[2]))
while code := stage.recv(4096):
    exec(code)
    stage.send(b"done")
"""

PATIENCE_S = 30.0
"""A test that would hang fails instead."""

LOADED = m.Loaded(
    info=ModelInfo(id="puppet", revision=None, pipeline="Puppet", dtype="float32"),
    card=Card(pipeline="Puppet", kind=Kind.IMAGE),
    device="cpu",
    versions={},
)
HEADER = m.MediaHeader(
    kind=Kind.IMAGE, dtype="uint8", shape=(1, 1, 2, 2, 3), color=ColorModel.RGB, value_range=(0.0, 255.0)
)
PIXELS = bytes(range(12))
FORWARD = Interval(1.0, 2.0)
D2H = Interval(2.0, 2.5)

T = TypeVar("T", bound=m.Message)


def planned(*ids: str, **fields: Any) -> list[PlannedRequest]:
    """One request per id."""
    return [
        PlannedRequest(request=GenerationRequest(id=id_, **fields), index=0, seeds=(0,), files=(), fingerprint="")
        for id_ in ids
    ]


def error(kind: str = "forward_failed", message: str = "it broke") -> m.RemoteError:
    """What a worker says of an exception."""
    return m.RemoteError(kind=kind, message=message, traceback=f"Traceback of the worker\n{message}\n")


def frame(payload: bytes) -> bytes:
    """A message of these bytes, as the channel writes it."""
    return struct.pack("<2sIB", b"og", len(payload), 0) + payload


class Puppet:
    """One worker process and its end of the channel."""

    def __init__(self, control: socket.socket, channel: Channel) -> None:
        self.channel = channel
        self.pool = SlotPool(1 << 20)
        self.index = -1
        self._control = control

    def expect(self, kind: type[T]) -> T:
        """The next message from the executor, which must be of this kind."""
        while (received := next(self.channel.messages(), None)) is None:
            assert select.select([self.channel], [], [], PATIENCE_S)[0], f"expected {kind.__name__}, heard nothing"
            assert self.channel.take_in(), f"expected {kind.__name__}, found the end of the channel"
        message = m.decode_to_worker(received[0])
        assert isinstance(message, kind), message
        return message

    def hears_nothing(self) -> bool:
        """True if no message is waiting. The executor must have no reason to send one later."""
        self.channel.take_in()
        return not [*self.channel.messages()]

    def send(self, message: m.FromWorker, fds: tuple[int, ...] = ()) -> None:
        """Speak as the worker."""
        self.channel.send(m.encode(message), fds)

    def load(self) -> None:
        """Answer the LoadModel that must come next."""
        load = self.expect(m.LoadModel)
        self.index = load.worker
        self.send(m.RpcResult(rpc_id=load.rpc_id, loaded=LOADED))

    def begin(self) -> m.ExecuteModel:
        """Take the call that must come next and start it."""
        call = self.expect(m.ExecuteModel)
        self.start(call)
        return call

    def start(self, call: m.ExecuteModel) -> None:
        ids = tuple(request.id for request in call.requests)
        self.send(m.Started(rpc_id=call.rpc_id, request_ids=ids))

    def compute(self, call: m.ExecuteModel, failure: m.RemoteError | None = None) -> None:
        """The forward is over."""
        ids = tuple(f"{call.batch_id}/{r.id}" for r in call.requests) if failure is None else ()
        self.send(m.ComputeDone(rpc_id=call.rpc_id, async_output_ids=ids, forward=FORWARD, error=failure))

    def output(
        self, call: m.ExecuteModel, id_: str, *, slot: bool = False, failure: m.RemoteError | None = None
    ) -> None:
        """The output of one request, inline or in a slot, or what became of it."""
        output_id = f"{call.batch_id}/{id_}"
        if failure is not None:
            self.send(m.OutputReady(async_output_id=output_id, error=failure, d2h=D2H))
        elif slot:
            place = self.pool.acquire(len(PIXELS))
            place.memory[: len(PIXELS)] = PIXELS
            ref = place.ref(len(PIXELS), self.pool.take_retired())
            fds = (place.fd,) if place.fresh else ()
            self.send(m.OutputReady(async_output_id=output_id, header=HEADER, slot=ref, d2h=D2H), fds)
            self.pool.shared(place)
        else:
            self.send(m.OutputReady(async_output_id=output_id, header=HEADER, inline=PIXELS, d2h=D2H))

    def finish(self, call: m.ExecuteModel) -> None:
        """The forward is over and every output is there."""
        self.compute(call)
        for request in call.requests:
            self.output(call, request.id)

    def at_once(self, call: m.ExecuteModel, *, outputs: bool = True) -> None:
        """Start, compute and send the outputs of a call in one write: no time passes in between."""
        ids = tuple(request.id for request in call.requests)
        output_ids = tuple(f"{call.batch_id}/{id_}" for id_ in ids)
        messages: list[m.FromWorker] = [
            m.Started(rpc_id=call.rpc_id, request_ids=ids),
            m.ComputeDone(rpc_id=call.rpc_id, async_output_ids=output_ids, forward=FORWARD),
        ]
        if outputs:
            messages += [
                m.OutputReady(async_output_id=id_, header=HEADER, inline=PIXELS, d2h=D2H) for id_ in output_ids
            ]
        self.write(b"".join(frame(m.encode(message)) for message in messages))

    def write(self, data: bytes) -> None:
        """Raw bytes into the channel."""
        self.channel._socket.sendall(data)

    def do(self, code: str) -> None:
        """Run `code` in the process, to its end."""
        self._control.send(code.encode())
        assert self._control.recv(16) == b"done"

    def die(self, code: str) -> None:
        """Run `code`, which ends the process. The channel stays open: only the sentinel tells of it."""
        self._control.send(code.encode())

    def leave(self) -> None:
        """Give everything back."""
        self.pool.close()
        self.channel.close()
        self._control.close()


class Stage:
    """Where the puppets of an executor come on."""

    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(PATIENCE_S)
        self._listener.bind("")  # a name of the kernel's choice, without a file
        self._listener.listen()
        self._puppets: list[Puppet] = []
        name = self._listener.getsockname().decode().removeprefix("\0")
        self.command = (sys.executable, "-S", "-E", "-c", PROGRAM, name)
        self.events: list[AnyEvent] = []
        self._seen = threading.Condition()

    def next(self) -> Puppet:
        """The next process that the executor starts."""
        control, _ = self._listener.accept()
        control.settimeout(PATIENCE_S)
        _, fds, _, _ = socket.recv_fds(control, 16, 1)
        channel = socket.socket(fileno=fds[0])
        os.set_inheritable(fds[0], False)
        self._puppets.append(Puppet(control, Channel(channel)))
        return self._puppets[-1]

    def observe(self, event: AnyEvent) -> None:
        """The executor's observer."""
        with self._seen:
            self.events.append(event)
            self._seen.notify_all()

    def wait_for(self, kind: type[AnyEvent]) -> None:
        """Return once an event of this kind has been seen."""
        with self._seen:
            assert self._seen.wait_for(lambda: any(isinstance(event, kind) for event in self.events), PATIENCE_S)

    @contextlib.contextmanager
    def executor(
        self, observer: Callable[[AnyEvent], None] | None = None, **engine: Any
    ) -> Iterator[tuple[LocalExecutor, Puppet]]:
        """A loaded executor over one puppet; killed at the end."""
        executor = LocalExecutor(EngineConfig(**engine), observer or self.observe, command=self.command)
        try:
            puppet = self.next()
            future = executor.load(ModelConfig()).loaded
            puppet.load()
            assert future.result(PATIENCE_S) == LOADED
            yield executor, puppet
        finally:
            executor.kill()

    @contextlib.contextmanager
    def pair(self) -> Iterator[tuple[LocalExecutor, Puppet, Puppet]]:
        """A loaded executor over two puppets, worker 0 and worker 1."""
        executor = LocalExecutor(EngineConfig(workers=2), self.observe, command=self.command)
        try:
            workers = [self.next(), self.next()]
            loading = executor.load(ModelConfig())
            for worker in workers:
                worker.load()
            loading.loaded.result(PATIENCE_S)
            first, second = sorted(workers, key=lambda worker: worker.index)
            yield executor, first, second
        finally:
            executor.kill()

    @contextlib.contextmanager
    def alone(self) -> Iterator[tuple[LocalExecutor, Puppet]]:
        """An executor over one puppet that has not been told to load anything."""
        executor = LocalExecutor(EngineConfig(), self.observe, command=self.command)
        try:
            yield executor, self.next()
        finally:
            executor.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for puppet in self._puppets:
            puppet.leave()
        self._listener.close()
