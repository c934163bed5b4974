"""The local executor: worker processes on this machine, one model each.

    caller threads ── submit ──> Books ── dispatch ──> worker channels          (under the dispatch lock)
    pump thread    <── messages, deaths, deadlines ──> Books ──> futures        (the only resolver)
    writer threads ── Output.release ──> ReleaseSlot on that worker's channel

A worker always has the next call in its inbox while one runs, so no round trip stands between two forwards.
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, OutputTimeout, RequestCancelled, WorkerDied
from omni_cli.events import (
    ForwardDone,
    ForwardStarted,
    ForwardStep,
    ModelLoading,
    ModelReady,
    Note,
    Observer,
    OutputReady,
)
from omni_cli.executor.books import Books, Call, Entry
from omni_cli.executor.faults import PoisonousRequest, load_error, request_error
from omni_cli.executor.launch import WorkerProcess, start_worker
from omni_cli.executor.link import Link, send
from omni_cli.executor.outputs import make_output, payload
from omni_cli.executor.protocol import Handle, RpcMethod
from omni_cli.executor.pump import Pump
from omni_cli.log import logger
from omni_cli.request import PlannedRequest
from omni_cli.transport import messages as m

INBOX_DEPTH = 2
"""The running call and the next one."""

CLOSE_TIMEOUT_S = 15.0
"""How long a worker may take to finish and leave: a little more than the drain of its outputs."""


class LocalExecutor:
    """Executor over `engine.workers` spawned worker processes."""

    def __init__(self, engine: EngineConfig, observer: Observer, command: tuple[str, ...] | None = None) -> None:
        """Start the processes; they import torch while the caller goes on. `command` replaces the worker's program."""
        self._engine = engine
        self._observe = observer
        self._command = command
        self._books = Books(INBOX_DEPTH)
        self._dispatch_lock = threading.RLock()
        self._rpcs: dict[int, tuple[int, Future[m.RpcResult]]] = {}
        self._model: ModelConfig | None = None
        self._loading: Future[m.Loaded] = Future()
        self._restarts = 0
        self._broken: EngineError | None = None
        self._closing = False
        self._pump = Pump(self)
        self._links = [self._start(index) for index in range(engine.workers)]
        self._pump.start()

    # ── what callers use ──

    def load(self, model: ModelConfig) -> Future[m.Loaded]:
        """Load `model` on every worker; resolves when all have it, or with the first error."""
        with self._dispatch_lock:
            self._model = model
            for link in self._links:
                self._send_load(link)
        return self._loading

    def submit(self, requests: Sequence[PlannedRequest]) -> tuple[Handle, ...]:
        """Queue one pipeline call for `requests`. Raises the executor's own end, if it has ended."""
        self.check_health()
        handles = self._books.add(requests)
        self._dispatch()
        return handles

    def cancel(self, handle: Handle) -> None:
        """Drop an unsent request; tell the worker if all requests of a sent call are given up."""
        if not handle.output_ready.cancel() and (entry := self._books.finish(handle.output_id)):
            self._give_up([entry])

    def cancel_waiting(self) -> None:
        """Give up every request whose forward has not begun, in the books and in the workers' inboxes."""
        self._give_up(self._books.drop_not_begun())

    def collective_rpc(self, method: RpcMethod) -> list[m.Health | bool | None]:
        """Ask every worker and wait for all answers, in worker order."""
        self.check_health()
        futures = []
        with self._dispatch_lock:
            for link in self._links:
                rpc_id, future = self._new_rpc(link.index)
                futures.append(future)
                send(link.process.channel, m.Rpc(rpc_id=rpc_id, method=method))
        return [self._rpc_value(method, future) for future in futures]

    def check_health(self) -> None:
        """Raise if the executor has ended: a worker is gone for good, or it was closed."""
        if self._broken is not None:
            raise self._broken

    def close(self) -> None:
        """Let the workers finish what they were sent, end them, fail what is left."""
        self._end(CLOSE_TIMEOUT_S)

    def kill(self) -> None:
        """End the workers at once."""
        self._end(0.0)

    def kill_workers(self) -> None:
        """Kill the processes and nothing else; takes no lock."""
        for link in self._links:
            link.process.process.kill()

    def __enter__(self) -> Self:
        """The executor itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; at once if something went wrong."""
        self.close() if kind is None else self.kill()

    # ── what the pump calls ──

    def on_message(self, worker: WorkerProcess, message: m.FromWorker, fds: list[int]) -> None:
        """Deal with one message; unknown ones cannot be decoded and never come here."""
        link = self._link_of(worker)
        match message:
            case m.Hello():
                pass
            case m.Loading(what=what):
                self._observe(ModelLoading(at=time.monotonic(), worker=link.index, what=what))
            case m.Started(rpc_id=rpc_id):
                if call := self._books.started(rpc_id):
                    self._observe(ForwardStarted(at=time.monotonic(), worker=link.index, ids=_ids(call)))
            case m.Step(rpc_id=rpc_id, step=step, total=total):
                if call := self._books.running(rpc_id):
                    event = ForwardStep(at=time.monotonic(), worker=link.index, ids=_ids(call), step=step, total=total)
                    self._observe(event)
            case m.ComputeDone():
                self._on_compute_done(link, message)
            case m.OutputReady():
                self._on_output_ready(link, message, fds)
            case m.RpcResult():
                self._on_rpc_result(link, message)

    def on_death(self, worker: WorkerProcess) -> None:
        """Requeue what the worker held and start another, or end the executor."""
        worker.end(timeout=1.0)
        with self._dispatch_lock:
            link = self._link_of(worker)
            if self._closing:
                self._lose(link)
                return
            obituary = f"worker {link.index} (pid {worker.pid}) {worker.obituary()}"
            self._lose(link)
            if not self._loading.done() or self._restarts >= self._engine.max_restarts:
                self._break(WorkerDied(obituary))
                return
            self._restarts += 1
            self._observe(Note(at=time.monotonic(), level="warning", text=f"{obituary}\nstarting it again"))
            for entry in self._books.worker_died(link.index):
                _fail(
                    entry.handle,
                    PoisonousRequest(f"{obituary}\nthis request was running {entry.deaths} times when it did"),
                )
            self._links[link.index] = self._start(link.index)
            self._send_load(self._links[link.index])

    def on_tick(self, now: float) -> None:
        """Fail requests whose output has not come in time, and log the books."""
        for call in self._books.overdue(now):
            logger.error(
                "no output within %g s; the books:\n%s", self._engine.output_timeout, "\n".join(self._books.lines())
            )
            for entry in self._books.drop(call.rpc_id):
                waited = f"no OUTPUT_READY within {self._engine.output_timeout:g} s of COMPUTE_DONE"
                _fail(entry.handle, OutputTimeout(f"{waited}; the log has the executor's books"))

    def next_deadline(self) -> float | None:
        """The earliest output deadline."""
        return self._books.next_deadline()

    # ── inside ──

    def _give_up(self, entries: Sequence[Entry]) -> None:
        """Resolve these requests as cancelled; a sent call that nobody waits for any more is cancelled in its worker."""
        for entry in entries:
            if not entry.handle.output_ready.cancel():
                _fail(entry.handle, RequestCancelled(f"request {entry.handle.planned.id!r} was cancelled"))
            handle = entry.handle
            handle.compute_done.cancel()
        for rpc_id, worker in {(entry.rpc_id, entry.worker) for entry in entries}:
            if rpc_id is not None and worker is not None and self._books.running(rpc_id) is None:
                send(self._links[worker].process.channel, m.Cancel(rpc_id=rpc_id))
        self._dispatch()

    def _start(self, index: int) -> Link:
        process = start_worker(self._command)
        link = Link(index, process, time.monotonic())
        self._pump.watch(process)
        return link

    def _send_load(self, link: Link) -> None:
        assert self._model is not None
        rpc_id, _ = self._new_rpc(link.index)
        send(
            link.process.channel, m.LoadModel(rpc_id=rpc_id, worker=link.index, model=self._model, engine=self._engine)
        )

    def _new_rpc(self, worker: int) -> tuple[int, Future[m.RpcResult]]:
        rpc_id, future = self._books.new_rpc_id(), Future[m.RpcResult]()
        self._rpcs[rpc_id] = (worker, future)
        return rpc_id, future

    def _dispatch(self) -> None:
        """Send as many waiting calls as the workers' inboxes have room for."""
        with self._dispatch_lock:
            ready = [link.index for link in self._links if link.ready]
            while call := self._books.take_next(ready):
                assert call.worker is not None
                message = m.ExecuteModel(rpc_id=call.rpc_id, batch_id=call.batch_id, requests=call.requests())
                send(self._links[call.worker].process.channel, message)

    def _on_compute_done(self, link: Link, message: m.ComputeDone) -> None:
        if message.error is not None:
            for entry in self._books.drop(message.rpc_id):
                _fail(entry.handle, request_error(message.error))
        elif call := self._books.computed(message.rpc_id, message.forward, self._engine.output_timeout):
            for handle in call.handles():
                if not handle.compute_done.done():
                    handle.compute_done.set_result(message.forward)
            if not message.launched:
                event = ForwardDone(at=time.monotonic(), worker=link.index, ids=_ids(call), forward=message.forward)
                self._observe(event)
        self._dispatch()

    def _on_output_ready(self, link: Link, message: m.OutputReady, fds: list[int]) -> None:
        channel = link.process.channel
        buffer, release = payload(link.views, channel, message, fds)
        entry = self._books.finish(message.async_output_id)
        if entry is None:  # cancelled or timed out meanwhile
            release()
            return
        self._restarts = 0
        if message.error is not None or message.header is None:
            assert message.error is not None
            release()
            _fail(entry.handle, request_error(message.error))
            return
        self._announce_output(link, entry, message, len(buffer))
        entry.handle.output_ready.set_result(make_output(link, entry, message, buffer, release))

    def _announce_output(self, link: Link, entry: Entry, message: m.OutputReady, nbytes: int) -> None:
        id_, now = entry.handle.planned.id, time.monotonic()
        if message.forward is not None:
            self._observe(ForwardDone(at=now, worker=link.index, ids=(id_,), forward=message.forward))
        self._observe(OutputReady(at=now, worker=link.index, id=id_, d2h=message.d2h, bytes=nbytes))
        for note in message.notes:
            self._observe(Note(at=now, level="warning", text=f"{id_}: {note}"))

    def _on_rpc_result(self, link: Link, message: m.RpcResult) -> None:
        _, future = self._rpcs.pop(message.rpc_id)
        future.set_result(message)
        if message.loaded is not None:
            self._on_loaded(link, message.loaded)
        elif message.error is not None and not link.ready:
            self._break(load_error(message.error))

    def _on_loaded(self, link: Link, loaded: m.Loaded) -> None:
        with self._dispatch_lock:
            link.ready = True
            now = time.monotonic()
            self._observe(
                ModelReady(
                    at=now,
                    worker=link.index,
                    pipeline=loaded.info.pipeline,
                    device=loaded.device,
                    dtype=loaded.info.dtype,
                    seconds=now - link.started_at,
                )
            )
            if all(other.ready for other in self._links) and not self._loading.done():
                self._loading.set_result(loaded)
        self._dispatch()

    def _link_of(self, worker: WorkerProcess) -> Link:
        return next(link for link in self._links if link.process is worker)

    def _lose(self, link: Link) -> None:
        """A worker is gone: its answers will not come, its slots live on only as long as they are looked at."""
        link.ready = False
        link.views.close()
        link.process.dispose()
        for rpc_id, (worker, future) in list(self._rpcs.items()):
            if worker == link.index:
                del self._rpcs[rpc_id]
                future.set_exception(WorkerDied(f"worker {worker} ended before it answered"))

    def _break(self, reason: EngineError) -> None:
        """The executor has ended: everything that waits is told why."""
        self._broken = self._broken or reason
        if not self._loading.done():
            self._loading.set_exception(reason)
        for entry in self._books.clear():
            _fail(entry.handle, reason)

    def _end(self, timeout: float) -> None:
        with self._dispatch_lock:
            if self._closing:
                return
            self._closing = True
            for link in self._links:
                if timeout > 0:
                    send(link.process.channel, m.Shutdown())
        deadline = time.monotonic() + timeout
        for link in self._links:
            link.process.end(max(0.0, deadline - time.monotonic()))
        self._pump.stop()
        for link in self._links:
            self._lose(link)
        self._break(EngineError("the executor is closed"))

    def _rpc_value(self, method: RpcMethod, future: Future[m.RpcResult]) -> m.Health | bool | None:
        result = future.result()
        if result.error is not None:
            raise EngineError(f"{method} failed: {result.error.message}")
        return result.health if result.health is not None else result.drained


def _ids(call: Call) -> tuple[str, ...]:
    return tuple(request.id for request in call.requests())


def _fail(handle: Handle, error: Exception) -> None:
    """Give both futures the error, unless they have a value or were cancelled."""
    for future in (handle.compute_done, handle.output_ready):
        if not future.done():
            future.set_exception(error)
