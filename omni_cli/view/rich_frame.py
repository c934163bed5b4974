"""One frame of the live view: a pure function of a snapshot and the size of the terminal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from omni_cli.view.snapshot import RunSnapshot
from omni_cli.view.tracks import DIM, draw_axis, draw_track, forward_style
from omni_cli.view.wording import cut, cut_middle, duration, fit, percent, rate
from omni_cli.view.workers import Block, RequestInFlight, WorkerPhase, WorkerState

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
GREEN, RED, BOLD = Style.parse("green"), Style.parse("red"), Style.parse("bold")

_Track = tuple[str, tuple[WorkerPhase, ...]]
_FORWARD: _Track = ("▶ forward", (WorkerPhase.FORWARD,))
_TRACKS: tuple[tuple[_Track, ...], ...] = (
    (_FORWARD, ("⇣ D2H", (WorkerPhase.D2H,)), ("✎ encode", (WorkerPhase.ENCODE,))),
    (_FORWARD, ("⇣ output", (WorkerPhase.ENCODE, WorkerPhase.D2H))),
    (_FORWARD,),
)
"""Label and phases of a worker's tracks, from the most detail to the least."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """A snapshot and the space to draw it in: widths and height are cells, `window` is the seconds that tracks show."""

    run: RunSnapshot
    width: int
    height: int
    window: float
    colour: bool
    number_width: int
    label_width: int
    name_width: int
    progress_width: int
    track_width: int


def draw_frame(run: RunSnapshot, *, width: int, height: int, window: float, colour: bool) -> Text:
    """Draw lines that fit `width` x `height` cells: the progress bar, then tracks of as many workers as fit."""
    layout = _layout(run, max(1, width - 1), height, window, colour)  # some terminals wrap after the last column
    lines = [_progress_line(layout)]
    if height > 5:
        lines.insert(0, _title(layout))
    if height > 12:
        lines.insert(0, Text())
    lines += _worker_lines(layout, height - 1 - len(lines))
    for line in lines:
        line.truncate(layout.width)
    return Text("\n", no_wrap=True, overflow="crop", end="").join(lines[: max(1, height - 1)])


