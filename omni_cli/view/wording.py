"""Words and figures of the views: text cut to terminal cells, numbers with units, and the summary of a run."""

from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from omni_cli.events import RunStopping
from omni_cli.text import byte_count, printable
from omni_cli.view.snapshot import RunSnapshot


def cells(text: str) -> int:
    """Return the terminal cells that `text` takes at most: terminals differ on joined emoji."""
    return max(cell_len(text), sum(map(cell_len, text)))


def cut(text: str, width: int) -> str:
    """Return `text` made printable and cut to `width` cells, with an ellipsis in place of the rest."""
    clean, whole = _printable_head(text, width)
    if whole and cells(clean) <= width:
        return clean
    return _cut_cells(clean, width - 1) + "…" if width > 0 else ""


def cut_middle(text: str, width: int) -> str:
    """Cut `text` as `cut` does, but keep both ends: ids and paths differ in their last characters."""
    clean, whole = _printable_head(text, width)
    if (whole and cells(clean) <= width) or width < 8:
        return cut(text, width)
    tail = _printable_head(text[-4 * width :], 4 * width)[0]
    room = (width - 1) // 2
    while cells(tail) > room or (tail and cell_len(tail[0]) == 0):
        tail = tail[1:]
    return f"{_cut_cells(clean, width - 1 - cells(tail))}…{tail}"


def fit(text: str, width: int) -> str:
    """Pad `text` with spaces to `width` cells; it must not be wider."""
    return text + " " * (width - cells(text))


def _printable_head(text: str, width: int) -> tuple[str, bool]:
    """Return as much of `text` as `width` cells can show, and whether it is all: a letter may carry endless marks."""
    limit = 4 * max(width, 0) + 8
    return printable(text[:limit]), len(text) <= limit


def _cut_cells(clean: str, width: int) -> str:
    head = set_cell_size(clean, width) if cell_len(clean) > width else clean
    while cells(head) > width:
        head = head[:-1]
    return head.rstrip(" ")


def duration(seconds: float) -> str:
    """Return `3 ms`, `4.2 s`, `42 s`, `3 min 20 s` or `2 h 05 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def rate(per_second: float) -> str:
    """Return a rate per second, minute or hour, in the unit that keeps a digit before the point: `3.4/s`, `12/min`."""
    for value, unit in ((per_second, "s"), (per_second * 60, "min")):
        if value >= 1:
            return f"{_two_digits(value)}/{unit}"
    return f"{_two_digits(per_second * 3600)}/h"


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def describe_stop(event: RunStopping) -> str:
    """Return `stopping: finishes what runs, at most about 12 s; Ctrl-C again stops at once`."""
    task = "writes what is computed" if event.seconds == 0 else "finishes what runs"
    if event.seconds:
        task += f", at most {'' if event.is_limit else 'about '}{duration(event.seconds)}"
    return f"stopping: {task}; Ctrl-C again stops at once"


def percent(share: float) -> str:
    """Return a share of 0..1 in percent; only exactly 0 and 1 read as 0 % and 100 %."""
    value = 100 * share
    if 0 < value < 0.5 or 99.5 <= value < 100:
        return "<1 %" if value < 1 else ">99 %"
    return f"{value:.0f} %"


def count_requests(run: RunSnapshot) -> str:
    """Return `97 done, 3 with notes, 2 failed, 1 cancelled, 12 already done, 3 not run`, without zeros except done."""
    end = run.end
    if end is None:
        return f"{run.figures.done} done"
    others = {
        "with notes": end.with_notes,
        "failed": end.failed,
        "cancelled": end.cancelled,
        "already done": end.skipped,
        "not run": end.not_run,
    }
    return ", ".join([f"{end.done} done", *(f"{count} {label}" for label, count in others.items() if count)])


def headline(run: RunSnapshot) -> str:
    """Return the counts, the wall time and the rate of a run."""
    end = run.end
    if end is None or end.seconds <= 0:
        return count_requests(run)
    per_time = f", {rate(end.done / end.seconds)}" if end.done else ""
    return f"{count_requests(run)} in {duration(end.seconds)}{per_time}"


class SummaryRow(NamedTuple):
    """A row of the summary; its value is printable."""

    label: str
    value: str


def note_lines(run: RunSnapshot) -> list[str]:
    """Return `in 3 rows: note` for each kind of note; the note is the first of its kind. Not yet printable."""
    return [f"in {rows} row{'' if rows == 1 else 's'}: {example}" for rows, example in run.notes]


def summary_rows(run: RunSnapshot) -> list[SummaryRow]:
    """Return time per phase, the hidden share of output, idle time, and the output folder."""
    figures, end = run.figures, run.end
    rows = []
    if figures.forwards:
        forwards = f"{figures.forwards} forward{'s' if figures.forwards > 1 else ''}"
        requests = max(1, figures.done)
        moved, copied = (byte_count(round(total / requests)) for total in (figures.bytes_moved, figures.bytes_copied))
        rows += [
            SummaryRow("forward", f"{duration(figures.forward_seconds)} in {forwards}"),
            SummaryRow("D2H", f"{duration(figures.d2h_seconds)}, {moved} moved and {copied} copied per request"),
            SummaryRow("encode", duration(figures.encode_seconds)),
            SummaryRow("write", duration(figures.write_seconds)),
        ]
    if end is not None and end.output_hidden is not None:
        rows.append(SummaryRow("hidden", f"{percent(end.output_hidden)} of output time behind forwards"))
    if end is not None and end.device_idle is not None:
        gap = f", longest gap {duration(end.longest_gap)}" if end.longest_gap is not None else ""
        rows.append(SummaryRow("device", f"idle {percent(end.device_idle)} between forwards{gap}"))
    if run.figures.done or run.skipped:
        rows.append(SummaryRow("files", printable(run.output_dir)))
    return rows
