"""The local executor: worker processes on this machine, the same model on each at any time.

caller threads ── submit, cancel ──> Calls ── under the crew's lock ──> worker channels
pump thread    <── messages, deaths, deadlines ──> LocalExecutor ──> Calls ──> futures   (pure step mode: the caller's own)
writer threads ── Output.release ──> ReleaseSlot on that worker's channel

LocalExecutor   the surface, and what follows from a death: restart, or the end
  ├── Calls     requests from submit to their futures       └── Books   where each request is
  └── Crew      processes, channels, questions              └── Pump    the one thread that waits
"""

import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from omni_cli.config import EngineConfig, ModelConfig, check_engine
from omni_cli.errors import EngineError, OmniGenError, WorkerDied
from omni_cli.events import ModelLoading, ModelReady, Note, Observer
from omni_cli.executor.calls import Calls
from omni_cli.executor.crew import Crew
from omni_cli.executor.faults import load_error, remote_cause
from omni_cli.executor.link import Link, close_all
from omni_cli.executor.protocol import Handle, Loading, OnPreview, RpcMethod
from omni_cli.executor.settle import refuse, resolve
from omni_cli.executor.steering import Steering
from omni_cli.log import logger
from omni_cli.request import PlannedRequest
from omni_cli.transport import messages as m

CLOSE_TIMEOUT_S = 15.0
"""How long a worker may take to finish and leave: a little more than the drain of its outputs."""


