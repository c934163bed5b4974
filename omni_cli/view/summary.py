"""The end of a run in facts: the same rows for the live view's table and the plain view's lines."""

from typing import NamedTuple

from omni_cli.trace import Figures
from omni_cli.view import text
from omni_cli.view.snapshot import Snapshot


class Fact(NamedTuple):
    """A row of the summary; values hold no data that is not printable."""

    label: str
    value: str


def counts(now: Snapshot) -> str:
    """`97 done, 2 failed, 1 cancelled, 12 skipped, 3 not run`: what is zero is left out, except done."""
    ended = now.ended
    if ended is None:
        return f"{now.done} done"
    others = {
        "failed": ended.failed,
        "cancelled": ended.cancelled,
        "already done": ended.skipped,
        "not run": ended.not_run,
    }
    return ", ".join([f"{ended.done} done", *(f"{count} {word}" for word, count in others.items() if count)])


def headline(now: Snapshot) -> str:
    """Counts, wall time and rate."""
    ended = now.ended
    if ended is None or ended.seconds <= 0:
        return counts(now)
    speed = f", {text.rate(ended.done / ended.seconds)}" if ended.done else ""
    return f"{counts(now)} in {text.seconds(ended.seconds)}{speed}"


def facts(now: Snapshot) -> list[Fact]:
    """Where the time went, how much of the output was hidden, and where the files are."""
    figures, ended = now.figures, now.ended
    rows = []
    if figures.forwards:
        forwards = f"{figures.forwards} forward{'s' if figures.forwards > 1 else ''}"
        rows += [
            Fact("forward", f"{text.seconds(figures.forward_seconds)} in {forwards}"),
            Fact("D2H", f"{text.seconds(figures.d2h_seconds)}, {_bytes(figures)}"),
            Fact("encode", text.seconds(figures.encode_seconds)),
            Fact("write", text.seconds(figures.write_seconds)),
        ]
    if ended is not None and ended.output_hidden is not None:
        rows.append(Fact("hidden", f"{text.share(ended.output_hidden)} of output time behind forwards"))
    if ended is not None and ended.device_idle is not None:
        gap = f", longest gap {text.seconds(ended.longest_gap)}" if ended.longest_gap is not None else ""
        rows.append(Fact("device", f"idle {text.share(ended.device_idle)} between forwards{gap}"))
    if now.done or now.skipped:
        rows.append(Fact("files", text.printable(now.output_dir)))
    return rows


def _bytes(figures: Figures) -> str:
    """What a request moves from the device, and what is then copied in host memory."""
    requests = max(1, figures.done)
    moved, copied = (text.size(round(total / requests)) for total in (figures.bytes_moved, figures.bytes_copied))
    return f"{moved} moved and {copied} copied per request"
