"""The worker processes of an executor: started, spoken to, buried, replaced, ended.

One lock, `lock`, stands for "who is there and what was said to whom": whoever sends something whose order matters (a call
and its cancel, a call and the shutdown) holds it, and so does whoever replaces a worker.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import EngineError, OmniGenError, WorkerDied
from omni_cli.executor.launch import start_worker
from omni_cli.executor.link import Link, send
from omni_cli.executor.protocol import RpcMethod
from omni_cli.executor.pump import Handler, Pump
from omni_cli.executor.rpcs import Rpcs
from omni_cli.log import logger
from omni_cli.transport import messages as m

REAP_S = 1.0
"""How long a worker whose channel has ended may take to be gone."""


class Crew:
    """`engine.workers` worker processes and the pump that listens to them."""

    def __init__(
        self, engine: EngineConfig, handler: Handler, new_id: Callable[[], int], command: tuple[str, ...] | None
    ) -> None:
        """No process yet. `command` replaces the worker's program."""
        self.lock = threading.RLock()
        self.links: list[Link] = []
        self.rpcs = Rpcs(new_id)
        self._engine = engine
        self._command = command
        self.model: ModelConfig | None = None  # what every worker has loaded or is loading
        self._leaving = False
        self._pump = Pump(handler)
        self.wake = self._pump.wake
        self.drive = self._pump.drive

    def start(self) -> None:
        """Start the processes and the pump; in pure step mode no pump. Raises EngineError if a process cannot be started; none is left then."""
        try:
            for index in range(self._engine.workers):
                self.links.append(self._start(index))
        except OSError as error:
            self.end(0.0)
            raise EngineError(f"worker {len(self.links)} cannot be started: {error}") from error
        if not self._engine.is_synchronous:
            self._pump.start()

    def load(self, model: ModelConfig) -> None:
        """Let every worker load `model` in place of what it has, and those that will replace them. Nothing may be in flight."""
        with self.lock:
            self.model = model
            for link in self.links:
                self._send_load(link, model)  # one that is gone does not hear it: its heir is told

    @property
    def has_model(self) -> bool:
        """True once a worker was told to load something."""
        return any(link.model is not None for link in self.links)

    def identify(self, model: ModelConfig) -> Future[m.RpcResult]:
        """Ask the first worker what `model` is."""
        with self.lock:
            link = self.links[0]
            rpc_id, future = self.rpcs.ask(link.index)
            ask = m.Identify(rpc_id=rpc_id, worker=link.index, model=model, engine=self._engine)
            send(link.process.channel, ask)
            return future

    def ready(self) -> list[int]:
        """The workers that may be sent calls; none any more once the crew is leaving."""
        return [] if self._leaving else [link.index for link in self.links if link.ready]

    def lines(self, now: float) -> list[str]:
        """One line per worker, for the log."""
        return [link.line(now) for link in list(self.links)]

    def send(self, worker: int, message: m.ToWorker) -> None:
        """Send to whoever is worker number `worker` now."""
        send(self.links[worker].process.channel, message)

    def ask_all(self, method: RpcMethod) -> list[Future[m.RpcResult]]:
        """Ask every worker."""
        with self.lock:
            futures = []
            for link in self.links:
                rpc_id, future = self.rpcs.ask(link.index)
                futures.append(future)
                send(link.process.channel, m.Rpc(rpc_id=rpc_id, method=method))
            return futures

    def bury(self, link: Link) -> tuple[str, str] | None:
        """Give back what a worker held: how it ended and the end of its log; None if that was asked for."""
        link.process.end(REAP_S)
        with self.lock:
            link.ready = False
            ending = f"{link.name} {link.verdict or link.process.ending()}"
            tail = link.process.log_tail()
            link.views.close()
            link.process.dispose()
            logger.info("%s; its log ends with:\n%s", ending, tail)
            return None if self._leaving else (ending, tail)

    def replace(self, link: Link) -> None:
        """Start another worker in the place of one that was buried. Raises OSError."""
        with self.lock:
            if self._leaving:
                return
            self._lost(link)
            self.links[link.index] = self._start(link.index)
            if self.model is not None:
                self._send_load(self.links[link.index], self.model)

    def lost(self, reason: OmniGenError) -> None:
        """Nobody will answer any more."""
        with self.lock:
            for link in self.links:
                self.rpcs.lost(link.index, reason)

    def kill(self) -> None:
        """Kill the processes and nothing else; takes no lock."""
        for link in self.links:
            link.process.kill()

    def end(self, timeout: float) -> bool:
        """Let the workers finish what they were sent, at most `timeout` seconds; nothing is left. False if called before."""
        with self.lock:
            if self._leaving:
                return False
            self._leaving = True
            for link in self.links:
                # A worker that is still loading holds no request: nothing is worth waiting for.
                if timeout > 0 and link.ready:
                    send(link.process.channel, m.Shutdown())
                else:
                    link.process.kill()
        deadline = time.monotonic() + timeout
        for link in self.links:
            link.process.end(max(0.0, deadline - time.monotonic()))
        self._pump.stop()
        for link in self.links:  # of a crew that could not be started; the pump has buried the others
            link.process.dispose()
        return True

    def _start(self, index: int) -> Link:
        link = Link(index, start_worker(self._command), time.monotonic())
        self._pump.watch(link)
        return link

    def _lost(self, link: Link) -> None:
        self.rpcs.lost(link.index, WorkerDied(f"{link.name} ended before it answered"))

    def _send_load(self, link: Link, model: ModelConfig) -> None:
        if link.model is not None:
            link.started_at = time.monotonic()
        link.load_rpc, _ = self.rpcs.ask(link.index)
        link.model, link.ready = model, False
        load = m.LoadModel(rpc_id=link.load_rpc, worker=link.index, model=model, engine=self._engine)
        send(link.process.channel, load)
