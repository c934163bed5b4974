"""A desk over a temporary folder, and an executor that answers when the test says so."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from omni_cli.batch import Desk
from omni_cli.config import ModelConfig, OutputConfig
from omni_cli.errors import RequestCancelled
from omni_cli.events import AnyEvent
from omni_cli.executor.protocol import Handle, Output
from omni_cli.media import ColorModel, Kind, MediaHeader
from omni_cli.request import GenerationRequest, Interval, ModelInfo, PlannedRequest, Result

PATIENCE_S = 30.0
MODEL = ModelInfo(id="m", revision=None, pipeline="P", dtype="float32")


def planned(id_: str, *files: str, **fields: Any) -> PlannedRequest:
    """A picture of 2x2; one output per file."""
    names = files or (f"{id_}.png",)
    request = GenerationRequest(id=id_, format="png", num_outputs=len(names), **fields)
    return PlannedRequest(request=request, index=0, seeds=tuple(range(len(names))), files=names, fingerprint="f")


class Memory:
    """Outputs' memory: which are still held."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self._lock = threading.Lock()

    def output(self, request: PlannedRequest, **fields: Any) -> Output:
        """Grey pictures, one per file of the request."""
        count = len(request.files)
        header = MediaHeader(
            kind=Kind.IMAGE, dtype="uint8", shape=(count, 1, 2, 2, 3), color=ColorModel.RGB, value_range=(0.0, 255.0)
        )
        buffer = memoryview(b"".join(bytes([100 + n]) * 12 for n in range(count)))
        times = {"queued": Interval(1, 2), "forward": Interval(2, 5), "d2h": Interval(5, 6)}
        self.held.append(request.id)
        return Output(
            **{"header": header, "buffer": buffer, "release": lambda: self._release(request.id), **times, **fields}
        )

    def _release(self, id_: str) -> None:
        with self._lock:
            self.held.remove(id_)  # ValueError if it is given back twice


class FakeExecutor:
    """Behind the executor's protocol: requests are waiting until `begin`, open until `finish` or `fail`."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.submitted: list[list[str]] = []
        self.handles: dict[str, Handle] = {}
        self.waiting: list[str] = []
        self.broken: Exception | None = None
        self.on_submit: Callable[[str], None] = lambda id_: None
        self.changed = threading.Condition()

    def submit(self, requests: Sequence[PlannedRequest], model: ModelConfig | None = None) -> tuple[Handle, ...]:
        if self.broken is not None:
            raise self.broken
        handles = tuple(Handle(request, request.id) for request in requests)
        with self.changed:
            self.submitted.append([request.id for request in requests])
            self.handles.update({handle.planned.id: handle for handle in handles})
            self.waiting += [request.id for request in requests]
            self.changed.notify_all()
        for request in requests:
            self.on_submit(request.id)
        return handles

    def cancel_waiting(self) -> None:
        for id_ in list(self.waiting):
            self.handles[id_].output_ready.cancel()
        with self.changed:
            self.waiting.clear()
            self.changed.notify_all()

    def cancel(self, handle: Handle) -> None:
        if not handle.output_ready.done():
            handle.output_ready.set_exception(RequestCancelled("cancelled"))

    def begin(self, id_: str) -> None:
        """Its forward runs."""
        self.waiting.remove(id_)

    def finish(self, id_: str) -> None:
        """Its output is there."""
        if id_ in self.waiting:
            self.begin(id_)
        handle = self.handles[id_]
        handle.output_ready.set_result(self.memory.output(handle.planned))

    def fail(self, id_: str, error: Exception) -> None:
        """It ends with an error."""
        if id_ in self.waiting:
            self.begin(id_)
        self.handles[id_].output_ready.set_exception(error)

    def wait_until_submitted(self, count: int) -> None:
        """Return once so many calls were submitted."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.submitted) >= count, PATIENCE_S)

    def wait_until_nothing_waits(self) -> None:
        """Return once every request has begun or was given up."""
        with self.changed:
            assert self.changed.wait_for(lambda: not self.waiting, PATIENCE_S)


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def executor(memory: Memory) -> FakeExecutor:
    return FakeExecutor(memory)


@pytest.fixture
def rows() -> list[Result]:
    """What was journaled."""
    return []


@pytest.fixture
def events() -> list[AnyEvent]:
    """What was observed."""
    return []


@pytest.fixture
def desk(tmp_path: Path, rows: list[Result], events: list[AnyEvent]) -> Iterator[Desk]:
    with Desk(
        OutputConfig(output_dir=str(tmp_path)), lambda request: MODEL, rows.append, events.append, writers=2
    ) as desk:
        yield desk
