"""The dispatcher: sends calls to workers that have room, and resolves the requests' futures from their messages.

    any thread
      submit ──> CallQueue.add ──> dispatch
      cancel ──> CallQueue.remove_... ──> futures, dispatch
      dispatch, under the pool's lock:
        CallQueue.take_next ── ExecuteModel, ExecuteStepwise ──> a worker
        CallQueue.model_to_load ── LoadModel ──> all workers

    the thread that pumps
      Started, Step   ──> CallQueue ──> observer
      ComputeDone     ──> CallQueue ──> compute_done, dispatch
      OutputPiece     ──> CallQueue ──> the request's frame stream
      OutputReady     ──> CallQueue ──> output_ready, dispatch
      StepOutput      ──> CallQueue freezes the deadline ──> StepController ── Proceed ──> the worker
      deadline        ──> CallQueue ──> kill the worker; its death follows
      worker's death  ──> CallQueue.requeue ──> RequestKilledWorker for exhausted requests

A worker has the next call in its inbox while one runs, so there is no round trip between two forwards. When the next
call needs another model, nothing is sent until all outputs of the sent calls have arrived; then all workers load it.
"""

import time
from collections.abc import Callable, Sequence

from omni_cli.child_process import with_log_tail
from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import ModelUnavailable, OmniGenError, OutputTimeout
from omni_cli.events import ForwardDone, ForwardStarted, ForwardStep, ModelSwitched, Note, Observer, OutputArrived
from omni_cli.executor.call import CallState, Removed, RequestEntry
from omni_cli.executor.call_queue import CallQueue
from omni_cli.executor.error_mapping import RequestKilledWorker, to_request_error, with_cause
from omni_cli.executor.forward_times import FACTOR, ForwardTimes
from omni_cli.executor.futures import cancel, cancel_and_notify, fail, set_result
from omni_cli.executor.outputs import SlotRelease, copy_latents, map_output, map_piece, to_output
from omni_cli.executor.protocol import Handle, OnPreview, PreviewImage
from omni_cli.executor.step_controller import StepController, StepEvent
from omni_cli.executor.worker_handle import WorkerHandle
from omni_cli.executor.worker_pool import WorkerPool
from omni_cli.log import logger
from omni_cli.notes import NoteFilter
from omni_cli.request import Interval, PlannedRequest
from omni_cli.transport import messages as m

INBOX_DEPTH = 2
"""How many calls a worker may have whose forward is not over: the running one and the next one."""


