"""What is written of a bench: the document behind `--json`, from which table and sentences are made."""

from collections.abc import Sequence
from statistics import fmean, median

import msgspec

from omni_cli.bench.arms import PLAIN
from omni_cli.bench.conduct import Measured
from omni_cli.bench.figures import Flow, flow_of
from omni_cli.bench.stats import Ratio, recovered, speedup, spread
from omni_cli.bench.verify import Check
from omni_cli.events import EncodeDone
from omni_cli.request import GenerationRequest

SCHEMA_VERSION = 1


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per request over rounds."""

    median: float
    min: float
    max: float


class ArmReport(msgspec.Struct, frozen=True, kw_only=True):
    """One arm. `qps` is one over the median; `rounds` the seconds per request of each round; loading is in none of these."""

    qps: float
    seconds_per_request: Seconds
    rounds: tuple[float, ...]
    load_seconds: float
    flow: Flow


class RatioReport(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio of medians; of two arms, how many times the QPS of the second the first has. `ci95` is null after one round."""

    median: float
    ci95: tuple[float, float] | None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What was run. `request` has the values that all requests share, `format` is the file's."""

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
    """The document. Shares in percent and the gap in milliseconds are those of the arm `async`; null where not known.

    `output_share_of_plain_pct` is the share of the plain loop's time that goes into saving, `output_recovered` the share
    (0..1) of that which async does not spend.
    """

    schema_version: int = SCHEMA_VERSION
    machine: dict[str, str | int]
    settings: Settings
    arms: dict[str, ArmReport]
    ratios: dict[str, RatioReport]
    output_hidden_pct: float | None
    device_idle_pct: float | None
    longest_gap_ms: float | None
    output_share_of_plain_pct: float | None
    output_recovered: RatioReport | None
    bytes_moved_per_request: float | None
    outputs_equal: bool
    outputs_compared: tuple[str, ...]


def summarize(measured: Measured, checks: Sequence[Check], machine: dict[str, str | int], settings: Settings) -> Report:
    """The report of what was measured."""
    arms = {name: _arm(name, measured) for name in measured.rounds}
    subject = arms.get("async") or next(arm for name, arm in arms.items() if name != PLAIN)
    flow = subject.flow
    return Report(
        machine=machine,
        settings=settings,
        arms=arms,
        ratios=_ratios(measured),
        output_hidden_pct=_times(flow.output_hidden, 100),
        device_idle_pct=_times(flow.device_idle, 100),
        longest_gap_ms=_times(flow.longest_gap, 1000),
        output_share_of_plain_pct=_times(_saving_share(measured), 100),
        output_recovered=_recovered(measured),
        bytes_moved_per_request=flow.bytes_moved,
        outputs_equal=all(check.passed for check in checks),
        outputs_compared=tuple(map(str, checks)),
    )


def _arm(name: str, measured: Measured) -> ArmReport:
    times = measured.seconds(name)
    found = spread(times)
    return ArmReport(
        qps=1 / found.median,
        seconds_per_request=Seconds(median=found.median, min=found.low, max=found.high),
        rounds=tuple(times),
        load_seconds=measured.ready[name].seconds,
        flow=flow_of(measured.rounds[name]),
    )


def _ratios(measured: Measured) -> dict[str, RatioReport]:
    """Async against its synchronous twin, and every arm of the engine against the plain loop."""
    pairs = [(name, f"no-{name}") for name in measured.rounds if f"no-{name}" in measured.rounds]
    if PLAIN in measured.rounds:
        pairs += [(name, PLAIN) for name in measured.rounds if name != PLAIN]
    ratios = {}
    for fast, slow in pairs:
        ratios[f"{fast}/{slow}"] = _reported(speedup(measured.seconds(slow), measured.seconds(fast)))
    return ratios


def _saving_share(measured: Measured) -> float | None:
    if PLAIN not in measured.rounds:
        return None
    return median(_saving(measured)) / median(measured.seconds(PLAIN))


def _recovered(measured: Measured) -> RatioReport | None:
    if not {PLAIN, "async"} <= measured.rounds.keys():
        return None
    found = recovered(measured.seconds(PLAIN), measured.seconds("async"), _saving(measured))
    return None if found is None else _reported(found)


def _reported(ratio: Ratio) -> RatioReport:
    return RatioReport(median=ratio.median, ci95=ratio.ci95)


def _saving(measured: Measured) -> list[float]:
    """Seconds per request that the plain loop spent in saving, round by round."""
    return [
        fmean(event.encode.seconds for event in turn.events if isinstance(event, EncodeDone))
        for turn in measured.rounds[PLAIN]
    ]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