class LocalExecutor:
    """Executor over `engine.workers` spawned worker processes."""

    def __init__(
        self,
        engine: EngineConfig,
        observer: Observer,
        command: tuple[str, ...] | None = None,
        on_preview: OnPreview = lambda preview: None,
    ) -> None:
        """Start the processes; they import torch while the caller goes on. `command` replaces the worker's program.

        Raises UsageError for settings that contradict each other.
        """
        check_engine(engine)
        self._engine = engine
        self._observe = observer
        self._loadings: dict[ModelConfig, Loading] = {}
        self._has_loaded = False
        self._deaths = 0  # since the last output
        ids = itertools.count(1)  # next() on it is atomic
        self._crew = Crew(engine, self, ids.__next__, command)
        self._calls = Calls(engine, self._crew, ids.__next__, observer, on_preview)
        self._crew.start()

    # ── what callers use ──

    def load(self, model: ModelConfig) -> Loading:
        """Load `model` on every worker; `loaded` resolves when all have it, or with the first error. Before the first submit."""
        loading = self._loadings.setdefault(model, Loading())
        self._crew.load(model)
        if self._calls.books.ended is not None:
            _refuse(loading, self._calls.books.ended)
        return loading

    def identify(self, model: ModelConfig) -> "Future[m.Loaded | None]":
        """Ask a worker what `model` is."""
        facts: Future[m.Loaded | None] = Future()
        answer = self._crew.identify(model)
        if self._calls.books.ended is not None:
            self._crew.lost(self._calls.books.ended)  # nobody listens any more
        answer.add_done_callback(lambda done: _pass_on(done, facts))
        return facts

    def submit(
        self, requests: Sequence[PlannedRequest], steering: Steering | None = None, model: ModelConfig | None = None
    ) -> tuple[Handle, ...]:
        """Queue one pipeline call for `requests`. Raises the executor's own end, if it has ended."""
        handles = self._calls.submit(requests, steering, model)
        if steering is None or not steering.waits:
            self.drive(lambda: all(handle.output_ready.done() for handle in handles))
        return handles

    def drive(self, until: Callable[[], bool]) -> None:
        """In pure step mode, listen to the workers on this thread until `until()`."""
        if self._engine.is_synchronous:
            self._crew.drive(until)

    def wake(self) -> None:
        """Let `drive` look at its condition."""
        self._crew.wake()

    def cancel(self, handle: Handle) -> None:
        """Give up a request; the worker is told if all requests of a sent call are given up."""
        self._calls.cancel(handle)

    def cancel_waiting(self) -> None:
        """Give up every request whose forward has not begun, in the books and in the workers' inboxes."""
        self._calls.cancel_waiting()

    def hold(self, held: bool) -> None:
        """Keep the calls that wait in the books there, or send them on."""
        self._calls.hold(held)

    def collective_rpc(self, method: RpcMethod) -> list[m.Health | bool | None]:
        """Ask every worker and wait for all answers, in worker order. Raises EngineError if one failed."""
        futures = self._crew.ask_all(method)
        if self._calls.books.ended is not None:
            self._crew.lost(self._calls.books.ended)  # nobody listens any more
        self.drive(lambda: all(future.done() for future in futures))
        results = [future.result() for future in futures]
        for result in results:
            if result.error is not None:
                raise EngineError(f"{method} failed: {result.error.message}") from remote_cause(result.error)
        return [result.health if result.health is not None else result.drained for result in results]

    def check_health(self) -> None:
        """Raise if the executor has ended: a worker is gone for good, or it was closed."""
        if self._calls.books.ended is not None:
            raise self._calls.books.ended

    def close(self) -> None:
        """Let the workers finish what they were sent, end them, fail what is left and what waits for somebody's word."""
        self._calls.cancel_held()
        self._end(CLOSE_TIMEOUT_S)

    def kill(self) -> None:
        """End the workers at once."""
        self._end(0.0)

    def kill_workers(self) -> None:
        """Kill the processes and nothing else; takes no lock."""
        self._crew.kill()

    def __enter__(self) -> Self:
        """The executor itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; at once if something went wrong."""
        self.close() if kind is None else self.kill()

    # ── what the pump calls ──

    def on_message(self, link: Link, message: m.FromWorker, fds: list[int]) -> None:
        """Deal with one message; unknown ones cannot be decoded and never come here."""
        link.heard_at = time.monotonic()
        if isinstance(message, m.OutputReady):
            if self._calls.on_output_ready(link, message, fds):
                self._deaths = 0
            return
        if isinstance(message, m.StepOutput):
            self._calls.on_step_output(link, message, fds)
            return
        if isinstance(message, m.OutputPiece):
            self._calls.on_output_piece(link, message, fds)
            return
        close_all(fds)
        match message:
            case m.Hello():
                pass
            case m.Loading(what=what):
                self._observe(ModelLoading(at=time.monotonic(), worker=link.index, what=what))
            case m.Identified(loaded=facts):
                if message.rpc_id == link.load_rpc and link.model in self._loadings:
                    resolve(self._loadings[link.model].identified, facts)
            case m.Started():
                self._calls.on_started(link, message)
            case m.Step():
                self._calls.on_step(link, message)
            case m.Preview():
                self._calls.on_preview(message)
            case m.ComputeDone():
                self._calls.on_compute_done(link, message)
            case m.RpcResult():
                self._crew.rpcs.answer(message)
                if message.rpc_id == link.load_rpc:
                    self._on_load_answer(link, message)

    def on_death(self, link: Link) -> None:
        """Requeue what the worker held and start another, or end the executor."""
        if (obituary := self._crew.bury(link)) is None or self._calls.books.ended is not None:
            return
        ending, tail = obituary
        self._deaths += 1
        if not self._has_loaded or self._deaths > self._engine.max_restarts:
            self._break(WorkerDied(f"{ending}; its log ends with:\n{tail}" if tail else f"{ending}; its log is empty"))
            return
        logger.info("%s; starting it again; its log ends with:\n%s", ending, tail)
        self._observe(Note(at=time.monotonic(), level="warning", text=f"{ending}; starting it again"))
        self._calls.on_lost(link, ending, tail)
        self._calls.dispatch()  # perhaps nothing is left that needs the model: its heir then loads the next one at once
        try:
            self._crew.replace(link)
        except OSError as error:
            self._break(EngineError(f"{ending} and cannot be started again: {error}"))
        self._calls.dispatch()

    def on_tick(self, now: float) -> None:
        """A deadline may have passed."""
        self._calls.on_tick(now)

    def next_deadline(self) -> float | None:
        """The earliest deadline of a forward or an output."""
        return self._calls.books.next_deadline()

    def on_fault(self, error: Exception) -> None:
        """A bug on this side: nothing can be trusted any more, and nobody may be left waiting."""
        reason = EngineError(f"the executor met a fault of its own: {type(error).__name__}: {error}")
        reason.__cause__ = error
        self._break(reason)

    # ── inside ──

    def _on_load_answer(self, link: Link, message: m.RpcResult) -> None:
        assert link.model is not None
        if message.loaded is None:
            nothing = EngineError("LoadModel was answered by nothing")
            self._on_load_failure(link.model, load_error(message.error) if message.error else nothing)
            return
        now, loaded = time.monotonic(), message.loaded
        loading = self._loadings.setdefault(link.model, Loading())
        with self._crew.lock:
            link.ready = True
            all_ready = all(other.ready for other in self._crew.links)
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
        resolve(loading.identified, loaded)
        if loading.identified.result() != loaded:
            self._break(
                EngineError(f"{link.name} has loaded another model than it said it would: was it being changed?")
            )
            return
        if all_ready:
            self._has_loaded = True
            resolve(loading.loaded, loaded)
        self._calls.dispatch()

    def _on_load_failure(self, model: ModelConfig, reason: OmniGenError) -> None:
        """The first model of a run is what it is about; without a later one, the requests of the others still go on."""
        if not self._has_loaded:
            self._break(reason)
            return
        self._observe(Note(at=time.monotonic(), level="error", text=f"the requests for {model.title} fail: {reason}"))
        if model in self._loadings:
            _refuse(self._loadings[model], reason)
        self._calls.refuse(model, reason)

    def _break(self, reason: OmniGenError) -> None:
        """The executor has ended: everything that waits is told why."""
        self._calls.end(reason)
        self._crew.lost(reason)
        for loading in list(self._loadings.values()):
            _refuse(loading, reason)

    def _end(self, timeout: float) -> None:
        if self._crew.end(timeout):
            self._break(EngineError("the executor is closed"))


def _refuse(loading: Loading, reason: OmniGenError) -> None:
    refuse(loading.identified, reason)
    refuse(loading.loaded, reason)


def _pass_on(done: "Future[m.RpcResult]", facts: "Future[m.Loaded | None]") -> None:
    """The answer to Identify, as what it tells or as the error that it carries."""
    lost = done.exception()
    if lost is not None:
        refuse(facts, lost)
    elif (error := done.result().error) is not None:
        refuse(facts, load_error(error))
    else:
        resolve(facts, done.result().loaded)
