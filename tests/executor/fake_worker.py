"""A real worker process whose end of the channel is in the test's hands.

    executor ── starts ──> process that runs PROGRAM ── passes its end of the channel ──> FakeWorker in the test

The process has a pid and a log, and it can die in every way a worker can. The test sends the worker's messages itself,
in any order, so no test has to sleep.
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
from omni_cli.events import AnyEvent, ModelLoading
from omni_cli.executor.local import LocalExecutor
from omni_cli.media import Kind
from omni_cli.models.cards import Card
from omni_cli.request import Interval, ModelInfo
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel
from omni_cli.transport.ring import SlotPool
from tests.factories import media_header

PROGRAM = """
import os, signal, socket, sys
control = socket.socket(socket.AF_UNIX)
control.connect(chr(0) + sys.argv[1])
socket.send_fds(control, [b"here"], [int(sys.argv[2])])
os.close(int(sys.argv[2]))
while code := control.recv(4096):
    exec(code)
    control.send(b"done")
"""

TIMEOUT_S = 30.0
"""How long a test waits before it fails instead of hanging."""

SIGKILL = "os.kill(os.getpid(), signal.SIGKILL)"

LOADED = m.Loaded(
    info=ModelInfo(id="fake", revision=None, pipeline="Fake", dtype="float32"),
    card=Card(pipeline="Fake", kind=Kind.IMAGE),
    device="cpu",
    versions={},
)
HEADER = media_header((1, 1, 2, 2, 3))
PIXELS = bytes(range(12))
FORWARD = Interval(1.0, 2.0)
D2H = Interval(2.0, 2.5)

T = TypeVar("T", bound=m.Message)


def error(kind: str = "forward_failed", message: str = "it broke") -> m.RemoteError:
    """Return an exception as a worker reports it."""
    return m.RemoteError(kind=kind, message=message, traceback=f"Traceback of the worker\n{message}\n")


def frame(payload: bytes) -> bytes:
    """Return `payload` as the channel frames it."""
    return struct.pack("<2sIB", b"og", len(payload), 0) + payload


class FakeClock:
    """A clock in seconds that only the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeWorker:
    """One worker process and its end of the channel."""

    def __init__(self, control: socket.socket, channel: Channel) -> None:
        self.channel = channel
        self.pool = SlotPool(1 << 20)
        self.index = -1
        self._control = control

    def expect(self, kind: type[T]) -> T:
        """Return the next message from the executor, which must be of `kind`."""
        while (received := next(self.channel.messages(), None)) is None:
            assert select.select([self.channel], [], [], TIMEOUT_S)[0], f"expected {kind.__name__}, got nothing"
            assert self.channel.read_available(), f"expected {kind.__name__}, got the end of the channel"
        message = m.decode_to_worker(received[0])
        assert isinstance(message, kind), message
        return message

    def has_no_message(self) -> bool:
        """Return whether no message is waiting. Nothing that the test did may make the executor send one later."""
        self.channel.read_available()
        return not [*self.channel.messages()]

    def send(self, message: m.FromWorker, fds: tuple[int, ...] = ()) -> None:
        """Send a message of the worker."""
        self.channel.send(m.encode(message), fds)

    def load(self) -> str:
        """Answer the LoadModel that must come next; return the model that it names."""
        load = self.expect(m.LoadModel)
        self.index = load.worker
        self.send(m.RpcResult(rpc_id=load.rpc_id, loaded=LOADED))
        return load.model.model

    def begin(self) -> m.ExecuteModel:
        """Receive the call that must come next and start its forward."""
        call = self.expect(m.ExecuteModel)
        self.start(call)
        return call

    def start(self, call: m.ExecuteModel | m.ExecuteStepwise) -> None:
        """Start the forward of a call."""
        ids = tuple(request.id for request in call.requests)
        self.send(m.Started(rpc_id=call.rpc_id, request_ids=ids))

    def compute(
        self, call: m.ExecuteModel | m.ExecuteStepwise, failure: m.RemoteError | None = None, launched: bool = False
    ) -> None:
        """End the forward of a call."""
        ids = tuple(f"{call.batch_id}/{r.id}" for r in call.requests) if failure is None else ()
        self.send(
            m.ComputeDone(rpc_id=call.rpc_id, async_output_ids=ids, forward=FORWARD, error=failure, launched=launched)
        )

    def output(
        self,
        call: m.ExecuteModel | m.ExecuteStepwise,
        id_: str,
        *,
        slot: bool = False,
        failure: m.RemoteError | None = None,
        forward: Interval | None = None,
    ) -> None:
        """Send the output of one request, inline or in a slot, or its failure. `forward`: as the device timed it."""
        output_id = f"{call.batch_id}/{id_}"
        if failure is not None:
            self.send(m.OutputReady(async_output_id=output_id, error=failure, d2h=D2H, forward=forward))
        elif slot:
            acquired = self.pool.acquire(len(PIXELS))
            acquired.memory[: len(PIXELS)] = PIXELS
            ref = acquired.ref(len(PIXELS), self.pool.take_retired())
            fds = (acquired.fd,) if acquired.fresh else ()
            self.send(m.OutputReady(async_output_id=output_id, header=HEADER, slot=ref, d2h=D2H), fds)
            self.pool.mark_shared(acquired)
        else:
            self.send(m.OutputReady(async_output_id=output_id, header=HEADER, inline=PIXELS, d2h=D2H, forward=forward))

    def finish(self, call: m.ExecuteModel | m.ExecuteStepwise) -> None:
        """End the forward and send every output."""
        self.compute(call)
        for request in call.requests:
            self.output(call, request.id)

    def write(self, data: bytes) -> None:
        """Write raw bytes into the channel."""
        self.channel._socket.sendall(data)

    def do(self, code: str) -> None:
        """Run `code` in the process and wait for its end."""
        self._control.send(code.encode())
        assert self._control.recv(16) == b"done"

    def die(self, code: str = SIGKILL) -> None:
        """Run `code`, which ends the process. The channel stays open, so only the sentinel shows the exit."""
        self._control.send(code.encode())

    def close(self) -> None:
        """Close everything."""
        self.pool.close()
        self.channel.close()
        self._control.close()


