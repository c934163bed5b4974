"""The hidden time of intervals worked out by hand, and against a count second by second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.request import Interval
from omni_cli.trace import Overlap


def overlap(forwards: list[tuple[float, float]], outputs: list[tuple[float, float]]) -> Overlap:
    result = Overlap()
    for start, end in forwards:
        result.add_forward(Interval(start, end))
    for start, end in outputs:
        result.add_output(Interval(start, end))
    return result


def test_output_across_a_gap_is_hidden_only_behind_forwards() -> None:
    result = overlap([(0, 10), (12, 20), (21, 30)], [(10, 25)])
    assert result.hidden_seconds == 8 + 4
    assert result.output_seconds == 15
    assert (result.idle_seconds, result.longest_gap, result.span_seconds) == (3, 2, 30)


def test_output_reported_before_the_forward_that_hides_it_counts_the_same() -> None:
    result = Overlap()
    result.add_forward(Interval(0, 10))
    result.add_output(Interval(10, 25))
    result.add_forward(Interval(12, 20))
    result.add_forward(Interval(21, 30))
    assert result.hidden_seconds == 12


def test_overlapping_forwards_hide_a_second_once() -> None:
    result = overlap([(0, 10), (5, 15)], [(4, 14)])
    assert result.hidden_seconds == 10
    assert result.forward_seconds == 20
    assert result.idle_seconds == 0


def test_an_interval_that_ends_before_it_starts_counts_nothing() -> None:
    result = overlap([(0, 10)], [(7, 5)])
    assert (result.hidden_seconds, result.output_seconds) == (0, 0)


def test_without_intervals_the_span_is_zero() -> None:
    assert Overlap().span_seconds == 0


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[bool]]:
    cuts = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=16)))
    forwards = list(zip(cuts[::2], cuts[1::2], strict=False))
    outputs = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=8))
    order = draw(st.permutations([True] * len(forwards) + [False] * len(outputs)))
    return forwards, [(start, start + length) for start, length in outputs], list(order)


@given(streams())
def test_any_order_of_reports_agrees_with_a_count_second_by_second(
    stream: tuple[list[tuple[int, int]], list[tuple[int, int]], list[bool]],
) -> None:
    forwards, outputs, order = stream
    result, left, right = Overlap(), iter(forwards), iter(outputs)
    for is_forward in order:
        if is_forward:
            result.add_forward(Interval(*next(left)))
        else:
            result.add_output(Interval(*next(right)))
    busy = {second for start, end in forwards for second in range(start, end)}
    assert result.hidden_seconds == pytest.approx(sum(s in busy for a, b in outputs for s in range(a, b)))
    assert result.idle_seconds == pytest.approx(forwards[-1][1] - forwards[0][0] - len(busy))