def _layout(run: RunSnapshot, width: int, height: int, window: float, colour: bool) -> _Layout:
    number = max((len(str(worker.number)) + 1 for worker in run.workers), default=0)
    number = number if len(run.workers) > 1 else 0
    label, progress = (10, 12) if width >= 60 else (2, 6) if width >= 34 else (2, 0)
    rest = width - number - label - progress
    name = max(8, min(28, rest // 3))
    track = rest - name - 1
    if track < 8:
        name, track = max(0, rest), 0
    return _Layout(run, width, height, window, colour, number, label, name, progress, track)


def _title(layout: _Layout) -> Text:
    run = layout.run
    devices = {worker.device for worker in run.workers if worker.device}
    parts = [run.model, *(devices if len(devices) == 1 else [])]
    return Text.assemble(("omni-gen ", BOLD), (cut(" · ".join(filter(None, parts)), layout.width - 9), DIM))


def _progress_line(layout: _Layout) -> Text:
    run = layout.run
    parts = [
        (f"{run.finished}/{run.total}" if run.total is not None else f"{run.finished}", BOLD),
        (f"{run.figures.failed} failed" if run.figures.failed else "", RED),
        (f"{run.figures.cancelled} cancelled" if run.figures.cancelled else "", DIM),
        (rate(run.per_second) if run.per_second else "", Style.null()),
        (f"ETA {duration(run.eta)}" if run.eta is not None else "", Style.null()),
        ("stopping" if run.stopping and run.end is None else "", BOLD),
    ]
    status = Text("  ").join(Text(part, style) for part, style in parts if part)
    room = layout.width - status.cell_len - 2
    return Text.assemble(_progress_bar(run, room), "  ", status) if room >= 8 else status


def _progress_bar(run: RunSnapshot, width: int) -> Text:
    """Draw done, failed or cancelled, and remaining; a failure takes at least one cell."""
    if not run.total:
        return Text("─" * width, DIM)
    finished = min(width, width * run.finished // run.total)
    failed = min(finished, -(-width * (run.figures.failed + run.figures.cancelled) // run.total))
    return Text.assemble(("━" * (finished - failed), GREEN), ("╍" * failed, RED), ("─" * (width - finished), DIM))


def _worker_lines(layout: _Layout, room: int) -> list[Text]:
    """Draw all workers, in the most detail that fits into `room` lines."""
    workers = layout.run.workers
    if not workers:
        started = layout.run.started
        if started is None or layout.run.end is not None:
            return []
        return [_spinner_line(layout, "starting", started)]
    for tracks in _TRACKS:
        lines = [line for worker in workers for line in _lines_of_worker(layout, worker, tracks)]
        if len(lines) + 1 <= room:
            return [*lines, _axis_line(layout)] if any(worker.loading is None for worker in workers) else lines
    shown = max(0, room - 1)
    return [*lines[:shown], Text(f"… and {len(lines) - shown} more workers", DIM)]


def _spinner_line(layout: _Layout, activity: str, since: float) -> Text:
    elapsed = max(0.0, layout.run.time - since)
    tail = f"  {elapsed:.1f} s" if elapsed < 100 else f"  {duration(elapsed)}"
    spinner = SPINNER[int(elapsed * 10) % len(SPINNER)]
    return Text.assemble((f"{spinner} ", GREEN), cut(activity, layout.width - 2 - len(tail)), (tail, DIM))


def _lines_of_worker(layout: _Layout, worker: WorkerState, tracks: Iterable[_Track]) -> list[Text]:
    if worker.loading:
        prefix = f"worker {worker.number}: " if layout.number_width else ""
        return [_spinner_line(layout, f"{prefix}loading {worker.loading}", worker.loading_since)]
    return [_track_line(layout, worker, label, phases) for label, phases in tracks]


def _track_line(layout: _Layout, worker: WorkerState, label: str, phases: tuple[WorkerPhase, ...]) -> Text:
    """Draw number, label, request (dim: the last one of the first phase), progress and blocks of `phases`."""
    run = layout.run
    in_flight = (request for request in run.in_flight if request.worker == worker.number)
    active = [request for request in in_flight if request.phase in phases]
    is_forward = WorkerPhase.FORWARD in phases
    line = Text(no_wrap=True, overflow="crop", end="")
    number = str(worker.number) if is_forward else ""
    line.append(number.ljust(layout.number_width)[: layout.number_width], BOLD)
    style = forward_style(active[0].forward) if active else DIM
    line.append(label[: layout.label_width - 1].strip().ljust(layout.label_width), style)
    more = f" +{len(active) - 1}" if len(active) > 1 else ""
    request_id = active[0].id if active else worker.last_ids.get(phases[0], "")
    name = cut_middle(request_id, layout.name_width - 1 - len(more)) + more
    line.append(fit(name, layout.name_width), Style.null() if active else DIM)
    progress = _steps(layout, worker, active) if is_forward else Text()
    line.append_text(progress)
    line.append(" " * (layout.progress_width - progress.cell_len + 1))
    if layout.track_width:
        blocks = [block for phase in reversed(phases) for block in _blocks(worker, phase, active, run.time)]
        line.append_text(
            draw_track(blocks, now=run.time, window=layout.window, width=layout.track_width, colour=layout.colour)
        )
    return line


def _steps(layout: _Layout, worker: WorkerState, running: list[RequestInFlight]) -> Text:
    """Draw the step and a small bar, or the elapsed seconds where the pipeline reports no steps."""
    width = layout.progress_width
    if not running or not width:
        return Text()
    if not worker.total_steps:
        return Text(duration(max(0.0, layout.run.time - running[0].since))[:width], DIM)
    steps = f"{worker.step}/{worker.total_steps} "
    room = width - len(steps)
    if room < 3:
        return Text(steps.strip()[:width])
    done = min(room, room * worker.step // worker.total_steps)
    return Text.assemble(steps, ("━" * done, forward_style(running[0].forward)), ("─" * (room - done), DIM))


def _blocks(worker: WorkerState, phase: WorkerPhase, active: Iterable[RequestInFlight], now: float) -> Iterator[Block]:
    """Yield the finished blocks of a track, then the running ones; of the D2H copies only the oldest runs."""
    finished = worker.tracks[phase]
    yield from finished
    running = [request for request in active if request.phase is phase]
    for request in running if phase is WorkerPhase.ENCODE else running[:1]:
        start = request.since
        if phase is WorkerPhase.D2H and finished:
            start = max(start, finished[-1].end)
        yield Block(start, now, request.forward)


def _axis_line(layout: _Layout) -> Text:
    """Draw the time axis, with the running shares to its left in the longest wording that fits."""
    figures = layout.run.figures
    hidden = percent(figures.output_hidden) if figures.output_hidden is not None else ""
    idle = percent(figures.device_idle) if figures.device_idle is not None else ""
    left = layout.width - layout.track_width - 1
    wordings = [f"output hidden {hidden}, device idle {idle}", f"hidden {hidden}, idle {idle}", f"hidden {hidden}", ""]
    wording = next(words for words in wordings if len(words) <= left or not words) if hidden and idle else ""
    line = Text(wording.ljust(left + 1), DIM)
    return line.append_text(draw_axis(layout.window, layout.track_width)) if layout.track_width else line