class Harness:
    """Accepts the fake workers that an executor starts, and records its events."""

    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(TIMEOUT_S)
        self._listener.bind("")  # a name of the kernel's choice, without a file
        self._listener.listen()
        self._workers: list[FakeWorker] = []
        name = self._listener.getsockname().decode().removeprefix("\0")
        self.command = (sys.executable, "-S", "-E", "-c", PROGRAM, name)
        self.clock = FakeClock()
        self.events: list[AnyEvent] = []
        self._event_added = threading.Condition()
        self._syncs = 0

    def next(self) -> FakeWorker:
        """Return the next process that the executor starts."""
        control, _ = self._listener.accept()
        control.settimeout(TIMEOUT_S)
        _, fds, _, _ = socket.recv_fds(control, 16, 1)
        channel = socket.socket(fileno=fds[0])
        os.set_inheritable(fds[0], False)
        self._workers.append(FakeWorker(control, Channel(channel)))
        return self._workers[-1]

    def observe(self, event: AnyEvent) -> None:
        """Record an event of the executor."""
        with self._event_added:
            self.events.append(event)
            self._event_added.notify_all()

    def wait_for(self, kind: type[AnyEvent]) -> None:
        """Return once an event of `kind` was recorded."""
        self._wait_until(lambda: any(isinstance(event, kind) for event in self.events))

    def advance(self, seconds: float, worker: FakeWorker) -> None:
        """Advance the clock after all messages of `worker` were handled, then make the pump look at its deadlines."""
        self._syncs += 1
        what = f"sync {self._syncs}"
        worker.send(m.LoadProgress(what=what))
        self._wait_until(lambda: any(isinstance(event, ModelLoading) and event.what == what for event in self.events))
        self.clock.now += seconds
        worker.send(m.Hello(pid=1))

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        with self._event_added:
            assert self._event_added.wait_for(condition, TIMEOUT_S)

    @contextlib.contextmanager
    def unloaded(
        self, observer: Callable[[AnyEvent], None] | None = None, **engine: Any
    ) -> Iterator[tuple[LocalExecutor, FakeWorker]]:
        """Start an executor with one worker that was sent nothing; kill it at the end."""
        executor = LocalExecutor(
            EngineConfig(**engine), observer or self.observe, command=self.command, clock=self.clock
        )
        try:
            yield executor, self.next()
        finally:
            executor.shutdown(wait=False)
            executor.shutdown()

    @contextlib.contextmanager
    def executor(
        self, observer: Callable[[AnyEvent], None] | None = None, **engine: Any
    ) -> Iterator[tuple[LocalExecutor, FakeWorker]]:
        """Start an executor with one worker that has loaded its model; kill it at the end."""
        with self.unloaded(observer, **engine) as (executor, worker):
            future = executor.load(ModelConfig()).loaded
            worker.load()
            assert future.result(TIMEOUT_S) == LOADED
            yield executor, worker

    @contextlib.contextmanager
    def pair(self) -> Iterator[tuple[LocalExecutor, FakeWorker, FakeWorker]]:
        """Start an executor with two workers, 0 and 1, that have loaded their model; kill it at the end."""
        with self.unloaded(workers=2) as (executor, one):
            workers = [one, self.next()]
            loading = executor.load(ModelConfig())
            for worker in workers:
                worker.load()
            loading.loaded.result(TIMEOUT_S)
            first, second = sorted(workers, key=lambda worker: worker.index)
            yield executor, first, second

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.close()
        self._listener.close()
