"""The local executor: worker processes on this machine, all with the same model.

    parent process                                          │ worker process (one of N)
    ════════════════════════════════════════════════════════│═══════════════════════════════════════════════════════
    caller threads                                      Unix socket
      submit, cancel                                        │
        └─> Dispatcher ──> CallQueue (waiting, sent)        │
              └── ExecuteModel, Cancel ─────────────────────┼─> inbox thread ──> work queue, prefetch queue
                                                            │                     │            └─> inputs thread
    pump thread <──────────────── Started, ComputeDone ─────┼── main thread <─────┘                 reads input files
      waits for channels, sentinels, deadlines;             │     └─ forward pass ──> outbox queue
      calls LocalExecutor ──> Dispatcher, WorkerPool        │                          │
        ├─> Handle.compute_done                             │                          │
        └─> Handle.output_ready <────────── OutputReady ────┼── output thread <────────┘
              │                                             │     └─ uint8, copy into a slot
              ▼                                             │                  ▼
    writer threads                                          │
      read the frames in place <────────────────────── ring of slots in shared memory
      Output.release ── ReleaseSlot ────────────────────────┼─> inbox thread: the slot is free again

The pump thread resolves `compute_done`, `output_ready`, load handles and RPC results. There are two exceptions: a
thread that cancels a request ends that request's futures, and the thread that shuts the executor down fails what is
left. Both first take the requests out of the CallQueue, so each future is resolved once. In pure step mode there is no
pump thread: a caller's thread pumps in `submit` and `pump_until`.

    LocalExecutor   the interface, models, and what follows from a worker's death: a restart or the end
      ├── Dispatcher   calls, from submit to their futures     └── CallQueue   the state of every request
      └── WorkerPool   processes, channels, RPCs               └── Pump        the thread that waits
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from omni_cli.child_process import with_log_tail
from omni_cli.config import EngineConfig, ModelConfig, check_engine
from omni_cli.errors import EngineError, OmniGenError, RequestCancelled, WorkerDied
from omni_cli.events import ModelLoading, ModelReady, Note, Observer
from omni_cli.executor.dispatcher import Dispatcher
from omni_cli.executor.error_mapping import RemoteTraceback, changed_facts, to_load_error, with_cause
from omni_cli.executor.futures import set_exception, set_result
from omni_cli.executor.protocol import Executor, Handle, LoadHandle, OnFacts, OnPreview, RpcMethod, ignore
from omni_cli.executor.step_controller import StepController
from omni_cli.executor.worker_handle import WorkerHandle, close_fds
from omni_cli.executor.worker_pool import WorkerPool
from omni_cli.log import logger
from omni_cli.notes import MAX_KINDS
from omni_cli.request import ExecutedOn, PlannedRequest
from omni_cli.transport import messages as m

SHUTDOWN_TIMEOUT_S = 15.0
"""How long a worker may take to finish and exit: a little more than the drain of its outputs."""


class LocalExecutor(Executor):
    """Executor over spawned worker processes: `engine.workers` of them, or as many as `scale` asks for."""

    def __init__(
        self,
        engine: EngineConfig,
        observer: Observer,
        command: tuple[str, ...] | None = None,
        on_preview: OnPreview = lambda preview: None,
        on_facts: OnFacts = lambda model, facts: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the processes, which import torch while the caller goes on.

        `command` replaces the worker's program; `on_facts` is called with what a worker reports of the model that it
        loads, before and after it has read the weights; `clock`, in seconds, is what deadlines are measured with.

        Raises UsageError if settings contradict each other, EngineError if a process cannot be started.
        """
        check_engine(engine)
        self._engine = engine
        self._observe = observer
        self._on_facts = on_facts
        self._clock = clock
        self._load_handles: dict[ModelConfig, LoadHandle] = {}
        self._warnings: set[str] = set()
        self._has_loaded = False
        self._deaths = 0  # since the last output
        self._scalings: list[Future[None]] = []
        ids = itertools.count(1)  # next() on it is atomic
        self._pool = WorkerPool(engine, self, ids.__next__, command, clock)
        self._dispatcher = Dispatcher(engine, self._pool, ids.__next__, observer, on_preview, clock)
        self._pool.start()

    # ── Executor ──

    def load(self, model: ModelConfig) -> LoadHandle:
        """Load `model` on every worker. To be called before the first submit."""
        handle = self._load_handles.setdefault(model, LoadHandle())
        self._pool.load(model)
        if (reason := self._dispatcher.queue.end_reason) is not None:
            _fail_load(handle, reason)
        return handle

    def expect(self, model: ModelConfig, facts: m.Loaded) -> None:
        """End with an error if a worker reports other facts of `model` than `facts`."""
        set_result(self._load_handles.setdefault(model, LoadHandle()).identified, facts)

    def identify(self, model: ModelConfig) -> Future[m.Loaded | None]:
        """Ask the first worker for the facts of `model`."""
        facts: Future[m.Loaded | None] = Future()

        def resolve(answer: Future[m.RpcResult]) -> None:
            if (lost := answer.exception()) is not None:
                set_exception(facts, lost)
            elif (error := answer.result().error) is not None:
                set_exception(facts, to_load_error(error))
            else:
                set_result(facts, answer.result().loaded)

        answer = self._pool.identify(model)
        self._fail_rpcs_if_ended()
        answer.add_done_callback(resolve)
        return facts

    def submit(
        self,
        requests: Sequence[PlannedRequest],
        step_controller: StepController | None = None,
        model: ModelConfig | None = None,
        expect: Callable[[Handle], object] = ignore,
    ) -> tuple[Handle, ...]:
        """Queue one pipeline call; in pure step mode, run it. Raises the end reason once the executor has ended."""
        handles = self._dispatcher.submit(requests, step_controller, model)
        for handle in handles:
            expect(handle)
        if step_controller is None or not step_controller.waits:
            self.pump_until(lambda: all(handle.output_ready.done() for handle in handles))
        return handles

    def cancel(self, handle: Handle | None = None) -> None:
        """Cancel one request, or every request whose forward has not begun."""
        self._dispatcher.cancel(handle)

    def pause_dispatch(self, paused: bool) -> None:
        """Keep queued calls in the queue, or send them again."""
        self._dispatcher.pause_dispatch(paused)

    def pump_until(self, condition: Callable[[], bool]) -> None:
        """In pure step mode, handle worker messages on this thread until `condition()`."""
        if self._engine.is_synchronous:
            self._pool.pump_until(condition)

    def scale(self, workers: int, threads: int | None = None) -> Future[None]:
        """Start the workers that are missing, and set the intra-op threads of all."""
        scaled: Future[None] = Future()
        self._pool.scale(workers, threads)
        self._scalings.append(scaled)
        self._resolve_scalings()
        return scaled

    def collective_rpc(self, method: RpcMethod) -> list[m.Health | bool | None]:
        """Call `method` on every worker and return the answers in worker order.

        Raises EngineError if a call failed, WorkerDied if a worker died, and the end reason once the executor has
        ended.
        """
        futures = self._pool.call_all(method)
        self._fail_rpcs_if_ended()
        self.pump_until(lambda: all(future.done() for future in futures))
        results = [future.result() for future in futures]
        for result in results:
            if result.error is not None:
                cause = RemoteTraceback(result.error.traceback)
                raise EngineError(f"{method} failed: {result.error.message}") from cause
        return [result.health if result.health is not None else result.drained for result in results]

    def abort(self) -> None:
        """Kill the workers and cancel every request whose output has not arrived."""
        self._pool.kill()
        self._end(RequestCancelled("the run was stopped while it was in the making"))

    def shutdown(self, wait: bool = True) -> None:
        """End the workers: with `wait` after the calls they were sent, else by killing them without taking a lock."""
        if not wait:
            self._pool.kill()
            return
        if not self._pool.is_closing:
            self._dispatcher.cancel_stepped()
        if self._pool.shutdown(SHUTDOWN_TIMEOUT_S):
            self._end(EngineError("the executor is closed"))

    # ── pump.Handler ──

    def on_message(self, worker: WorkerHandle, message: m.FromWorker, fds: list[int]) -> None:
        """Handle one message. Raises ProtocolError if the worker must not send it now."""
        worker.last_message_at = self._clock()
        match message:
            case m.OutputReady():
                if self._dispatcher.on_output_ready(worker, message, fds):
                    self._deaths = 0
                return
            case m.StepOutput():
                self._dispatcher.on_step_output(worker, message, fds)
                return
            case m.OutputPiece():
                self._dispatcher.on_output_piece(worker, message, fds)
                return
        close_fds(fds)  # no other message carries descriptors
        match message:
            case m.Hello():
                pass
            case m.LoadProgress(what=what):
                self._observe(ModelLoading(at=time.monotonic(), worker=worker.index, what=what))
            case m.Warned(text=text):
                self._on_warning(worker, text)
            case m.Identified(loaded=facts):
                if message.rpc_id == worker.load_rpc_id and worker.model is not None:
                    self._check_facts(worker, worker.model, facts)
            case m.Started():
                worker.process.trim_log()
                self._dispatcher.on_started(worker, message)
            case m.Step():
                self._dispatcher.on_step(worker, message)
            case m.Preview():
                self._dispatcher.on_preview(message)
            case m.ComputeDone():
                self._dispatcher.on_compute_done(worker, message)
            case m.RpcResult():
                self._pool.rpcs.resolve(message)
                if message.rpc_id == worker.load_rpc_id:
                    self._on_load_result(worker, message)

    def on_exit(self, worker: WorkerHandle) -> None:
        """Requeue the calls of a dead worker and start its replacement, or end the executor after too many deaths.

        An exit during the load of the first model ends the executor at once, unless a signal from outside caused it.
        """
        was_ready = worker.ready
        if (reaped := self._pool.reap(worker)) is None or self._dispatcher.queue.end_reason is not None:
            return
        report, log_tail = reaped
        if self._is_extra(worker) and not was_ready:
            self._give_up(worker, with_log_tail(report, log_tail))
            return
        self._deaths += 1
        may_recover = self._has_loaded or (worker.model is not None and worker.was_killed_by_system)
        if not may_recover or self._deaths > self._engine.max_restarts:
            self._end(WorkerDied(with_log_tail(report, log_tail)))
            return
        self._observe(Note(at=time.monotonic(), level="warning", text=f"{report}; starting it again"))
        self._dispatcher.requeue(worker, report, log_tail)
        self._dispatcher.dispatch()  # if no call needs the model any more, the replacement loads the next one at once
        try:
            self._pool.replace(worker)
        except OSError as error:
            self._end(EngineError(f"{report} and cannot be started again: {error}"))
        self._dispatcher.dispatch()

    def on_deadline(self, now: float) -> None:
        """Handle overdue forwards and outputs."""
        self._dispatcher.on_deadline(now)

    def on_gap(self, seconds: float) -> None:
        """Leave time in which this process did not run out of every deadline."""
        self._dispatcher.shift_deadlines(seconds)

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of a forward or an output, in seconds on the executor's clock."""
        return self._dispatcher.queue.next_deadline()

    def on_internal_error(self, error: Exception) -> None:
        """End the executor, so that nobody waits for a result that a bug has lost."""
        reason = EngineError(f"internal error in the executor: {type(error).__name__}: {error}")
        self._end(with_cause(reason, error))

    # ── inside ──

    def _on_warning(self, worker: WorkerHandle, text: str) -> None:
        """Log a worker's warning, and show it unless another worker has given the same one."""
        logger.info("%s: %s", worker.name, text)
        if text not in self._warnings and len(self._warnings) < MAX_KINDS:
            self._warnings.add(text)
            self._observe(Note(at=time.monotonic(), level="warning", text=text))

    def _on_load_result(self, worker: WorkerHandle, message: m.RpcResult) -> None:
        """Mark the worker ready, or fail the model."""
        assert worker.model is not None
        if message.loaded is None:
            nothing = EngineError("LoadModel: expected facts or an error, got neither")
            reason = to_load_error(message.error) if message.error else nothing
            if self._is_extra(worker):
                self._give_up(worker, str(reason))
            else:
                self._on_load_failure(worker.model, reason)
            return
        now, loaded = time.monotonic(), message.loaded
        handle = self._load_handles.setdefault(worker.model, LoadHandle())
        worker.executes_on = ExecutedOn(loaded.device)
        with self._pool.lock:
            worker.ready = True
            all_ready = all(other.ready for other in self._pool.workers[: self._engine.least_workers])
        self._observe(
            ModelReady(
                at=now,
                worker=worker.index,
                pipeline=loaded.info.pipeline,
                device=loaded.device,
                dtype=loaded.info.dtype,
                seconds=self._clock() - worker.started_at,
            )
        )
        if not self._check_facts(worker, worker.model, loaded):
            return
        self._resolve_scalings()
        if all_ready:
            self._has_loaded = True
            set_result(handle.loaded, loaded)
        self._dispatcher.dispatch()

    def _check_facts(self, worker: WorkerHandle, model: ModelConfig, facts: m.Loaded) -> bool:
        """Return True if `facts` are those that are known of `model`; end the executor and return False if not."""
        self._on_facts(model, facts)
        identified = self._load_handles.setdefault(model, LoadHandle()).identified
        set_result(identified, facts)
        changes = "" if identified.exception() is not None else changed_facts(identified.result(), facts)
        if changes:
            self._end(EngineError(f"{worker.name} {changes}"))
        return not changes

    def _is_extra(self, worker: WorkerHandle) -> bool:
        """Return whether `worker` was added by `scale`: the run can go on without it."""
        return worker.index >= self._engine.least_workers

    def _give_up(self, worker: WorkerHandle, reason: str) -> None:
        """Go on without a worker that was added by `scale` and cannot load the model."""
        self._pool.retire(worker)
        self._observe(Note(at=time.monotonic(), level="warning", text=f"worker {worker.index} is given up: {reason}"))
        self._resolve_scalings()

    def _resolve_scalings(self) -> None:
        """Tell those who wait for new workers that none is loading any more, if so."""
        ended = self._dispatcher.queue.end_reason is not None
        if ended or all(worker.ready for worker in self._pool.active):
            while self._scalings:
                with contextlib.suppress(IndexError):  # another thread took it
                    set_result(self._scalings.pop(), None)

    def _on_load_failure(self, model: ModelConfig, reason: OmniGenError) -> None:
        """End the executor if it is its first model; otherwise fail the requests of `model` only."""
        if not self._has_loaded:
            self._end(reason)
            return
        self._observe(Note(at=time.monotonic(), level="error", text=f"the requests for {model.title} fail: {reason}"))
        if model in self._load_handles:
            _fail_load(self._load_handles[model], reason)
        self._dispatcher.fail_model(model, reason)

    def _fail_rpcs_if_ended(self) -> None:
        """Fail RPCs that were sent after the end, which no worker answers."""
        if (reason := self._dispatcher.queue.end_reason) is not None:
            self._pool.fail_rpcs(reason)

    def _end(self, reason: OmniGenError) -> None:
        """End the executor: fail everything that waits."""
        self._dispatcher.close(reason)
        self._resolve_scalings()
        self._pool.fail_rpcs(reason)
        for handle in list(self._load_handles.values()):
            _fail_load(handle, reason)


def _fail_load(handle: LoadHandle, reason: OmniGenError) -> None:
    set_exception(handle.identified, reason)
    set_exception(handle.loaded, reason)
