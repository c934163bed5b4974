"""Statistics of cases with a known answer."""

from math import comb

import pytest

from omni_cli.bench.stats import Ratio, percentile, recovered_share, speedup, spread


def test_spread_is_median_and_range() -> None:
    over_rounds = spread([3.0, 1.0, 2.0, 10.0])
    assert (over_rounds.median, over_rounds.min, over_rounds.max) == (2.5, 1.0, 10.0)


def test_a_constant_ratio_has_an_interval_of_no_width() -> None:
    fast = [1.0, 1.4, 0.9, 2.0]
    ratio = speedup([2 * value for value in fast], fast)
    assert ratio.median == pytest.approx(2.0)
    assert ratio.ci95 == pytest.approx((2.0, 2.0))


def test_pairing_by_round_cancels_a_drift() -> None:
    fast = [1.0, 2.0, 4.0, 8.0, 16.0]
    paired = speedup([1.1 * value for value in fast], fast)
    crossed = speedup([1.1 * value for value in reversed(fast)], fast)
    assert paired.direction == 1
    assert crossed.direction == 0


# For none of these n does a probability lie so close to a tail that resampling noise could move the interval.
@pytest.mark.parametrize("n", [3, 5, 7, 11, 21])
def test_interval_of_a_median_ends_at_the_order_statistics_of_the_binomial_distribution(n: int) -> None:
    """Of n draws, the median is at most the k-th smallest value with probability P(Bin(n, k/n) > n/2) (Efron 1979)."""
    slow = [float(value) for value in range(1, n + 1)]

    def at_most(k: int) -> float:
        return sum(comb(n, j) * (k / n) ** j * (1 - k / n) ** (n - j) for j in range(n // 2 + 1, n + 1))

    low = next(k for k in range(1, n + 1) if at_most(k) > 0.025)
    high = next(k for k in range(1, n + 1) if at_most(k) > 0.975)
    assert speedup(slow, [1.0] * n, resamples=100_000).ci95 == (low, high)


def test_the_same_rounds_give_the_same_interval() -> None:
    slow, fast = [1.0, 1.3, 1.1, 1.2], [1.0, 1.1, 0.9, 1.2]
    assert speedup(slow, fast) == speedup(slow, fast)


def test_one_round_has_no_interval_and_no_direction() -> None:
    assert speedup([3.0], [2.0]) == Ratio(1.5, None)
    assert speedup([3.0], [2.0]).direction == 0


@pytest.mark.parametrize(
    ("ci95", "direction"), [((1.01, 1.2), 1), ((0.99, 1.2), 0), ((0.8, 0.98), -1), ((1.0, 1.1), 0)]
)
def test_direction_needs_the_whole_interval_on_one_side(ci95: tuple[float, float], direction: int) -> None:
    assert Ratio(1.0, ci95).direction == direction


def test_times_that_are_not_paired_are_refused() -> None:
    with pytest.raises(ValueError, match="2 and 1"):
        speedup([1.0, 2.0], [1.0])


def test_recovered_share_is_one_when_saving_costs_nothing() -> None:
    everything = recovered_share([1.28, 2.56], [1.0, 2.0], [0.28, 0.56])
    nothing = recovered_share([1.28], [1.28], [0.28])
    assert everything is not None
    assert everything.median == pytest.approx(1.0)
    assert everything.ci95 == pytest.approx((1.0, 1.0))
    assert nothing == Ratio(0.0, None)
    assert recovered_share([1.0], [1.0], [0.0]) is None


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 2.0), (0.95, 4.0), (0.25, 1.0), (0.26, 2.0), (0.0, 1.0), (1.0, 4.0)]
)
def test_percentile_is_the_nearest_rank(share: float, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == value
