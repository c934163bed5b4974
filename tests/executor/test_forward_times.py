"""The limit of a forward with --forward-timeout auto."""

import pytest

from omni_cli.executor.forward_times import FACTOR, LEAST_S, ForwardTimes
from omni_cli.shape import Setup, Shape, Size

SMALL = Shape(setup=Setup(size=Size(64, 64, 1)))
LARGE = Shape(setup=Setup(size=Size(512, 512, 1)))


def test_auto_follows_the_slowest_forward_of_the_shape() -> None:
    times = ForwardTimes("auto")
    assert times.limit(SMALL) is None
    for seconds, limit in ((0.1, LEAST_S), (9.0, FACTOR * 9.0), (1.0, FACTOR * 9.0)):
        times.record(SMALL, seconds)
        assert times.limit(SMALL) == limit
    assert times.limit(LARGE) is times.limit(None) is None


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_what_the_user_says_holds_for_every_forward(timeout: float | None) -> None:
    times = ForwardTimes(timeout)
    times.record(SMALL, 1000.0)
    assert times.limit(SMALL) == times.limit(LARGE) == times.limit(None) == timeout
