"""`omni-gen bench transport`: two paths from a decoded tensor on the device to bytes that an encoder reads.

parent ── TransportJob on stdin ──> python -m omni_cli.bench.transport_paths ── one CaseReport per line ──> parent
"""

import re
import sys
from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from omni_cli.bench.arms import ShowLine
from omni_cli.bench.stats import speedup
from omni_cli.child_process import ChildProcess, with_log_tail
from omni_cli.errors import EngineError, UsageError
from omni_cli.text import byte_count

CLIPS = ("1x1024x1024", "81x480x832", "121x1088x1920")
DTYPES = ("bfloat16", "float32")
REPEATS = 7


class ClipSize(msgspec.Struct, frozen=True):
    """Frames, and height and width in pixels. One frame is an image."""

    frames: int
    height: int
    width: int

    def __str__(self) -> str:
        """Return `81x480x832`."""
        return f"{self.frames}x{self.height}x{self.width}"

    @property
    def levels(self) -> int:
        """Levels of the RGB output: its bytes as uint8."""
        return 3 * self.frames * self.height * self.width


class TransportJob(msgspec.Struct, frozen=True, kw_only=True):
    """The cases: every clip in every dtype, each path at most `repeats` times."""

    clips: tuple[ClipSize, ...]
    dtypes: tuple[str, ...] = DTYPES
    repeats: int = REPEATS
    device: str = "auto"


class PathReport(msgspec.Struct, frozen=True, kw_only=True):
    """One path. `seconds` are per repeat, paired with those of the other path.

    `moved_bytes` cross from worker to parent; `host_copies` counts how often the CPU writes the whole payload to host
    memory, conversion included. Peaks are bytes beyond those in use before, of worker and parent together; null where
    unknown.
    """

    seconds: tuple[float, ...]
    moved_bytes: int
    host_copies: int
    device_peak_bytes: int | None
    host_peak_bytes: int | None


class CaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """A clip in a dtype on `device`.

    `skipped` is why nothing was measured, `levels_apart` the largest difference (0..255).
    """

    clip: ClipSize
    dtype: str
    device: str
    ours: PathReport | None = None
    reference: PathReport | None = None
    levels_apart: int = 0
    skipped: str | None = None


def parse_clip_size(text: str) -> ClipSize:
    """Parse frames, height and width, such as `81x480x832`. Raises UsageError."""
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})x([1-9]\d{0,4})", text.lower().replace("×", "x"))
    if match is None:
        raise UsageError(f"--clip {text}: must be FRAMESxHEIGHTxWIDTH, such as 81x480x832")
    return ClipSize(*(int(part) for part in match.groups()))


def run_transport_bench(job: TransportJob, show: ShowLine) -> list[CaseReport]:
    """Measure every case in a child process, since this one imports no torch. Raises EngineError if the child fails."""
    reports = []
    for report in _cases(job):
        reports.append(report)
        outcome = report.skipped or f"{_format_speedup(report)}x"
        show(f"{report.clip} {report.dtype}: {outcome}")
    return reports


def _cases(job: TransportJob) -> Iterator[CaseReport]:
    process = ChildProcess.start((sys.executable, "-P", "-m", "omni_cli.bench.transport_paths"), pipes=True)
    try:
        with process.stdin:
            process.stdin.write(msgspec.json.encode(job))
        for line in process.stdout:
            yield msgspec.json.decode(line, type=CaseReport)
        if process.wait_or_kill() != 0:
            raise EngineError(with_log_tail(f"bench transport {process.exit_report()}", process.log_tail()))
    finally:
        process.wait_or_kill(0)
        process.close()


def _format_speedup(report: CaseReport) -> str:
    """Return how many times faster our path is, with its interval: `9.5 [8.9, 10.1]`."""
    assert report.ours is not None
    assert report.reference is not None
    ratio = speedup(report.reference.seconds, report.ours.seconds)
    interval = "" if ratio.ci95 is None else f" [{ratio.ci95[0]:.1f}, {ratio.ci95[1]:.1f}]"
    return f"{ratio.median:.1f}{interval}"


def transport_table(reports: Sequence[CaseReport]) -> str:
    """Return the Markdown table and an explanation of its columns."""
    lines = [
        "| Clip | dtype | Path | ms: median [min, max] | Faster | Bytes moved | Host copies | Peak device"
        " | Peak host |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for report in reports:
        head = f"| {report.clip} | {report.dtype} |"
        if report.ours is None or report.reference is None:
            lines.append(f"{head} skipped: {report.skipped} | | | | | | |")
            continue
        lines.append(f"{head} ours {_columns(report.ours, _format_speedup(report) + 'x')}")
        lines.append(f"{head} reference {_columns(report.reference, '1')}")
    device = reports[0].device if reports else ""
    levels_apart = max((report.levels_apart for report in reports), default=0)
    lines += [
        "",
        f"On {device}, one thread each, in turn. Pixels at most {levels_apart} of 255 levels apart. The reference path"
        " is the one of vLLM-Omni's async diffusion output: widen to float32, copy through a fresh segment, convert on"
        " the host. Host copies count each time the CPU writes the whole payload, conversion included; peaks are of"
        " worker and parent together.",
    ]
    return "\n".join(lines) + "\n"


def _columns(path: PathReport, faster: str) -> str:
    ms = sorted(1000 * seconds for seconds in path.seconds)
    peaks = " | ".join(
        "-" if peak is None else byte_count(peak) for peak in (path.device_peak_bytes, path.host_peak_bytes)
    )
    moved = byte_count(path.moved_bytes)
    return f"| {median(ms):.1f} [{ms[0]:.1f}, {ms[-1]:.1f}] | {faster} | {moved} | {path.host_copies} | {peaks} |"
