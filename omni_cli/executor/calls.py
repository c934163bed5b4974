"""The walk of the calls: out to the workers that have room, and back as futures that are settled.

    submit ─> books ─> dispatch ── ExecuteModel ──> worker          any thread, under the crew's lock
    Started, Step, ComputeDone, OutputReady ──> books ──> futures   the pump's thread
    OutputPiece ──> books ──> the request's feed                    the pump's thread
    StepOutput ──> books: time stands still ──> steering ── Proceed ──> worker   the pump's thread, or whoever decides

A worker always has the next call in its inbox while one runs, so no round trip stands between two forwards. When the next call
needs another model, nothing more is sent until every output of what was sent has come; then all workers load it.
"""

import time
from collections.abc import Callable, Sequence

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import ModelUnavailable, OmniGenError, OutputTimeout
from omni_cli.events import ForwardDone, ForwardStarted, ForwardStep, ModelSwitched, Note, Observer, OutputReady
from omni_cli.executor.books import Books
from omni_cli.executor.call import Entry, GivenUp
from omni_cli.executor.crew import Crew
from omni_cli.executor.faults import PoisonousRequest, request_error
from omni_cli.executor.link import Link, send
from omni_cli.executor.outputs import Release, make_output, make_piece, news, payload, take_latents
from omni_cli.executor.protocol import Handle, OnPreview, Preview
from omni_cli.executor.settle import cancel, fail, resolve, withdraw
from omni_cli.executor.steering import Steering, Step
from omni_cli.log import logger
from omni_cli.request import PlannedRequest
from omni_cli.transport import messages as m

INBOX_DEPTH = 2
"""The running call and the next one."""


