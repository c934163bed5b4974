"""A report as people read it: Markdown tables and plain sentences, ready to be pasted."""

from collections.abc import Iterator

from omni_cli.bench.arms import PLAIN
from omni_cli.bench.report import ArmReport, RatioReport, Report
from omni_cli.bench.stats import Ratio
from omni_cli.view.text import printable, size

_NOISE = ": within the noise on this load"
_SLOWER = ": slower on this load"


def render(report: Report) -> str:
    """The whole text, with a line break at its end."""
    parts = [
        _head(report),
        *_seed_table(report),
        "\n".join(_arms_table(report)),
        "\n".join(_sentences(report)),
        "\n".join(f"Outputs: {line}." for line in report.outputs_compared),
    ]
    if not report.outputs_equal:
        parts.append("OUTPUTS DIFFER: the times above compare different work and mean nothing.")
    return "\n\n".join(part for part in parts if part) + "\n"


def resolution(report: Report) -> str:
    """`768×768`, with the number of frames behind it for a clip."""
    settings = report.settings
    frames = f"×{settings.num_frames}" if settings.num_frames > 1 else ""
    return f"{settings.width}×{settings.height}{frames}"


def _head(report: Report) -> str:
    """One line: the model and the load; one line: the machine."""
    s, request = report.settings, report.settings.request
    steps = f", {request.num_inference_steps} steps" if request.num_inference_steps else ""
    guidance = f", guidance {request.guidance_scale:g}" if request.guidance_scale is not None else ""
    batch = f", batches of {s.batch_size}" if s.batch_size > 1 else ""
    device = f"{s.device} {s.device_name}".strip()
    machine = ", ".join(printable(f"{name} {value}") for name, value in report.machine.items())
    return (
        f"{printable(s.model)} ({s.pipeline}, {s.dtype} on {device}): {resolution(report)}{steps}{guidance}, {s.format},"
        f" {s.rounds} rounds of {s.requests} requests{batch}\n{machine}"
    )


def _seed_table(report: Report) -> Iterator[str]:
    """Async off, async on, change: one line per pair of arms."""
    lines = []
    for key, ratio in report.ratios.items():
        fast, slow = key.split("/")
        if slow == f"no-{fast}":
            off, on = report.arms[slow].qps, report.arms[fast].qps
            label = resolution(report) + fast.removeprefix("async").replace("-", ", ")
            lines.append(f"| {label} | {off:.4f} | {on:.4f} | {change(ratio)} |")
    if lines:
        head = ["| Resolution | Async Off (QPS) | Async On (QPS) | Change |", "|---|---|---|---|"]
        yield "\n".join(head + lines)


def _arms_table(report: Report) -> Iterator[str]:
    """Every arm with its spread, the plain loop beside the others."""
    yield "| Arm | QPS | s per request: median [min, max] | Against plain [95 % CI] | Device idle | Longest gap | Output hidden | Model load |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, arm in report.arms.items():
        ratio = report.ratios.get(f"{name}/{PLAIN}")
        against = "1" if name == PLAIN else times(ratio) if ratio else "-"
        yield f"| {name} | {arm.qps:.4f} | {_spread(arm)} | {against} | {_flow(arm)} | {arm.load_seconds:.1f} s |"


def _spread(arm: ArmReport) -> str:
    seconds = arm.seconds_per_request
    return f"{seconds.median:.4f} [{seconds.min:.4f}, {seconds.max:.4f}]"


def _flow(arm: ArmReport) -> str:
    flow = arm.flow
    gap = "-" if flow.longest_gap is None else f"{1000 * flow.longest_gap:.1f} ms"
    return f"{_percent(flow.device_idle)} | {gap} | {_percent(flow.output_hidden)}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _sentences(report: Report) -> Iterator[str]:
    """What it is worth, in words."""
    for key, ratio in report.ratios.items():
        fast, slow = key.split("/")
        yield worth(fast, slow, ratio) + "."
    yield from _recovery(report)
    if report.bytes_moved_per_request:
        yield f"From device to host: {size(round(report.bytes_moved_per_request))} per request."
    yield (
        "Output hidden is of the steady state: the last output of a round has no forward to hide behind. "
        "Model load is in no other figure."
    )


def _recovery(report: Report) -> Iterator[str]:
    """How much of what can be hidden is hidden."""
    share, found = report.output_share_of_plain_pct, report.output_recovered
    if share is None or found is None:
        return
    said = f"Saving takes {share:.1f} % of the plain loop's time: hiding all of it is worth {100 / (100 - share):.2f}x"
    if found.ci95 is None:
        yield f"{said}; async recovers {100 * found.median:.0f} % of that."
        return
    low, high = (100 * end for end in found.ci95)
    if low <= 0 and high >= 100:
        yield f"{said}, too little to tell from the noise on this load."
        return
    more = " (above 100 %: its encoder or the rest is cheaper, too)" if found.median > 1 else ""
    yield f"{said}; async recovers {100 * found.median:.0f} % [{low:.0f}, {high:.0f}] of that{more}."


def worth(fast: str, slow: str, ratio: RatioReport) -> str:
    """`async is 1.06x [1.03, 1.09] of plain`, and whether that is anything."""
    said = {0: _NOISE, 1: "", -1: _SLOWER}[Ratio(ratio.median, ratio.ci95).direction]
    if ratio.ci95 is None:
        said = ": one round alone proves nothing"
    return f"{fast} is {times(ratio)} of {slow}{said}"


def times(ratio: RatioReport) -> str:
    """`1.06x [1.03, 1.09]`."""
    interval = "" if ratio.ci95 is None else f" [{ratio.ci95[0]:.3f}, {ratio.ci95[1]:.3f}]"
    return f"{ratio.median:.3f}x{interval}"


def change(ratio: RatioReport) -> str:
    """`+1.95% [+0.80, +3.10]`."""
    interval = "" if ratio.ci95 is None else f" [{', '.join(f'{100 * (end - 1):+.2f}' for end in ratio.ci95)}]"
    return f"{100 * (ratio.median - 1):+.2f}%{interval}"
