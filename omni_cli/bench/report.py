"""The report of a bench: the document behind `--json`, from which table, sentences and chart are made."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

import msgspec

from omni_cli.bench.arms import ARM_SPECS, PLAIN, PLAIN_TUNED, Measurement
from omni_cli.bench.equality import OutputComparison
from omni_cli.bench.figures import OverlapFigures, overlap_figures
from omni_cli.bench.stats import Ratio, Spread, recovered_share, speedup, spread
from omni_cli.events import EncodeDone
from omni_cli.request import GenerationRequest

SCHEMA_VERSION = 1


class ArmReport(msgspec.Struct, frozen=True, kw_only=True):
    """One arm.

    `qps` (requests per second) is 1 / median, `rounds` the seconds per request of each round; without loading.
    """

    qps: float
    seconds_per_request: Spread
    rounds: tuple[float, ...]
    load_seconds: float
    overlap: OverlapFigures = msgspec.field(name="flow")


class BenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the bench.

    `request` has the values that all requests share, sizes are pixels, `format` is the file's.
    """

    model: str
    pipeline: str
    device: str
    device_name: str
    dtype: str
    request: GenerationRequest
    width: int
    height: int
    num_frames: int
    format: str
    requests: int
    rounds: int
    batch_size: int
    device_postprocess: bool


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The document. Percentages and the gap in milliseconds are those of the arm `async`; null where unknown.

    `ratios` are of the QPS of two arms: "async/plain" is async over plain.
    `output_share_of_plain_pct` is the share of the plain loop's time spent in saving, `output_recovered` the share
    (0..1) of that time that async does not spend. `bytes_moved_per_request` go from device to host.
    """

    schema_version: int = SCHEMA_VERSION
    machine: dict[str, str | int]
    settings: BenchSettings
    arms: dict[str, ArmReport]
    ratios: dict[str, Ratio]
    output_hidden_pct: float | None
    device_idle_pct: float | None
    longest_gap_ms: float | None
    output_share_of_plain_pct: float | None
    output_recovered: Ratio | None
    bytes_moved_per_request: float | None
    outputs_equal: bool
    outputs_compared: tuple[str, ...]


def summarize(
    measurement: Measurement,
    comparisons: Sequence[OutputComparison],
    machine: dict[str, str | int],
    settings: BenchSettings,
) -> Report:
    """Return the report of `measurement`."""
    arms = {name: _arm_report(name, measurement) for name in measurement.rounds}
    subject = arms.get("async") or next(arm for name, arm in arms.items() if ARM_SPECS[name].is_engine)
    saving = _saving(measurement)
    recovered = None
    if saving and "async" in arms:
        recovered = recovered_share(measurement.seconds(PLAIN), measurement.seconds("async"), saving)
    return Report(
        machine=machine,
        settings=settings,
        arms=arms,
        ratios=_ratios(measurement),
        output_hidden_pct=_scale(subject.overlap.output_hidden, 100),
        device_idle_pct=_scale(subject.overlap.device_idle, 100),
        longest_gap_ms=_scale(subject.overlap.longest_gap, 1000),
        output_share_of_plain_pct=100 * (median(saving) / median(measurement.seconds(PLAIN))) if saving else None,
        output_recovered=recovered,
        bytes_moved_per_request=subject.overlap.bytes_moved,
        outputs_equal=all(comparison.passed for comparison in comparisons),
        outputs_compared=tuple(map(str, comparisons)),
    )


def _arm_report(name: str, measurement: Measurement) -> ArmReport:
    seconds = measurement.seconds(name)
    seconds_per_request = spread(seconds)
    return ArmReport(
        qps=1 / seconds_per_request.median,
        seconds_per_request=seconds_per_request,
        rounds=tuple(seconds),
        load_seconds=measurement.loaded[name].seconds,
        overlap=overlap_figures(measurement.rounds[name]),
    )


def _saving(measurement: Measurement) -> list[float]:
    """Return the seconds per request that the plain loop spent in saving, round by round; empty without that arm."""
    return [
        fmean(event.encode.seconds for event in turn.events if isinstance(event, EncodeDone))
        for turn in measurement.rounds.get(PLAIN, [])
    ]


def _ratios(measurement: Measurement) -> dict[str, Ratio]:
    """Compare each async arm with its synchronous twin, and every arm with the plain loops."""
    pairs = [(name, f"no-{name}") for name in measurement.rounds if f"no-{name}" in measurement.rounds]
    engines = [name for name in measurement.rounds if ARM_SPECS[name].is_engine]
    for plain, others in ((PLAIN, [PLAIN_TUNED, *engines]), (PLAIN_TUNED, engines)):
        pairs += [(name, plain) for name in others if {name, plain} <= measurement.rounds.keys()]
    return {f"{fast}/{slow}": speedup(measurement.seconds(slow), measurement.seconds(fast)) for fast, slow in pairs}


def _scale(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def write_json(path: Path, document: object) -> None:
    """Write `document` as indented JSON. Raises OSError."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