class Calls:
    """All calls of an executor."""

    def __init__(
        self, engine: EngineConfig, crew: Crew, new_id: Callable[[], int], observe: Observer, on_preview: OnPreview
    ) -> None:
        """No call yet."""
        self._engine = engine
        self._crew = crew
        self._observe = observe
        self._held = False
        self._on_preview = on_preview
        self._refused: dict[ModelConfig, OmniGenError] = {}
        self.books = Books(INBOX_DEPTH, new_id)

    # ── what callers ask ──

    def submit(
        self, requests: Sequence[PlannedRequest], steering: Steering | None = None, model: ModelConfig | None = None
    ) -> tuple[Handle, ...]:
        """Queue one call, for `model`. Raises the reason once the executor has ended."""
        if steering is None and self._engine.step_execution:
            steering = Steering()
        handles = self.books.add(requests, steering, model)
        if model in self._refused:
            self._fail_for_lack_of(model)
        self.dispatch()
        return handles

    def cancel(self, handle: Handle) -> None:
        """Give up one request."""
        self._settle_given_up(self.books.give_up(handle.output_id))

    def cancel_waiting(self) -> None:
        """Give up every request whose forward has not begun."""
        self._settle_given_up(self.books.give_up_not_begun())

    def hold(self, held: bool) -> None:
        """Send nothing from now on, or all that may be sent."""
        with self._crew.lock:
            self._held = held
        self.dispatch()

    def cancel_held(self) -> None:
        """Give up what goes on only when somebody lets it: nobody will any more."""
        self._settle_given_up(self.books.give_up_held())

    def dispatch(self) -> None:
        """Send as many waiting calls as the workers' inboxes have room for; let them load what the next one needs.

        Nothing of either while calls are held.
        """
        cancelled: list[Handle] = []
        with self._crew.lock:
            while not self._held and (step := self.books.take_next(self._crew.ready(), self._crew.model)) is not None:
                cancelled += step.cancelled
                if step.message is not None:
                    self._crew.send(step.worker, step.message)
            wanted = None if self._held else self.books.wanted(self._crew.model)
            switched = wanted is not None and self._crew.has_model
            if wanted is not None:
                self._crew.load(wanted)
        for handle in cancelled:
            withdraw(handle.compute_done)
        if switched and wanted is not None:
            self._observe(ModelSwitched(at=time.monotonic(), model=wanted.title))

    def refuse(self, model: ModelConfig, reason: OmniGenError) -> None:
        """`model` cannot be loaded: the requests that need it fail, now and later; the next ones get theirs."""
        self._refused[model] = reason
        with self._crew.lock:
            self._crew.model = None
        self._fail_for_lack_of(model)
        self.dispatch()

    def end(self, reason: OmniGenError) -> None:
        """No more calls: everything that waits is told why."""
        for entry in self.books.close(reason):
            fail(entry.handle, reason)

    # ── what workers say ──

    def on_started(self, link: Link, message: m.Started) -> None:
        """The forward of a call has begun."""
        if ids := self.books.started(message.rpc_id, self._engine.forward_timeout):
            self._observe(ForwardStarted(at=time.monotonic(), worker=link.index, ids=ids))

    def on_step(self, link: Link, message: m.Step) -> None:
        """A step of the running call is done."""
        if ids := self.books.ids(message.rpc_id):
            step, total = message.step, message.total
            self._observe(ForwardStep(at=time.monotonic(), worker=link.index, ids=ids, step=step, total=total))

    def on_step_output(self, link: Link, message: m.StepOutput, fds: list[int]) -> None:
        """A step is done and its worker waits. One that nobody wants any more has its Cancel already."""
        latents = take_latents(link, message, fds)
        if (found := self.books.hold(message.rpc_id)) is None:
            return
        steering, ids = found
        step = Step(message.step, message.total, message.timestep, message.sigma, latents)
        self._observe(
            ForwardStep(
                at=time.monotonic(),
                worker=link.index,
                ids=ids,
                step=step.step,
                total=step.total,
                timestep=step.timestep,
                sigma=step.sigma,
            )
        )
        steering.arrived(message.rpc_id, step, lambda stop: self._proceed(link, message, stop))

    def on_preview(self, message: m.Preview) -> None:
        """A picture of a request that is at work."""
        if message.request_id in self.books.ids(message.rpc_id):
            fields = {name: getattr(message, name) for name in ("step", "total", "width", "height", "pixels", "fault")}
            self._on_preview(Preview(message.request_id, **fields))

    def on_compute_done(self, link: Link, message: m.ComputeDone) -> None:
        """A call's forward is over: there is room for the next one."""
        if message.error is not None:
            for entry in self.books.failed(message.rpc_id):
                fail(entry.handle, request_error(message.error, entry.attempts))
        elif handles := self.books.computed(message.rpc_id, message.forward, self._engine.output_timeout):
            for handle in handles:
                resolve(handle.compute_done, message.forward)
            if not message.launched:
                ids = tuple(handle.planned.id for handle in handles)
                self._observe(ForwardDone(at=time.monotonic(), worker=link.index, ids=ids, forward=message.forward))
        self.dispatch()

    def on_output_piece(self, link: Link, message: m.OutputPiece, fds: list[int]) -> None:
        """Frames of a running request's video; if nobody waits for them any more, their slot goes back at once."""
        piece = make_piece(link, message, fds)
        handle = self.books.progressed(message.async_output_id, self._engine.forward_timeout)
        if handle is None:
            piece.release()
        else:
            handle.feed.put(piece)

    def on_output_ready(self, link: Link, message: m.OutputReady, fds: list[int]) -> bool:
        """A request's output is in host memory; False if nobody waits for it any more: its slot goes back at once."""
        buffer, release = payload(link, message, fds)
        entry = self.books.finish(message.async_output_id, message.d2h.start)
        if entry is None:
            release()
            return False
        if message.error is not None:
            release()
            fail(entry.handle, request_error(message.error, entry.attempts))
        else:
            self._deliver(link, entry, message, buffer, release)
        self.dispatch()  # the last output before another model
        return True

    def on_lost(self, link: Link, ending: str, tail: str) -> None:
        """A worker is gone: what it held goes back into the queue, or fails where that is hopeless."""
        for entry in self.books.worker_died(link.index):
            tries = f"given up after {entry.attempts} attempts; the last one: {ending}"
            text = f"{tries}; its log ends with:\n{tail}" if tail else tries
            fail(entry.handle, PoisonousRequest(text, entry.attempts))

    def on_tick(self, now: float) -> None:
        """Fail requests whose output has not come in time, kill workers whose forward does not end; log the books."""
        deadline = self.books.next_deadline()
        if deadline is None or deadline > now:
            return
        for line in ("a deadline has passed; the executor's books:", *self.books.lines(), *self._crew.lines(now)):
            logger.warning("%s", line)  # to the log file and to the person at the terminal
        for worker in self.books.take_stuck(now):
            allowed = self._engine.forward_timeout
            self._crew.links[worker].condemn(f"was killed: a forward went past the forward timeout of {allowed} s")
        for entry in self.books.take_late(now):
            waited = f"no OUTPUT_READY within {self._engine.output_timeout:g} s of COMPUTE_DONE"
            fail(entry.handle, OutputTimeout(f"{waited}; the log has the executor's books", entry.attempts))
        self.dispatch()

    # ── inside ──

    def _proceed(self, link: Link, message: m.StepOutput, stop: bool) -> None:
        """The decision on a step; a worker that is gone by now, or a call that is over, has no use for it."""
        self.books.go_on(message.rpc_id)
        send(link.process.channel, m.Proceed(rpc_id=message.rpc_id, step=message.step, stop=stop))
        self._crew.wake()  # the call has a deadline again

    def _settle_given_up(self, given_up: GivenUp) -> None:
        """End these requests as cancelled; a call that nobody waits for any more is cancelled in its worker."""
        with self._crew.lock:
            for worker, rpc_id in given_up.orphans:
                self._crew.send(worker, m.Cancel(rpc_id=rpc_id))
        for entry in given_up.entries:
            cancel(entry.handle)
        self.dispatch()
        self._crew.wake()  # whoever drives may have waited for just these

    def _fail_for_lack_of(self, model: ModelConfig) -> None:
        for entry in self.books.give_up_model(model).entries:
            error = ModelUnavailable(str(self._refused[model]))
            error.__cause__ = self._refused[model]
            fail(entry.handle, error)

    def _deliver(self, link: Link, entry: Entry, message: m.OutputReady, buffer: memoryview, release: Release) -> None:
        output = make_output(link, entry, message, buffer, release)
        id_, now = entry.handle.planned.id, time.monotonic()
        try:
            if message.forward is not None or not entry.handle.compute_done.done():
                # The device's own time of the forward, or an output that has overtaken its COMPUTE_DONE.
                self._observe(ForwardDone(at=now, worker=link.index, ids=(id_,), forward=output.forward))
            moved = len(buffer) + message.piece_bytes
            copied = len(buffer) * message.host_copies
            self._observe(OutputReady(at=now, worker=link.index, id=id_, d2h=message.d2h, bytes=moved, copied=copied))
            for note in news(message.notes):
                self._observe(Note(at=now, level="warning", text=f"{id_}: {note}"))
        finally:  # the entry is out of the books: nobody else would settle it
            resolve(entry.handle.compute_done, output.forward)
            resolve(entry.handle.output_ready, output)
