"""The cost of the engine itself: requests through a runner that makes 8x8 images at no cost of its own.

engine   submit ─> worker ─> OUTPUT_READY ─> released          the processes, the channel, the call queue
files    the same, plus a PNG, its fsync, its manifest row     what `run` does with every request
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

from omni_cli.bench.arms import ShowLine
from omni_cli.bench.engine_arm import OpenSession
from omni_cli.bench.machine import resident_bytes
from omni_cli.bench.stats import percentile
from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, RunConfig
from omni_cli.events import AnyEvent
from omni_cli.executor import make_executor
from omni_cli.executor.protocol import Executor, Handle, Output
from omni_cli.request import GenerationRequest, PlannedRequest
from omni_cli.trace import Timeline

RUNNER = "omni_cli.worker.null:NullRunner"
MODEL = ModelConfig(model="null", device="cpu")
SIDE = 8
"""Height and width of the images in pixels."""

WINDOW = 6
"""Calls that are open at a time, as in a run with one worker and one writer."""

WARM_REQUESTS = 1000
"""Requests after which memory growth is measured, or a tenth of all if that is less: what grows later is a leak."""


class EngineReport(msgspec.Struct, frozen=True, kw_only=True):
    """One path through the engine. p50 and p95 are of the time between the ends of two successive requests.

    `gap_ms` is the mean and `longest_gap_ms` the longest time between two forwards. Memory is the parent's resident
    memory.
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


def run_engine_bench(requests: int, open_session: OpenSession, show: ShowLine) -> list[EngineReport]:
    """Measure both paths, with and without async output, on `requests` requests each.

    Raises EngineError if one fails.
    """
    reports = []
    for path, run in (("engine", _run_executor), ("files", partial(_run_session, open_session))):
        for async_output in (True, False):
            recorder = _Recorder(requests)
            for _ in run(EngineConfig(runner=RUNNER, async_output=async_output), requests, recorder):
                recorder.request_ended()
            reports.append(recorder.report(path, async_output))
            show(f"{path}, {'async' if async_output else 'no-async'}: {reports[-1].ms_per_request:.2f} ms per request")
    return reports


class _Recorder:
    """An observer that records figures, the times at which requests end, and the parent's memory."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._timeline = Timeline()
        self._ends = array("d")
        self._warm_bytes: int | None = None

    def __call__(self, event: AnyEvent) -> None:
        self._timeline(event)

    def request_ended(self) -> None:
        """Record the end of one more request."""
        self._ends.append(time.monotonic())
        if len(self._ends) == min(WARM_REQUESTS, max(1, self._requests // 10)):
            self._warm_bytes = resident_bytes()

    def report(self, path: str, async_output: bool) -> EngineReport:
        """Return the report, once all requests have ended."""
        memory = resident_bytes()
        steps = [1000 * (later - earlier) for earlier, later in pairwise(self._ends)]
        figures = self._timeline.figures()
        # Device idle is the share of the gaps, one less than forwards, in the time from first to last forward.
        idle = figures.device_idle or 0.0
        mean_gap = figures.forward_seconds * idle / (1 - idle) / max(1, figures.forwards - 1)
        grown = None if memory is None or self._warm_bytes is None else (memory - self._warm_bytes) / 2**20
        return EngineReport(
            path=path,
            async_output=async_output,
            requests=self._requests,
            ms_per_request=sum(steps) / len(steps),
            p50_ms=percentile(steps, 0.5),
            p95_ms=percentile(steps, 0.95),
            gap_ms=1000 * mean_gap,
            longest_gap_ms=1000 * (figures.longest_gap or 0.0),
            memory_mib=None if memory is None else memory / 2**20,
            memory_grown_mib=grown,
        )


def _run_executor(engine: EngineConfig, count: int, recorder: _Recorder) -> Iterator[Handle]:
    """Run the engine without files; outputs are released as they arrive."""
    with make_executor(engine, recorder) as executor:
        executor.load(MODEL).loaded.result()
        yield from _submit_windowed(executor, _calls(count), WINDOW)


def _submit_windowed(executor: Executor, calls: Iterable[Sequence[PlannedRequest]], window: int) -> Iterator[Handle]:
    """Yield handles as their outputs arrive, with at most `window` requests open. Each output is released."""
    ended: SimpleQueue[Handle] = SimpleQueue()
    still_open = 0

    def put(handle: Handle, _: Future[Output]) -> None:
        ended.put(handle)

    def next_ended() -> Handle:
        handle = ended.get()
        handle.output_ready.result().release()
        return handle

    for call in calls:
        if still_open == window:
            yield next_ended()
            still_open -= 1
        handles = executor.submit(
            call, expect=lambda handle: handle.output_ready.add_done_callback(partial(put, handle))
        )
        still_open += len(handles)
    for _ in range(still_open):
        yield next_ended()


def _run_session(open_session: OpenSession, engine: EngineConfig, count: int, recorder: _Recorder) -> Iterator[object]:
    """Run everything of `omni-gen run` but the prompt file."""
    with tempfile.TemporaryDirectory(prefix="omni-gen-bench-") as folder:
        output = OutputConfig(output_dir=str(Path(folder) / "out"), overwrite=True)
        config = RunConfig(model=MODEL, engine=engine, output=output)
        with open_session(config, recorder, Timeline()) as session:
            session.open_folder()
            session.wait_until_loaded()
            yield from session.render(call[0] for call in _calls(count))


def _calls(count: int) -> Iterator[tuple[PlannedRequest]]:
    """Yield `count` calls of one request each, built on demand."""
    for number in range(count):
        name = f"{number:08d}"
        request = GenerationRequest(
            id=name, prompt="-", height=SIDE, width=SIDE, num_frames=1, num_outputs=1, format="png"
        )
        yield (
            PlannedRequest(request=request, index=number, seeds=(number,), files=(f"{name}.png",), fingerprint=name),
        )


def engine_table(reports: Sequence[EngineReport]) -> str:
    """Return the Markdown table."""
    head = "| Path | Requests | ms per request | p50 | p95 | Gap between forwards: mean, longest"
    lines = [f"{head} | Parent memory: now, grown |", "|---|---|---|---|---|---|---|"]
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
