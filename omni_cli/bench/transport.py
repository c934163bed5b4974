"""`omni-gen bench transport`: from a decoded tensor on the device to bytes that an encoder can read, two ways.

parent ── TransportJob on stdin ──> python -m omni_cli.bench.ways ── one CaseReport per line ──> parent
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from omni_cli.bench.conduct import Say
from omni_cli.bench.stats import speedup
from omni_cli.errors import EngineError, UsageError
from omni_cli.view.text import size

CLIPS = ("1x1024x1024", "81x480x832", "121x1088x1920")
DTYPES = ("bfloat16", "float32")
REPEATS = 7

_LOG_TAIL = 4000


class Clip(msgspec.Struct, frozen=True):
    """Frames, height and width in pixels; one frame is an image."""

    frames: int
    height: int
    width: int

    def __str__(self) -> str:
        """`81x480x832`."""
        return f"{self.frames}x{self.height}x{self.width}"

    @property
    def levels(self) -> int:
        """Bytes of the uint8 RGB output."""
        return 3 * self.frames * self.height * self.width


class TransportJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure; every clip in every dtype, each way at most `repeats` times."""

    clips: tuple[Clip, ...]
    dtypes: tuple[str, ...] = DTYPES
    repeats: int = REPEATS
    device: str = "auto"


class WayReport(msgspec.Struct, frozen=True, kw_only=True):
    """One way. `seconds` per repeat, paired with those of the other way.

    `moved_bytes` is what crosses from worker to parent, `host_copies` how often the CPU writes the whole payload to host
    memory (its conversion included). Peaks are beyond what was there before, of worker's and parent's part together; null
    where not known.
    """

    seconds: tuple[float, ...]
    moved_bytes: int
    host_copies: int
    device_peak_bytes: int | None
    host_peak_bytes: int | None


class CaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """A clip in a dtype, on `device`; `skipped` says why nothing was measured. `levels_apart` is the largest difference."""

    clip: Clip
    dtype: str
    device: str
    ours: WayReport | None = None
    seed: WayReport | None = None
    levels_apart: int = 0
    skipped: str | None = None


def clip_of(text: str) -> Clip:
    """`81x480x832` as frames, height, width. Raises UsageError."""
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})x([1-9]\d{0,4})", text.lower().replace("×", "x"))
    if match is None:
        raise UsageError(f"--clip {text}: must be FRAMESxHEIGHTxWIDTH, such as 81x480x832")
    return Clip(*(int(part) for part in match.groups()))


def run_transport_bench(job: TransportJob, say: Say) -> list[CaseReport]:
    """Every case, measured in a process of its own: this one imports no torch. Raises EngineError if that process fails."""
    reports = []
    for report in _cases(job):
        reports.append(report)
        outcome = report.skipped or f"{speed_of(report)}x"
        say(f"{report.clip} {report.dtype}: {outcome}")
    return reports


def _cases(job: TransportJob) -> Iterator[CaseReport]:
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "omni_cli.bench.ways"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with process.stdin:
                process.stdin.write(msgspec.json.encode(job))
            for line in process.stdout:
                yield msgspec.json.decode(line, type=CaseReport)
            if process.wait() != 0:
                raise EngineError(f"bench transport ended with code {process.returncode}; its log:\n{_tail(log)}")
        finally:
            process.kill()  # harmless once it has ended
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read()[-_LOG_TAIL:].decode("utf-8", "replace").strip()


def speed_of(report: CaseReport) -> str:
    """How many times faster ours is, with its interval."""
    assert report.ours is not None
    assert report.seed is not None
    ratio = speedup(report.seed.seconds, report.ours.seconds)
    interval = "" if ratio.ci95 is None else f" [{ratio.ci95[0]:.1f}, {ratio.ci95[1]:.1f}]"
    return f"{ratio.median:.1f}{interval}"


def transport_table(reports: Sequence[CaseReport]) -> str:
    """The Markdown table and what its columns mean."""
    lines = [
        "| Clip | dtype | Way | ms: median [min, max] | Faster | Bytes moved | Host copies | Peak device | Peak host |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for report in reports:
        head = f"| {report.clip} | {report.dtype} |"
        if report.ours is None or report.seed is None:
            lines.append(f"{head} skipped: {report.skipped} | | | | | | |")
            continue
        lines.append(f"{head} ours {_columns(report.ours, speed_of(report) + 'x')}")
        lines.append(f"{head} seed documents' {_columns(report.seed, '1')}")
    device = reports[0].device if reports else ""
    apart = max((report.levels_apart for report in reports), default=0)
    lines += [
        "",
        f"On {device}, one thread each, in turn. Pixels at most {apart} of 255 levels apart. Host copies count each time the CPU"
        " writes the whole payload, conversion included; peaks are of worker's and parent's part together.",
    ]
    return "\n".join(lines) + "\n"


def _columns(way: WayReport, faster: str) -> str:
    ms = sorted(1000 * seconds for seconds in way.seconds)
    middle = ms[len(ms) // 2] if len(ms) % 2 else (ms[len(ms) // 2 - 1] + ms[len(ms) // 2]) / 2
    peaks = " | ".join("-" if peak is None else size(peak) for peak in (way.device_peak_bytes, way.host_peak_bytes))
    return f"| {middle:.1f} [{ms[0]:.1f}, {ms[-1]:.1f}] | {faster} | {size(way.moved_bytes)} | {way.host_copies} | {peaks} |"


def write_json(path: Path, document: object) -> None:
    """A document as indented JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
