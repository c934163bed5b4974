"""One frame of the live view, drawn from a snapshot: a pure function of it and the size of the terminal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from omni_cli.view import text
from omni_cli.view.lanes import DIM, axis, strip, tone_style
from omni_cli.view.snapshot import Snapshot, WorkerNow
from omni_cli.view.workers import Block, Flight, Phase

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
GREEN, RED, BOLD = Style.parse("green"), Style.parse("red"), Style.parse("bold")


@dataclass(frozen=True, slots=True)
class Page:
    """What is drawn and on what: columns are cells, `window` the seconds that lanes show."""

    snapshot: Snapshot
    width: int
    height: int
    window: float
    colour: bool
    number: int
    label: int
    name: int
    progress: int
    strip: int


def frame(snapshot: Snapshot, *, width: int, height: int, window: float, colour: bool) -> Text:
    """Lines that fit `width` x `height` cells: the run's bar, then lanes for as many workers as there is room for."""
    page = _page(snapshot, max(1, width - 1), height, window, colour)  # the last column would wrap on some terminals
    lines = [_bar(page)]
    if height > 5:
        lines.insert(0, _title(page))
    if height > 12:
        lines.insert(0, Text())
    lines += _workers(page, height - 1 - len(lines))
    for line in lines:
        line.truncate(page.width)
    return Text("\n", no_wrap=True, overflow="crop", end="").join(lines[: max(1, height - 1)])


