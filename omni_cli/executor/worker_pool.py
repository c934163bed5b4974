"""The worker processes of an executor: start, call, reap, replace and end them.

    caller threads ── call_all, identify ──┐                    ┌──> worker 0 channel
    any thread ────── load, send ──────────┴── under `lock` ────┴──> worker 1 channel ...
    pump thread ───── PendingRpcs.resolve ──> the callers' futures
    pump thread ───── reap ──> replace: a new process with the same index and the same model

Everything whose order matters to a worker (a call and its cancel, a call and the shutdown) is sent under `lock`, and a
worker is replaced under it.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from msgspec import structs

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, OmniGenError, ProtocolError, WorkerDied
from omni_cli.executor.futures import set_exception, set_result
from omni_cli.executor.protocol import RpcMethod
from omni_cli.executor.pump import Handler, Pump
from omni_cli.executor.worker_handle import WorkerHandle, start_worker
from omni_cli.log import logger
from omni_cli.transport import messages as m

REAP_TIMEOUT_S = 1.0
"""How long a worker whose channel has ended may take to exit before it is killed."""


class PendingRpcs:
    """The futures of unanswered RPCs, by rpc id."""

    def __init__(self, new_id: Callable[[], int]) -> None:
        """Start empty. `new_id` returns ids that are never used twice."""
        self._new_id = new_id
        self._lock = threading.Lock()
        self._pending: dict[int, tuple[int, Future[m.RpcResult]]] = {}

    def add(self, worker: int) -> tuple[int, Future[m.RpcResult]]:
        """Return a new rpc id for `worker` and the future of its result."""
        rpc_id, future = self._new_id(), Future[m.RpcResult]()
        with self._lock:
            self._pending[rpc_id] = (worker, future)
        return rpc_id, future

    def resolve(self, result: m.RpcResult) -> None:
        """Set the result of an RPC. Raises ProtocolError if its id is not pending."""
        with self._lock:
            _, future = self._pending.pop(result.rpc_id, (None, None))
        if future is None:
            raise ProtocolError(f"RpcResult for rpc {result.rpc_id}, which is not pending")
        set_result(future, result)

    def fail(self, worker: int, error: OmniGenError) -> None:
        """Fail all RPCs of `worker`."""
        with self._lock:
            ids = [rpc_id for rpc_id, (owner, _) in self._pending.items() if owner == worker]
            futures = [self._pending.pop(rpc_id)[1] for rpc_id in ids]
        for future in futures:
            set_exception(future, error)


class WorkerPool:
    """`engine.least_workers` worker processes, and more after `scale`; the pump that reads from them.

    `model` is what they have or are loading.
    """

    def __init__(
        self,
        engine: EngineConfig,
        handler: Handler,
        new_id: Callable[[], int],
        command: tuple[str, ...] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an empty pool. `command` replaces the worker's program."""
        self.lock = threading.RLock()
        self.workers: list[WorkerHandle] = []
        self.rpcs = PendingRpcs(new_id)
        self.model: ModelConfig | None = None
        self._engine = engine
        self._command = command
        self._clock = clock
        self._closing = False
        self._closed = False
        self._pump = Pump(handler, clock)
        self.wake = self._pump.wake
        self.pump_until = self._pump.pump_until

    def start(self) -> None:
        """Start the processes and, except in pure step mode, the pump.

        Raises EngineError if a process cannot be started; no process is left then.
        """
        try:
            for index in range(self._engine.least_workers):
                self.workers.append(self._start(index))
        except OSError as error:
            self.kill()
            self.shutdown(0.0)
            raise EngineError(f"worker {len(self.workers)} cannot be started: {error}") from error
        if not self._engine.is_synchronous:
            self._pump.start()

    def scale(self, workers: int, threads: int | None) -> None:
        """Start workers until there are `workers`; with `threads`, set the intra-op threads of all of them.

        Raises EngineError if a process cannot be started.
        """
        with self.lock:
            if self._closing:
                return
            if threads is not None and threads != self._engine.threads:
                self._engine = structs.replace(self._engine, threads=threads)
                for worker in self.workers:
                    worker.send(m.SetThreads(threads=threads))
            try:
                while len(self.workers) < workers:
                    self.workers.append(self._start(len(self.workers)))
                    if self.model is not None:
                        self._send_load(self.workers[-1], self.model)
            except OSError as error:
                raise EngineError(f"worker {len(self.workers)} cannot be started: {error}") from error

    def retire(self, worker: WorkerHandle) -> None:
        """End a worker that is not needed: it is not replaced, and its end is no death."""
        with self.lock:
            worker.retired, worker.ready = True, False
            worker.process.kill()

    @property
    def active(self) -> list[WorkerHandle]:
        """The workers that are not retired."""
        return [worker for worker in self.workers if not worker.retired]

    def load(self, model: ModelConfig) -> None:
        """Make every worker, and each later replacement, load `model` in place of what it has.

        No call may be in flight.
        """
        with self.lock:
            self.model = model
            for worker in self.active:
                self._send_load(worker, model)  # a dead worker ignores it; its replacement loads `model` on start

    @property
    def has_model(self) -> bool:
        """Whether any model was loaded or is being loaded."""
        return any(worker.model is not None for worker in self.workers)

    def identify(self, model: ModelConfig) -> Future[m.RpcResult]:
        """Ask the first worker for the facts of `model`."""
        with self.lock:
            worker = self.workers[0]
            rpc_id, future = self.rpcs.add(worker.index)
            worker.send(m.Identify(rpc_id=rpc_id, worker=worker.index, model=model, engine=self._engine))
            return future

    def call_all(self, method: RpcMethod) -> list[Future[m.RpcResult]]:
        """Call `method` on every worker; return the futures in worker order."""
        with self.lock:
            futures = []
            for worker in self.active:
                rpc_id, future = self.rpcs.add(worker.index)
                futures.append(future)
                worker.send(m.Rpc(rpc_id=rpc_id, method=method))
            return futures

    def fail_rpcs(self, reason: OmniGenError) -> None:
        """Fail all pending RPCs."""
        with self.lock:
            for worker in self.workers:
                self.rpcs.fail(worker.index, reason)

    def ready_workers(self) -> list[int]:
        """Return the workers that may be sent calls: none once the pool is closing."""
        return [] if self._closing else [worker.index for worker in self.workers if worker.ready]

    def holding_workers(self) -> list[int]:
        """Return the workers with a slot that this process still reads."""
        return [worker.index for worker in list(self.workers) if worker.slots_in_use]

    def send(self, worker: int, message: m.ToWorker) -> None:
        """Send `message` to the worker that has the index `worker` now."""
        self.workers[worker].send(message)

    def describe(self, now: float) -> list[str]:
        """Return one line per worker for the log."""
        return [worker.describe(now) for worker in list(self.workers)]

    def reap(self, worker: WorkerHandle) -> tuple[str, str] | None:
        """Wait for a worker that has ended and close its descriptors.

        Returns its exit report and the end of its log, or None if the pool is closing.
        """
        worker.process.wait_or_kill(REAP_TIMEOUT_S)
        with self.lock:
            worker.ready = False
            report, tail = worker.exit_report(), worker.process.log_tail()
            worker.close()
            logger.info("%s; its log ends with:\n%s", report, tail)
            return None if self._closing or worker.retired else (report, tail)

    def replace(self, worker: WorkerHandle) -> None:
        """Start a replacement for a worker that was reaped. Raises OSError if it cannot be started."""
        with self.lock:
            if self._closing:
                return
            self.rpcs.fail(worker.index, WorkerDied(f"{worker.name} ended before it answered"))
            self.workers[worker.index] = self._start(worker.index)
            if self.model is not None:
                self._send_load(self.workers[worker.index], self.model)

    @property
    def is_closing(self) -> bool:
        """Whether `kill` or `shutdown` was called: no worker is replaced any more."""
        return self._closing

    def kill(self) -> None:
        """Kill the processes without replacing them. Takes no lock."""
        self._closing = True
        for worker in self.workers:
            worker.process.kill()

    def shutdown(self, timeout: float) -> bool:
        """End all processes and the pump; False if that was done before.

        Workers that were not killed get up to `timeout` seconds to finish the calls they were sent.
        """
        with self.lock:
            if self._closed:
                return False
            killed = self._closing
            self._closing = self._closed = True
            for worker in self.workers:
                if worker.ready and not killed:
                    worker.send(m.Shutdown())
                else:  # a worker that is still loading has no call to finish
                    worker.process.kill()
        deadline = time.monotonic() + timeout
        for worker in self.workers:
            worker.process.wait_or_kill(max(0.0, deadline - time.monotonic()))
        self._pump.stop()
        for worker in self.workers:
            worker.close()
        return True

    def _start(self, index: int) -> WorkerHandle:
        worker = start_worker(index, self._clock(), self._command)
        self._pump.watch(worker)
        return worker

    def _send_load(self, worker: WorkerHandle, model: ModelConfig) -> None:
        if worker.model is not None:
            worker.started_at = self._clock()
        worker.load_rpc_id, _ = self.rpcs.add(worker.index)
        worker.model, worker.ready = model, False
        worker.send(m.LoadModel(rpc_id=worker.load_rpc_id, worker=worker.index, model=model, engine=self._engine))
