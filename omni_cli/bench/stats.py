"""All statistics of the benches: pure functions over seconds. numpy is imported where it is used: `--help` has no need of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

RESAMPLES = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and the range it comes from."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of medians and its 95 % confidence interval; the interval is None after a single round."""

    median: float
    ci95: tuple[float, float] | None

    @property
    def direction(self) -> int:
        """1 if the whole interval lies above 1, -1 if below, 0 if 1 is in it: then the difference is within the noise."""
        if self.ci95 is None:
            return 0
        low, high = self.ci95
        return 1 if low > 1 else -1 if high < 1 else 0


def spread(values: Sequence[float]) -> Spread:
    """Median and range of `values`, of which there must be at least one."""
    return Spread(median(values), min(values), max(values))


def speedup(slow: Sequence[float], fast: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> Ratio:
    """median(slow) / median(fast), both in seconds and paired by round."""
    return _with_interval(lambda medians: medians[0] / medians[1], (slow, fast), resamples, seed)


def recovered(plain: Sequence[float], ours: Sequence[float], saving: Sequence[float]) -> Ratio | None:
    """Share of the plain loop's saving time that we do not spend: (plain - ours) / saving, medians of paired rounds.

    1 means that saving has become free; more, that something else has become cheaper too. None where saving takes no time.
    """
    if min(saving) <= 0:
        return None
    columns = (plain, ours, saving)
    return _with_interval(lambda medians: (medians[0] - medians[1]) / medians[2], columns, RESAMPLES, seed=0)


def _with_interval(
    value_of: Callable[[Any], Any], columns: Sequence[Sequence[float]], resamples: int, seed: int
) -> Ratio:
    """`value_of` the medians of `columns`, and its percentile bootstrap interval (Efron 1979).

    A round is drawn with all of its times, so a drift of the machine that slows all arms alike cancels. The same input gives
    the same interval. `value_of` takes one number or one array per column.
    """
    counts = {len(column) for column in columns}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"times must be paired by round: {' and '.join(str(len(column)) for column in columns)}")
    value = float(value_of([median(column) for column in columns]))
    (count,) = counts
    if count == 1:
        return Ratio(value, None)
    import numpy as np

    rounds = np.random.default_rng(seed).integers(0, count, size=(resamples, count))
    drawn = value_of([np.median(np.asarray(column)[rounds], axis=1) for column in columns])
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Ratio(value, (float(low), float(high)))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0..1) of `values` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
