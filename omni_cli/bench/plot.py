"""The chart of a bench: QPS per arm with the range over rounds, and the timeline of one round of every arm.

matplotlib comes with the extra `plot` and is imported where a chart is drawn.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_cli.bench.arms import Round
from omni_cli.bench.markdown import format_resolution
from omni_cli.bench.report import Report
from omni_cli.bench.run_bench import Outcome
from omni_cli.errors import UsageError
from omni_cli.events import EncodeDone, ForwardDone, OutputArrived
from omni_cli.request import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")

# The palette of Okabe and Ito (2008): distinguishable with any colour vision, and in grey.
_COLORS = {"forward": "#0072B2", "D2H": "#E69F00", "encode, write": "#009E73"}
_QPS_COLOR = "#56B4E9"
_BAR_HEIGHT = 0.26


def check_plot(path: Path) -> None:
    """Check that a chart can be drawn to `path`. Raises UsageError."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot {path}: must end in {' or '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'omni-gen[plot]'")


def write_plot(path: Path, outcome: Outcome) -> None:
    """Draw the chart, as PNG or SVG by the suffix of `path`. Raises OSError."""
    import matplotlib
    from matplotlib.figure import Figure

    names = list(outcome.report.arms)
    with matplotlib.rc_context({"svg.hashsalt": "omni-gen", "font.size": 9, "axes.spines.top": False}):
        figure = Figure(figsize=(9, 3.2 + 0.9 * len(names)), layout="constrained")
        top, bottom = figure.subplots(2, 1, height_ratios=(1 + 0.25 * len(names), 1 + 0.6 * len(names)))
        _draw_qps(top, outcome.report)
        _draw_timelines(bottom, outcome.measurement.last_rounds())
        # Without a date in the file, the same figures give the same bytes.
        metadata: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=metadata)


def _draw_qps(axes: "Axes", report: Report) -> None:
    """Draw a bar per arm; its whisker spans the slowest to the fastest round."""
    names = list(report.arms)
    arms = [report.arms[name] for name in names]
    qps = [arm.qps for arm in arms]
    low = [arm.qps - 1 / arm.seconds_per_request.max for arm in arms]
    high = [1 / arm.seconds_per_request.min - arm.qps for arm in arms]
    positions = range(len(names))
    axes.barh(positions, qps, xerr=[low, high], color=_QPS_COLOR, ecolor="black", capsize=3, height=0.6)
    for position, value in zip(positions, qps, strict=True):
        axes.annotate(f" {value:.4g}", (0, position), va="center", ha="left")
    axes.set_yticks(positions, names)
    axes.invert_yaxis()
    axes.set_xlabel(f"requests per second: median, slowest and fastest of {report.settings.rounds} rounds")
    s = report.settings
    axes.set_title(f"{s.pipeline} on {s.device}, {s.dtype}: {format_resolution(report)}, {s.format}", loc="left")


def _draw_timelines(axes: "Axes", rounds: dict[str, Round]) -> None:
    """Draw one round per arm, all starting at 0: forwards on top, copies and encoding below them."""
    for position, turn in enumerate(rounds.values()):
        spans = list(round_spans(turn))
        zero = min((interval.start for _, interval in spans), default=0.0)
        for row, kind in enumerate(_COLORS):
            bars = [(interval.start - zero, interval.seconds) for name, interval in spans if name == kind]
            bottom = position + (row - 1.5) * _BAR_HEIGHT
            # A millisecond is drawn as wide as its edge; white edges separate forwards that touch.
            edge = "white" if kind == "forward" else _COLORS[kind]
            axes.broken_barh(bars, (bottom, _BAR_HEIGHT), facecolors=_COLORS[kind], edgecolor=edge, linewidth=0.6)
    axes.set_yticks(range(len(rounds)), list(rounds))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds since the round's first forward began")
    handles = [axes.broken_barh([], (0, 0), facecolors=color, label=kind) for kind, color in _COLORS.items()]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(_COLORS), frameon=False)
    axes.set_title("the last round", loc="left")


def round_spans(turn: Round) -> Iterator[tuple[str, Interval]]:
    """Yield the spans of a round, each with its name in the legend."""
    for event in turn.events:
        match event:
            case ForwardDone():
                yield "forward", event.forward
            case OutputArrived():
                yield "D2H", event.d2h
            case EncodeDone():
                yield from (("encode, write", part) for part in (event.encode, event.write) if part.seconds > 0)
            case _:
                pass
