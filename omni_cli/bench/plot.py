"""The chart of a bench: QPS per arm with the range over rounds, and one round of every arm as it ran.

matplotlib is the extra `plot`; it is imported where a chart is drawn.
"""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_cli.bench.arms import Round
from omni_cli.bench.report import Report
from omni_cli.bench.run import Outcome
from omni_cli.bench.table import resolution
from omni_cli.errors import UsageError
from omni_cli.events import EncodeDone, ForwardDone, OutputReady
from omni_cli.request import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")

# Okabe and Ito's palette: told apart with any colour vision, and in grey.
_COLORS = {"forward": "#0072B2", "D2H": "#E69F00", "encode, write": "#009E73"}
_BAR, _LANE = "#56B4E9", 0.26


def check_plot(path: Path) -> None:
    """Raise UsageError, before anything is measured, unless a chart can be drawn there."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot {path}: must end in {' or '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'omni-gen[plot]'")


def write_plot(path: Path, outcome: Outcome) -> None:
    """Draw the chart; the suffix says as what."""
    import matplotlib
    from matplotlib.figure import Figure

    names = list(outcome.report.arms)
    with matplotlib.rc_context({"svg.hashsalt": "omni-gen", "font.size": 9, "axes.spines.top": False}):
        figure = Figure(figsize=(9, 3.2 + 0.9 * len(names)), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=(1 + 0.25 * len(names), 1 + 0.6 * len(names)))
        _bars(above, outcome.report)
        _lanes(below, {name: rounds[-1] for name, rounds in outcome.measured.rounds.items()})
        # No date in the file: the same figures give the same bytes.
        metadata: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=metadata)


def _bars(axes: "Axes", report: Report) -> None:
    """QPS of every arm; the whisker reaches from its slowest round to its fastest."""
    names = list(report.arms)
    arms = [report.arms[name] for name in names]
    qps = [arm.qps for arm in arms]
    low = [arm.qps - 1 / arm.seconds_per_request.max for arm in arms]
    high = [1 / arm.seconds_per_request.min - arm.qps for arm in arms]
    places = range(len(names))
    axes.barh(places, qps, xerr=[low, high], color=_BAR, ecolor="black", capsize=3, height=0.6)
    for place, value in zip(places, qps, strict=True):
        axes.annotate(f" {value:.4g}", (0, place), va="center", ha="left")
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xlabel(f"requests per second: median, slowest and fastest of {report.settings.rounds} rounds")
    s = report.settings
    axes.set_title(f"{s.pipeline} on {s.device}, {s.dtype}: {resolution(report)}, {s.format}", loc="left")


def _lanes(axes: "Axes", rounds: dict[str, Round]) -> None:
    """One round of each arm, all begun at 0: forwards above, what happens beside them below."""
    for place, turn in enumerate(rounds.values()):
        spans = list(spans_of(turn))
        zero = min((interval.start for _, interval in spans), default=0.0)
        for lane, kind in enumerate(_COLORS):
            bars = [(interval.start - zero, interval.seconds) for name, interval in spans if name == kind]
            bottom = place - 1.5 * _LANE + lane * _LANE
            # A span of a millisecond is drawn as wide as its edge; forwards that touch are told apart by theirs.
            edge = "white" if lane == 0 else _COLORS[kind]
            axes.broken_barh(bars, (bottom, _LANE), facecolors=_COLORS[kind], edgecolor=edge, linewidth=0.6)
    axes.set_yticks(range(len(rounds)), list(rounds))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds since the round's first forward began")
    handles = [axes.broken_barh([], (0, 0), facecolors=color, label=kind) for kind, color in _COLORS.items()]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(_COLORS), frameon=False)
    axes.set_title("the last round", loc="left")


def spans_of(turn: Round) -> Iterator[tuple[str, Interval]]:
    """What ran when, with a kind that the legend names."""
    for event in turn.events:
        match event:
            case ForwardDone():
                yield "forward", event.forward
            case OutputReady():
                yield "D2H", event.d2h
            case EncodeDone():
                yield from (("encode, write", part) for part in _filled((event.encode, event.write)))
            case _:
                pass


def _filled(intervals: Iterable[Interval]) -> Iterator[Interval]:
    return (interval for interval in intervals if interval.seconds > 0)
