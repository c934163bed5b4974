"""Questions to workers that are not answered yet."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from omni_cli.errors import OmniGenError, ProtocolError
from omni_cli.executor.settle import refuse, resolve
from omni_cli.transport.messages import RpcResult


class Rpcs:
    """Futures by rpc id. Callers ask; the pump answers, or tells that the worker is gone."""

    def __init__(self, new_id: Callable[[], int]) -> None:
        """`new_id` gives ids that are never used twice."""
        self._new_id = new_id
        self._lock = threading.Lock()
        self._open: dict[int, tuple[int, Future[RpcResult]]] = {}

    def ask(self, worker: int) -> tuple[int, Future[RpcResult]]:
        """The id under which `worker` will answer, and the answer."""
        rpc_id, future = self._new_id(), Future[RpcResult]()
        with self._lock:
            self._open[rpc_id] = (worker, future)
        return rpc_id, future

    def answer(self, result: RpcResult) -> None:
        """The answer came. Raises ProtocolError if nobody asked."""
        with self._lock:
            _, future = self._open.pop(result.rpc_id, (None, None))
        if future is None:
            raise ProtocolError(f"an answer to rpc {result.rpc_id}, which was not asked")
        resolve(future, result)

    def lost(self, worker: int, error: OmniGenError) -> None:
        """The answers of this worker will not come."""
        with self._lock:
            gone = {rpc_id: future for rpc_id, (asked, future) in self._open.items() if asked == worker}
            for rpc_id in gone:
                del self._open[rpc_id]
        for future in gone.values():
            refuse(future, error)
