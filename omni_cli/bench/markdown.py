"""A report as people read it: Markdown tables and plain sentences."""

from collections.abc import Iterator

from omni_cli.bench.arms import PLAIN
from omni_cli.bench.report import Report
from omni_cli.bench.stats import Ratio
from omni_cli.text import byte_count, printable

_ARM_COLUMNS = (
    "Arm",
    "QPS",
    "s per request: median [min, max]",
    "Against plain [95 % CI]",
    "Device idle",
    "Longest gap",
    "Output hidden",
    "Model load",
)


def render_markdown(report: Report) -> str:
    """Return the whole text, with a line break at its end."""
    parts = [
        _heading(report),
        *_overlap_table(report),
        "\n".join(_arms_table(report)),
        "\n".join(_sentences(report)),
        "\n".join(f"Outputs: {line}." for line in report.outputs_compared),
    ]
    if not report.outputs_equal:
        parts.append("OUTPUTS DIFFER: the times above compare different work and mean nothing.")
    return "\n\n".join(part for part in parts if part) + "\n"


def format_resolution(report: Report) -> str:
    """Return `768×768`, for a clip with the number of frames behind it."""
    settings = report.settings
    frames = f"×{settings.num_frames}" if settings.num_frames > 1 else ""
    return f"{settings.width}×{settings.height}{frames}"


def _heading(report: Report) -> str:
    """Return a line for the model and the requests, and one for the machine."""
    s, request = report.settings, report.settings.request
    steps = f", {request.num_inference_steps} steps" if request.num_inference_steps else ""
    guidance = f", guidance {request.guidance_scale:g}" if request.guidance_scale is not None else ""
    batch = f", batches of {s.batch_size}" if s.batch_size > 1 else ""
    device = f"{s.device} {s.device_name}".strip()
    machine = ", ".join(printable(f"{name} {value}") for name, value in report.machine.items())
    return (
        f"{printable(s.model)} ({s.pipeline}, {s.dtype} on {device}): {format_resolution(report)}{steps}{guidance},"
        f" {s.format}, {s.rounds} rounds of {s.requests} requests{batch}\n{machine}"
    )


def _overlap_table(report: Report) -> Iterator[str]:
    """Yield the table of async off, async on and change: a line per pair of arms."""
    lines = []
    for key, ratio in report.ratios.items():
        fast, slow = key.split("/")
        if slow == f"no-{fast}":
            off, on = report.arms[slow].qps, report.arms[fast].qps
            label = format_resolution(report) + fast.removeprefix("async").replace("-", ", ")
            lines.append(f"| {label} | {off:.4f} | {on:.4f} | {format_change(ratio)} |")
    if lines:
        head = ["| Resolution | Async Off (QPS) | Async On (QPS) | Change |", "|---|---|---|---|"]
        yield "\n".join(head + lines)


def _arms_table(report: Report) -> Iterator[str]:
    """Yield the lines of the table of all arms, each with its spread over rounds."""
    yield f"| {' | '.join(_ARM_COLUMNS)} |"
    yield "|---" * len(_ARM_COLUMNS) + "|"
    for name, arm in report.arms.items():
        ratio = report.ratios.get(f"{name}/{PLAIN}")
        seconds, overlap = arm.seconds_per_request, arm.overlap
        cells = (
            name,
            f"{arm.qps:.4f}",
            f"{seconds.median:.4f} [{seconds.min:.4f}, {seconds.max:.4f}]",
            "1" if name == PLAIN else format_ratio(ratio) if ratio else "-",
            _percent(overlap.device_idle),
            "-" if overlap.longest_gap is None else f"{1000 * overlap.longest_gap:.1f} ms",
            _percent(overlap.output_hidden),
            f"{arm.load_seconds:.1f} s",
        )
        yield f"| {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _sentences(report: Report) -> Iterator[str]:
    """Yield what the figures mean."""
    for key, ratio in report.ratios.items():
        fast, slow = key.split("/")
        yield describe_ratio(fast, slow, ratio) + "."
    yield from _recovery(report)
    if report.bytes_moved_per_request:
        yield f"From device to host: {byte_count(round(report.bytes_moved_per_request))} per request."
    yield (
        "Output hidden is of the steady state: the last output of a round has no forward to hide behind. "
        "Model load is in no other figure."
    )


def _recovery(report: Report) -> Iterator[str]:
    """Yield how much of the plain loop's saving time the overlap recovers."""
    share, recovered = report.output_share_of_plain_pct, report.output_recovered
    if share is None or recovered is None:
        return
    limit = f"Saving takes {share:.1f} % of the plain loop's time: hiding all of it is worth {100 / (100 - share):.2f}x"
    if recovered.ci95 is None:
        yield f"{limit}; async recovers {100 * recovered.median:.0f} % of that."
        return
    low, high = (100 * end for end in recovered.ci95)
    if low <= 0 and high >= 100:
        yield f"{limit}, too little to tell from the noise on this load."
        return
    more = " (above 100 %: its encoder or the rest is cheaper, too)" if recovered.median > 1 else ""
    yield f"{limit}; async recovers {100 * recovered.median:.0f} % [{low:.0f}, {high:.0f}] of that{more}."


def describe_ratio(fast: str, slow: str, ratio: Ratio) -> str:
    """Return `async is 1.06x [1.03, 1.09] of plain`, and whether that is more than noise."""
    notes = {0: ": within the noise on this load", 1: "", -1: ": slower on this load"}
    note = notes[ratio.direction]
    if ratio.ci95 is None:
        note = ": one round alone proves nothing"
    return f"{fast} is {format_ratio(ratio)} of {slow}{note}"


def format_ratio(ratio: Ratio) -> str:
    """Return `1.060x [1.030, 1.090]`."""
    interval = "" if ratio.ci95 is None else f" [{ratio.ci95[0]:.3f}, {ratio.ci95[1]:.3f}]"
    return f"{ratio.median:.3f}x{interval}"


def format_change(ratio: Ratio) -> str:
    """Return `+1.95% [+0.80, +3.10]`."""
    interval = "" if ratio.ci95 is None else f" [{', '.join(f'{100 * (end - 1):+.2f}' for end in ratio.ci95)}]"
    return f"{100 * (ratio.median - 1):+.2f}%{interval}"