def _page(snapshot: Snapshot, width: int, height: int, window: float, colour: bool) -> Page:
    number = max((len(str(worker.number)) + 1 for worker in snapshot.workers), default=0)
    number = number if len(snapshot.workers) > 1 else 0
    label, progress = (10, 12) if width >= 60 else (2, 6) if width >= 34 else (2, 0)
    rest = width - number - label - progress
    name = max(8, min(28, rest // 3))
    lane = rest - name - 1
    if lane < 8:
        name, lane = max(0, rest), 0
    return Page(snapshot, width, height, window, colour, number, label, name, progress, lane)


def _title(page: Page) -> Text:
    now = page.snapshot
    titles = {worker.title for worker in now.workers if worker.title}
    parts = [now.model, *(titles if len(titles) == 1 else [])]
    return Text.assemble(("omni-gen ", BOLD), (text.cut(" · ".join(filter(None, parts)), page.width - 9), DIM))


def _bar(page: Page) -> Text:
    now = page.snapshot
    facts = [
        (f"{now.finished}/{now.total}" if now.total is not None else f"{now.finished}", BOLD),
        (f"{now.failed} failed" if now.failed else "", RED),
        (f"{now.cancelled} cancelled" if now.cancelled else "", DIM),
        (text.rate(now.per_second) if now.per_second else "", Style.null()),
        (f"ETA {text.seconds(now.eta)}" if now.eta is not None else "", Style.null()),
    ]
    status = Text("  ").join(Text(fact, style) for fact, style in facts if fact)
    room = page.width - status.cell_len - 2
    return Text.assemble(_gauge(now, room), "  ", status) if room >= 8 else status


def _gauge(now: Snapshot, width: int) -> Text:
    """The bar itself: done, failed (and cancelled), left. A failure shows even if it is less than a cell."""
    if not now.total:
        return Text("─" * width, DIM)
    over = min(width, width * now.finished // now.total)
    bad = min(over, -(-width * (now.failed + now.cancelled) // now.total))
    return Text.assemble(("━" * (over - bad), GREEN), ("╍" * bad, RED), ("─" * (width - over), DIM))


def _workers(page: Page, room: int) -> list[Text]:
    """Rows of all workers, in the most detail (three rows, two, one each) that `room` lines allow."""
    workers = page.snapshot.workers
    if not workers:
        since = page.snapshot.started
        return [_waiting(page, "starting", since)] if since is not None and page.snapshot.ended is None else []
    for rows in (_three_rows, _two_rows, _one_row):
        lines = [
            line for worker in workers for line in ([_loading(page, worker)] if worker.loading else rows(page, worker))
        ]
        if len(lines) + 1 <= room:
            return [*lines, _axis(page)] if any(worker.loading is None for worker in workers) else lines
    shown = max(0, room - 1)
    return [*lines[:shown], Text(f"… and {len(lines) - shown} more workers", DIM)]


def _waiting(page: Page, what: str, since: float) -> Text:
    elapsed = max(0.0, page.snapshot.now - since)
    tail = f"  {elapsed:.1f} s" if elapsed < 100 else f"  {text.seconds(elapsed)}"
    spin = SPINNER[int(elapsed * 10) % len(SPINNER)]
    return Text.assemble((f"{spin} ", GREEN), text.cut(what, page.width - 2 - len(tail)), (tail, DIM))


def _loading(page: Page, worker: WorkerNow) -> Text:
    who = f"worker {worker.number}: " if page.number else ""
    return _waiting(page, f"{who}loading {worker.loading}", worker.loading_since)


def _three_rows(page: Page, worker: WorkerNow) -> list[Text]:
    return [*_one_row(page, worker), _output_row(page, worker, Phase.D2H), _output_row(page, worker, Phase.ENCODE)]


def _two_rows(page: Page, worker: WorkerNow) -> list[Text]:
    output = _row(
        page,
        head=("", "⇣ output"),
        flights=[flight for flight in worker.flights if flight.phase in (Phase.D2H, Phase.ENCODE)],
        last=worker.last.get(Phase.ENCODE, ""),
        progress=Text(),
        blocks=[*_blocks(page, worker, Phase.D2H), *_blocks(page, worker, Phase.ENCODE)],
    )
    return [*_one_row(page, worker), output]


def _one_row(page: Page, worker: WorkerNow) -> list[Text]:
    running = [flight for flight in worker.flights if flight.phase is Phase.FORWARD]
    row = _row(
        page,
        head=(str(worker.number), "▶ forward"),
        flights=running,
        last=worker.last.get(Phase.FORWARD, ""),
        progress=_progress(page, worker, running),
        blocks=_blocks(page, worker, Phase.FORWARD),
    )
    return [row]


def _output_row(page: Page, worker: WorkerNow, phase: Phase) -> Text:
    return _row(
        page,
        head=("", "⇣ D2H" if phase is Phase.D2H else "✎ encode"),
        flights=[flight for flight in worker.flights if flight.phase is phase],
        last=worker.last.get(phase, ""),
        progress=Text(),
        blocks=_blocks(page, worker, phase),
    )


def _row(
    page: Page, *, head: tuple[str, str], flights: list[Flight], last: str, progress: Text, blocks: Iterable[Block]
) -> Text:
    """A lane's row: number and label, what it is at (dim: what it did last), progress, blocks."""
    number, label = head
    style = tone_style(flights[0].tone) if flights else DIM
    line = Text(no_wrap=True, overflow="crop", end="")
    line.append(number.ljust(page.number)[: page.number], BOLD)
    line.append(label[: page.label - 1].strip().ljust(page.label), style)
    more = f" +{len(flights) - 1}" if len(flights) > 1 else ""
    name = text.cut_middle(flights[0].id if flights else last, page.name - 1 - len(more)) + more
    line.append(text.fit(name, page.name), Style.null() if flights else DIM)
    line.append_text(progress)
    line.append(" " * (page.progress - progress.cell_len + 1))
    if page.strip:
        now = page.snapshot.now
        line.append_text(strip(blocks, now=now, window=page.window, width=page.strip, colour=page.colour))
    return line


def _progress(page: Page, worker: WorkerNow, running: list[Flight]) -> Text:
    """Step and a small bar; the seconds so far, where the pipeline reports no steps."""
    if not running or not page.progress:
        return Text()
    if not worker.total:
        return Text(text.seconds(max(0.0, page.snapshot.now - running[0].since))[: page.progress], DIM)
    steps = f"{worker.step}/{worker.total} "
    room = page.progress - len(steps)
    if room < 3:
        return Text(steps.strip()[: page.progress])
    full = min(room, room * worker.step // worker.total)
    return Text.assemble(steps, ("━" * full, tone_style(running[0].tone)), ("─" * (room - full), DIM))


def _blocks(page: Page, worker: WorkerNow, phase: Phase) -> Iterator[Block]:
    """Finished blocks of the lane, and what is under way: D2H is one after the other, so only its oldest runs."""
    yield from worker.lanes[phase]
    under_way = [flight for flight in worker.flights if flight.phase is phase]
    if phase is Phase.D2H and under_way and worker.lanes[phase]:
        flight = under_way[0]
        yield Block(max(flight.since, worker.lanes[phase][-1].end), page.snapshot.now, flight.tone)
    else:
        for flight in under_way[: 1 if phase is not Phase.ENCODE else None]:
            yield Block(flight.since, page.snapshot.now, flight.tone)


def _axis(page: Page) -> Text:
    """The time axis, with the running shares to its left in the longest wording that fits."""
    figures = page.snapshot.figures
    hidden = text.share(figures.output_hidden) if figures.output_hidden is not None else ""
    idle = text.share(figures.device_idle) if figures.device_idle is not None else ""
    left = page.width - page.strip - 1
    wordings = [f"output hidden {hidden}, device idle {idle}", f"hidden {hidden}, idle {idle}", f"hidden {hidden}", ""]
    wording = next(words for words in wordings if len(words) <= left or not words) if hidden and idle else ""
    line = Text(wording.ljust(left + 1), DIM)
    return line.append_text(axis(page.window, page.strip)) if page.strip else line
