"""What the engine itself costs: requests through a runner that makes an 8x8 picture at once, so that nothing else is left.

engine   submit ─> worker ─> OUTPUT_READY ─> released          the processes, the channel, the books
files    the same and a PNG, its fsync, its manifest row       what `run` does with every request
"""

import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue

import msgspec

from omni_cli.bench.conduct import Say
from omni_cli.bench.engine_arm import OpenSession
from omni_cli.bench.machine import resident_bytes
from omni_cli.bench.stats import percentile
from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, RunConfig
from omni_cli.events import AnyEvent
from omni_cli.executor import make_executor
from omni_cli.executor.protocol import Executor, Handle, Output
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.trace import Figures, Timeline

RUNNER = "omni_cli.worker.null:NullRunner"
SIZE = 8
WINDOW = 6
"""Requests that are open at a time, as in a run with one worker and one writer."""

WARM = 1000
"""Memory is looked at after so many requests, or after a tenth if there are fewer: what comes later would be a leak."""


class EngineReport(msgspec.Struct, frozen=True, kw_only=True):
    """One way through the engine. p50 and p95 are of the time between two requests that end one after the other.

    The gap is between two forwards; `gap_ms` its mean, `longest_gap_ms` its maximum. Memory is the parent's, resident.
    """

    path: str
    async_output: bool
    requests: int
    ms_per_request: float
    p50_ms: float
    p95_ms: float
    gap_ms: float
    longest_gap_ms: float
    memory_mib: float | None
    memory_grown_mib: float | None


def run_engine_bench(requests: int, open_session: OpenSession, say: Say) -> list[EngineReport]:
    """Both paths, async and not, `requests` each."""
    reports = []
    for path, measure in (("engine", _Bare()), ("files", _WithFiles(open_session))):
        for async_output in (True, False):
            watch = _Watch(requests)
            for _ in measure(EngineConfig(runner=RUNNER, async_output=async_output), requests, watch):
                watch.finished()
            reports.append(watch.report(path, async_output))
            say(f"{path}, {'async' if async_output else 'no-async'}: {reports[-1].ms_per_request:.2f} ms per request")
    return reports


class _Watch:
    """An observer that keeps figures, the times at which requests end, and the parent's memory."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._timeline = Timeline()
        self._ends = array("d")
        self._early: int | None = None

    def __call__(self, event: AnyEvent) -> None:
        self._timeline(event)

    def finished(self) -> None:
        """One more request has ended."""
        self._ends.append(time.monotonic())
        if len(self._ends) == min(WARM, max(1, self._requests // 10)):
            self._early = resident_bytes()

    def report(self, path: str, async_output: bool) -> EngineReport:
        """What was seen, once all have ended."""
        memory = resident_bytes()
        steps = [1000 * (later - earlier) for earlier, later in pairwise(self._ends)]
        figures = self._timeline.figures()
        grown = None if memory is None or self._early is None else (memory - self._early) / 2**20
        return EngineReport(
            path=path,
            async_output=async_output,
            requests=self._requests,
            ms_per_request=sum(steps) / len(steps),
            p50_ms=percentile(steps, 0.5),
            p95_ms=percentile(steps, 0.95),
            gap_ms=1000 * _mean_gap(figures),
            longest_gap_ms=1000 * (figures.longest_gap or 0.0),
            memory_mib=None if memory is None else memory / 2**20,
            memory_grown_mib=grown,
        )


def _mean_gap(figures: Figures) -> float:
    """Seconds between two forwards: the idle share of the span from first to last, over the gaps in it."""
    idle = figures.device_idle or 0.0
    return figures.forward_seconds * idle / (1 - idle) / max(1, figures.forwards - 1)


class _Bare:
    """The engine without files: outputs are given back as they come."""

    def __call__(self, engine: EngineConfig, count: int, watch: _Watch) -> Iterator[Handle]:
        with make_executor(engine, watch) as executor:
            executor.load(ModelConfig(model="null", device="cpu")).loaded.result()
            yield from drive(executor, _planned(count), WINDOW)


def drive(executor: Executor, calls: Iterable[Sequence[PlannedRequest]], window: int) -> Iterator[Handle]:
    """Handles in the order in which their outputs arrive, at most `window` calls open; each output is released at once."""
    ended: SimpleQueue[Handle] = SimpleQueue()
    still_open = 0

    def take() -> Handle:
        handle = ended.get()
        handle.output_ready.result().release()
        return handle

    for call in calls:
        if still_open == window:
            yield take()
            still_open -= 1
        for handle in executor.submit(call):
            handle.output_ready.add_done_callback(partial(_put, ended, handle))
            still_open += 1
    for _ in range(still_open):
        yield take()


def _put(ended: SimpleQueue[Handle], handle: Handle, _: Future[Output]) -> None:
    ended.put(handle)


class _WithFiles:
    """The whole of `run` but the prompt file."""

    def __init__(self, open_session: OpenSession) -> None:
        self._open_session = open_session

    def __call__(self, engine: EngineConfig, count: int, watch: _Watch) -> Iterator[object]:
        with tempfile.TemporaryDirectory(prefix="omni-gen-bench-") as folder:
            config = RunConfig(
                model=ModelConfig(model="null", device="cpu"),
                engine=engine,
                output=OutputConfig(output_dir=str(Path(folder) / "out"), overwrite=True),
            )
            with self._open_session(config, watch, Timeline()) as session:
                session.hold()
                session.load()
                yield from session.render(call[0] for call in _planned(count))


def _planned(count: int) -> Iterator[tuple[PlannedRequest]]:
    """Calls of one request each, made as they are asked for."""
    for number in range(count):
        name = f"{number:08d}"
        request = GenerationRequest(
            id=name, prompt="-", height=SIZE, width=SIZE, num_frames=1, num_outputs=1, format="png"
        )
        yield (
            PlannedRequest(request=request, index=number, seeds=(number,), files=(f"{name}.png",), fingerprint=name),
        )


def engine_table(reports: Sequence[EngineReport]) -> str:
    """The Markdown table."""
    lines = [
        "| Path | Requests | ms per request | p50 | p95 | Gap between forwards: mean, longest | Parent memory: now, grown |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in reports:
        name = f"{r.path}, {'async' if r.async_output else 'no-async'}"
        memory = "-"
        if r.memory_mib is not None and r.memory_grown_mib is not None:
            memory = f"{r.memory_mib:.0f} MiB, {r.memory_grown_mib:+.1f} MiB"
        lines.append(
            f"| {name} | {r.requests} | {r.ms_per_request:.2f} | {r.p50_ms:.2f} | {r.p95_ms:.2f}"
            f" | {r.gap_ms:.2f} ms, {r.longest_gap_ms:.1f} ms | {memory} |"
        )
    return "\n".join(lines) + "\n"