class Dispatcher:
    """All calls of an executor, in `queue`."""

    def __init__(
        self,
        engine: EngineConfig,
        pool: WorkerPool,
        new_id: Callable[[], int],
        observe: Observer,
        on_preview: OnPreview,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a dispatcher without calls. `clock` is for deadlines; events carry the time of `time.monotonic`."""
        self._engine = engine
        self._pool = pool
        self._observe = observe
        self._on_preview = on_preview
        self._note_filter = NoteFilter()
        self._paused = False
        self._retries = True
        self._forward_times = ForwardTimes(engine.forward_timeout)
        self._failed_models: dict[ModelConfig, OmniGenError] = {}
        self.queue = CallQueue(INBOX_DEPTH, engine.output_timeout, new_id, clock)

    # ── called from any thread ──

    def submit(
        self,
        requests: Sequence[PlannedRequest],
        step_controller: StepController | None = None,
        model: ModelConfig | None = None,
    ) -> tuple[Handle, ...]:
        """Queue one call. Raises the end reason once the executor has ended."""
        if step_controller is None and self._engine.step_execution:
            step_controller = StepController()
        self._retries = True
        handles = self.queue.add(requests, step_controller, model)
        if model in self._failed_models:
            self._fail_waiting(model)
        self.dispatch()
        return handles

    def cancel(self, handle: Handle | None = None) -> None:
        """Cancel one request, or every request whose forward has not begun.

        In the second case, calls of workers that die before the next submit are cancelled rather than run again.
        """
        if handle is None:
            self._retries = False
        self._cancel_removed(
            self.queue.remove_not_begun() if handle is None else self.queue.remove_request(handle.output_id)
        )

    def cancel_stepped(self) -> None:
        """Cancel the requests of paused or paced calls, which would not finish by themselves."""
        self._cancel_removed(self.queue.remove_stepped())

    def pause_dispatch(self, paused: bool) -> None:
        """Stop sending queued calls, or send them again."""
        with self._pool.lock:
            self._paused = paused
        self.dispatch()

    def dispatch(self) -> None:
        """Send as many waiting calls as the workers have room for, or make them load what the next call needs.

        Does neither while dispatch is paused.
        """
        cancelled: list[Handle] = []
        with self._pool.lock:
            while not self._paused:
                assignment = self.queue.take_next(self._pool.ready_workers(), self._pool.model)
                if assignment is None:
                    break
                cancelled += assignment.cancelled
                if assignment.message is not None:
                    self._pool.send(assignment.worker, assignment.message)
            model = None if self._paused else self.queue.model_to_load(self._pool.model)
            is_switch = model is not None and self._pool.has_model
            if model is not None:
                self._pool.load(model)
        for handle in cancelled:
            cancel_and_notify(handle.compute_done)
        if is_switch and model is not None:
            self._observe(ModelSwitched(at=time.monotonic(), model=model.title))

    def fail_model(self, model: ModelConfig, reason: OmniGenError) -> None:
        """Fail the requests that need `model`, queued and to come, and go on with the other calls."""
        self._failed_models[model] = reason
        with self._pool.lock:
            self._pool.model = None
        self._fail_waiting(model)
        self.dispatch()

    def close(self, reason: OmniGenError) -> None:
        """Refuse further calls and fail all requests that are left."""
        for entry in self.queue.close(reason):
            fail(entry.handle, reason)

    # ── called by the thread that pumps ──

    def on_started(self, worker: WorkerHandle, message: m.Started) -> None:
        """Start a call's forward timeout."""
        worker.executes_on = worker.executes_on._replace(threads=message.threads)
        limit = self._forward_times.limit(self.queue.shape(message.rpc_id))
        if ids := self.queue.mark_started(message.rpc_id, limit):
            self._observe(ForwardStarted(at=time.monotonic(), worker=worker.index, ids=ids))

    def on_step(self, worker: WorkerHandle, message: m.Step) -> None:
        """Report a finished denoising step."""
        if ids := self.queue.request_ids(message.rpc_id):
            step, total = message.step, message.total
            self._observe(ForwardStep(at=time.monotonic(), worker=worker.index, ids=ids, step=step, total=total))

    def on_step_output(self, worker: WorkerHandle, message: m.StepOutput, fds: list[int]) -> None:
        """Report a finished step whose worker waits, and ask the call's step controller for a decision.

        Does nothing if all requests of the call were cancelled: the worker has been sent a Cancel.
        """
        latents = copy_latents(worker, message, fds)
        if (call := self.queue.freeze_deadline(message.rpc_id)) is None:
            return
        step_controller, ids = call
        step = StepEvent(message.step, message.total, message.timestep, message.sigma, latents)
        self._observe(
            ForwardStep(
                at=time.monotonic(),
                worker=worker.index,
                ids=ids,
                step=step.step,
                total=step.total,
                timestep=step.timestep,
                sigma=step.sigma,
            )
        )

        def reply(stop: bool) -> None:
            self.queue.resume_deadline(message.rpc_id)
            worker.send(m.Proceed(rpc_id=message.rpc_id, step=message.step, stop=stop))
            self._pool.wake()  # the pump has a deadline to wait for again

        step_controller.on_step(message.rpc_id, step, reply)

    def on_preview(self, message: m.Preview) -> None:
        """Pass on the preview of an unfinished request."""
        if message.request_id in self.queue.request_ids(message.rpc_id):
            preview = PreviewImage(
                id=message.request_id,
                step=message.step,
                total=message.total,
                width=message.width,
                height=message.height,
                pixels=message.pixels,
                fault=message.fault,
            )
            self._on_preview(preview)

    def on_compute_done(self, worker: WorkerHandle, message: m.ComputeDone) -> None:
        """Resolve `compute_done` of a call's requests, or fail them, and send the next call."""
        if message.error is not None:
            for entry in self.queue.remove_failed(message.rpc_id):
                fail(entry.handle, to_request_error(message.error, entry.attempts))
        else:
            # Where kernels are only launched, the call's first output has the forward's time.
            ids = () if message.launched else self.queue.take_computed_ids(message.rpc_id)
            handles = self.queue.mark_computed(message.rpc_id, message.forward)
            if handles:
                self._forward_times.record(handles[0].planned.shape, message.forward.seconds)
            for handle in handles:
                set_result(handle.compute_done, message.forward)
            self._report_forward(worker, ids, message.forward)
        self.dispatch()

    def on_output_piece(self, worker: WorkerHandle, message: m.OutputPiece, fds: list[int]) -> None:
        """Pass on frames of a video, or release their slot if the request is over."""
        piece = map_piece(worker, message, fds)
        handle = self.queue.extend_deadline(message.async_output_id)
        if handle is None:
            piece.release()
        else:
            handle.frame_stream.put(piece)

    def on_output_ready(self, worker: WorkerHandle, message: m.OutputReady, fds: list[int]) -> bool:
        """Resolve `output_ready` of a request; False if the request is over, whose slot is released."""
        buffer, release = map_output(worker, message, fds)
        forward_ids = self.queue.take_forward_ids(message.async_output_id, has_failed=message.error is not None)
        entry = self.queue.remove_finished(message.async_output_id, message.d2h.start)
        if entry is None:
            release()
            return False
        try:
            if (forward := message.forward or entry.forward) is not None:
                self._report_forward(worker, forward_ids, forward)
        finally:  # the entry is out of the queue, so nobody else would resolve it
            if message.error is not None:
                release()
                fail(entry.handle, to_request_error(message.error, entry.attempts))
            else:
                self._deliver(worker, entry, message, buffer, release)
        self.dispatch()  # this may have been the last output before a call of another model
        return True

    def requeue(self, worker: WorkerHandle, report: str, log_tail: str) -> None:
        """Put the calls of a dead worker back into the queue, unless all were cancelled; fail the exhausted requests.

        `report` says how the worker ended, `log_tail` is the end of its log.
        """
        for entry in self.queue.requeue(worker.index):
            text = with_log_tail(f"given up after {entry.attempts} attempts; the last one: {report}", log_tail)
            kind = OutputTimeout if entry.is_late else RequestKilledWorker
            fail(entry.handle, kind(text, entry.attempts))
        if not self._retries:
            self._cancel_removed(self.queue.remove_not_begun())

    def on_deadline(self, now: float) -> None:
        """Kill the workers whose forward or output is over time, to be replaced; log the queue."""
        deadline = self.queue.next_deadline()
        if deadline is None or deadline > now:
            return
        lines = ("a deadline has passed; calls and workers:", *self.queue.describe(), *self._pool.describe(now))
        stuck = self.queue.take_stuck_workers(now, self._pool.holding_workers())
        if stuck:
            for line in lines:
                logger.warning("%s", line)  # shown on the terminal too
        for index, state in stuck.items():
            self._pool.workers[index].kill(f"was killed: {self._overdue(state)}")

    def shift_deadlines(self, seconds: float) -> None:
        """Move every deadline by the time in which this process did not run."""
        self.queue.shift_deadlines(seconds)

    def _overdue(self, state: CallState) -> str:
        """Return what did not happen in time to a call in `state`."""
        limit = f"{self._engine.output_timeout:g} s"
        match state:
            case CallState.COMPUTED:
                return f"no OUTPUT_READY within {limit} of COMPUTE_DONE or the output before"
            case CallState.SENT:
                return f"it did not start its next forward within {limit} of the one before"
            case _:
                timeout = self._engine.forward_timeout
                how = f"{FACTOR} times the slowest of its shape" if timeout == "auto" else f"{timeout} s"
                return f"a forward exceeded --forward-timeout of {how}"

    # ── inside ──

    def _cancel_removed(self, removed: Removed) -> None:
        """Cancel removed requests, and the sent calls that have no request left."""
        with self._pool.lock:
            for worker, rpc_id in removed.abandoned_calls:
                self._pool.send(worker, m.Cancel(rpc_id=rpc_id))
        for entry in removed.entries:
            cancel(entry.handle)
        self.dispatch()
        self._pool.wake()  # a thread in `pump_until` may wait for these requests

    def _report_forward(self, worker: WorkerHandle, ids: tuple[str, ...], forward: Interval) -> None:
        """Report the forward of the requests `ids`, unless there are none."""
        if ids:
            self._observe(ForwardDone(at=time.monotonic(), worker=worker.index, ids=ids, forward=forward))

    def _fail_waiting(self, model: ModelConfig) -> None:
        for entry in self.queue.remove_model(model).entries:
            reason = self._failed_models[model]
            fail(entry.handle, with_cause(ModelUnavailable(str(reason)), reason))

    def _deliver(
        self,
        worker: WorkerHandle,
        entry: RequestEntry,
        message: m.OutputReady,
        buffer: memoryview,
        release: SlotRelease,
    ) -> None:
        output = to_output(worker, entry, message, buffer, release)
        self._forward_times.record(entry.handle.planned.shape, output.forward.seconds)
        id_, now = entry.handle.planned.id, time.monotonic()
        try:
            moved = len(buffer) + message.piece_bytes
            copied = len(buffer) * message.host_copies
            arrived = OutputArrived(at=now, worker=worker.index, id=id_, d2h=message.d2h, bytes=moved, copied=copied)
            self._observe(arrived)
            for note in self._note_filter.news(message.notes):
                self._observe(Note(at=now, level="warning", text=f"{id_}: {note}"))
        finally:
            set_result(entry.handle.compute_done, output.forward)
            set_result(entry.handle.output_ready, output)
