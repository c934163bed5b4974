"""An output writer over a temporary folder, and a fake executor that answers when the test tells it to."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from omni_cli.batch import DiskRetry, Origin, OutputWriter
from omni_cli.config import ModelConfig, OutputConfig
from omni_cli.errors import RequestCancelled
from omni_cli.events import AnyEvent, Observer
from omni_cli.executor.protocol import Handle, Output, ignore
from omni_cli.request import Interval, ModelInfo, PlannedRequest, Result
from tests.factories import media_header

PATIENCE_S = 30.0
MODEL = ModelInfo(id="m", revision=None, pipeline="P", dtype="float32")


class OutputMemory:
    """Makes outputs, and knows which of them are not released yet."""

    def __init__(self) -> None:
        self.unreleased: list[str] = []
        self._lock = threading.Lock()

    def output(self, request: PlannedRequest, **fields: Any) -> Output:
        """Return grey 2x2 pictures, one per file of the request; picture n has the level 100 + n."""
        count = len(request.files)
        header = media_header((count, 1, 2, 2, 3))
        buffer = memoryview(b"".join(bytes([100 + n]) * 12 for n in range(count)))
        times = {"queued": Interval(1, 2), "forward": Interval(2, 5), "d2h": Interval(5, 6)}
        self.unreleased.append(request.id)
        return Output(
            **{"header": header, "buffer": buffer, "release": lambda: self._release(request.id), **times, **fields}
        )

    def _release(self, id_: str) -> None:
        with self._lock:
            self.unreleased.remove(id_)  # ValueError for a second release


class FakeExecutor:
    """An executor whose requests wait until `begin`, and stay open until `finish` or `fail`."""

    def __init__(self, memory: OutputMemory) -> None:
        self.memory = memory
        self.submitted: list[list[str]] = []
        self.handles: dict[str, Handle] = {}
        self.waiting: list[str] = []
        self.broken: Exception | None = None
        self.on_submit: Callable[[str], None] = lambda id_: None
        self.changed = threading.Condition()

    def submit(
        self,
        requests: Sequence[PlannedRequest],
        model: ModelConfig | None = None,
        expect: Callable[[Handle], object] = ignore,
    ) -> tuple[Handle, ...]:
        if self.broken is not None:
            raise self.broken
        handles = tuple(Handle(request, request.id) for request in requests)
        with self.changed:
            self.submitted.append([request.id for request in requests])
            self.handles.update({handle.planned.id: handle for handle in handles})
            self.waiting += [request.id for request in requests]
            self.changed.notify_all()
        for handle in handles:
            expect(handle)
        for request in requests:
            self.on_submit(request.id)
        return handles

    def cancel(self, handle: Handle | None = None) -> None:
        if handle is not None:
            if not handle.output_ready.done():
                handle.output_ready.set_exception(RequestCancelled("cancelled"))
            return
        for id_ in list(self.waiting):
            self.handles[id_].output_ready.cancel()
        with self.changed:
            self.waiting.clear()
            self.changed.notify_all()

    def begin(self, id_: str) -> None:
        """Begin the request's forward."""
        self.waiting.remove(id_)

    def finish(self, id_: str) -> None:
        """Resolve the request with an output."""
        if id_ in self.waiting:
            self.begin(id_)
        handle = self.handles[id_]
        handle.output_ready.set_result(self.memory.output(handle.planned))

    def fail(self, id_: str, error: Exception) -> None:
        """Resolve the request with an error."""
        if id_ in self.waiting:
            self.begin(id_)
        self.handles[id_].output_ready.set_exception(error)

    def wait_until_submitted(self, count: int) -> None:
        """Return once `count` calls are submitted."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.submitted) >= count, PATIENCE_S)

    def wait_until_nothing_waits(self) -> None:
        """Return once every request has begun or is cancelled."""
        with self.changed:
            assert self.changed.wait_for(lambda: not self.waiting, PATIENCE_S)


@pytest.fixture
def memory() -> OutputMemory:
    return OutputMemory()


@pytest.fixture
def executor(memory: OutputMemory) -> FakeExecutor:
    return FakeExecutor(memory)


@pytest.fixture
def rows() -> list[Result]:
    """The journal."""
    return []


@pytest.fixture
def events() -> list[AnyEvent]:
    """The emitted events."""
    return []


MakeWriter = Callable[..., OutputWriter]


@pytest.fixture
def make_writer(tmp_path: Path, rows: list[Result], events: list[AnyEvent]) -> MakeWriter:
    """Make an output writer with one thread over `root`, with these fields of OutputConfig."""

    def make(
        root: Path = tmp_path,
        *,
        append: Callable[[Result], None] = rows.append,
        observer: Observer = events.append,
        writers: int = 1,
        background: bool = False,
        disk: DiskRetry | None = None,
        rerender: bool = False,
        **config: Any,
    ) -> OutputWriter:
        return OutputWriter(
            OutputConfig(output_dir=str(root), **config),
            lambda request: Origin(MODEL),
            append,
            observer,
            writers=writers,
            background=background,
            disk=disk,
            rerender=rerender,
        )

    return make


@pytest.fixture
def writer(make_writer: MakeWriter) -> Iterator[OutputWriter]:
    with make_writer(writers=2) as writer:
        yield writer


def next_row(writer: OutputWriter) -> Result:
    """Wait for the next request to end with a row."""
    entry = writer.ended.get(timeout=PATIENCE_S)
    assert isinstance(entry, Result), entry
    return entry
