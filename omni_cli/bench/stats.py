"""Statistics of the benches: pure functions over seconds. numpy is imported on use, so that `--help` stays fast."""

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import msgspec

RESAMPLES = 10_000
CONFIDENCE = 0.95


class Spread(msgspec.Struct, frozen=True):
    """A median and its range."""

    median: float
    min: float
    max: float


class Ratio(msgspec.Struct, frozen=True):
    """A ratio of medians and its 95 % confidence interval, which is None after a single round."""

    median: float
    ci95: tuple[float, float] | None

    @property
    def direction(self) -> int:
        """1 if the whole interval lies above 1, -1 if below, 0 if it is None or contains 1 (within the noise)."""
        if self.ci95 is None:
            return 0
        low, high = self.ci95
        return 1 if low > 1 else -1 if high < 1 else 0


def spread(values: Sequence[float]) -> Spread:
    """Return median and range of `values`, which must not be empty."""
    return Spread(median(values), min(values), max(values))


def speedup(slow: Sequence[float], fast: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0) -> Ratio:
    """Return median(slow) / median(fast), both in seconds and paired by round.

    Raises ValueError if they are not paired.
    """
    return _bootstrap(lambda medians: medians[0] / medians[1], (slow, fast), resamples, seed)


def recovered_share(plain: Sequence[float], engine: Sequence[float], saving: Sequence[float]) -> Ratio | None:
    """Return the share of the plain loop's saving time that the engine does not spend; None where saving takes no time.

    It is (plain - engine) / saving, of medians of seconds paired by round. 1 means that saving costs nothing any more,
    above 1 that something else became cheaper as well. Raises ValueError if the times are not paired.
    """
    if min(saving) <= 0:
        return None
    columns = (plain, engine, saving)
    return _bootstrap(lambda medians: (medians[0] - medians[1]) / medians[2], columns, RESAMPLES, seed=0)


def _bootstrap(statistic: Callable[[Any], Any], columns: Sequence[Sequence[float]], resamples: int, seed: int) -> Ratio:
    """Return `statistic` of the medians of `columns`, with its percentile bootstrap interval.

    B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7 (1979). A round is resampled
    with all of its times, so a drift of the machine that slows all arms alike cancels. The same input gives the same
    interval. `statistic` takes one number or one array per column.
    """
    counts = {len(column) for column in columns}
    if len(counts) != 1 or 0 in counts:
        lengths = " and ".join(str(len(column)) for column in columns)
        raise ValueError(f"expected times paired by round, got {lengths} rounds")
    value = float(statistic([median(column) for column in columns]))
    (count,) = counts
    if count == 1:
        return Ratio(value, None)
    import numpy as np

    rounds = np.random.default_rng(seed).integers(0, count, size=(resamples, count))
    resampled = statistic([np.median(np.asarray(column)[rounds], axis=1) for column in columns])
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Ratio(value, (float(low), float(high)))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of `values` that at least `share` (0..1) of them do not exceed (nearest-rank method)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
