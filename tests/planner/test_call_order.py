"""The order of requests: few switches, none lost or starved, and a bounded number waiting."""

from collections.abc import Iterable, Iterator
from itertools import cycle, groupby, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.planner import grouped
from omni_cli.planner.call_order import PATIENCE
from omni_cli.request import Adapter, PlannedRequest
from tests.factories import planned


def ordered(models: Iterable[str], look_ahead: int) -> str:
    stream = (planned(index=index, model=model) for index, model in enumerate(models))
    return "".join(str(request.request.model) for request in grouped(stream, look_ahead))


@pytest.mark.parametrize(
    ("models", "look_ahead", "order"),
    [
        ("ABABAB", 10, "AAABBB"),
        ("ABCABC", 10, "AABBCC"),
        ("ABABAB", 0, "ABABAB"),
        ("ABBBA", 2, "ABBBA"),
        ("ABBBA", 3, "AABBB"),
        ("", 10, ""),
    ],
)
def test_requests_of_one_model_are_grouped_within_the_look_ahead(models: str, look_ahead: int, order: str) -> None:
    assert ordered(models, look_ahead) == order


def test_requests_are_grouped_by_model_then_adapters_then_size() -> None:
    lora = [Adapter(path="x")]
    rows = [
        planned(index=0, model="A"),
        planned(index=1, model="B"),
        planned(index=2, model="A", lora=lora),
        planned(index=3, model="A", height=32),
        planned(index=4, model="A", lora=lora),
        planned(index=5, model="A"),
        planned(index=6, model="A", lora=lora, height=32),
        planned(index=7, model="A", lora=[Adapter(path="x", weight=0.5)]),
    ]
    assert [request.index for request in grouped(rows, 100)] == [0, 5, 3, 2, 4, 6, 7, 1]


def test_stream_of_one_setup_is_not_read_ahead() -> None:
    read: list[int] = []

    def stream() -> Iterator[PlannedRequest]:
        for index in range(100):
            read.append(index)
            yield planned(index=index)

    out = grouped(stream(), 1000)
    for count in (1, 2, 3):
        next(out)
        assert len(read) == count


def test_first_request_goes_at_once_and_at_most_the_look_ahead_waits() -> None:
    read: list[int] = []

    def stream() -> Iterator[PlannedRequest]:
        for index, model in enumerate("A" + "B" * 99):
            read.append(index)
            yield planned(index=index, model=model)

    out = grouped(stream(), 7)
    assert (next(out).index, len(read)) == (0, 1)
    assert (next(out).index, len(read)) == (1, 9)
    assert (next(out).index, len(read)) == (2, 9)


def test_rare_model_on_an_endless_stream_is_not_starved() -> None:
    stream = (planned(index=index, model=model) for index, model in enumerate(cycle("AAAAAAAAAAAAAAAAAAAB")))
    out = [request.request.model for request in islice(grouped(stream, 10), 3000)]
    assert "B" in out[: 14 * PATIENCE]
    assert len([*groupby(out)]) < 3000 / (10 * PATIENCE) * 3


@given(st.text("ABC", max_size=60), st.integers(0, 12))
def test_grouping_loses_nothing_and_keeps_each_models_order(models: str, look_ahead: int) -> None:
    stream = (planned(index=index, model=model) for index, model in enumerate(models))
    out = [*grouped(stream, look_ahead)]
    assert sorted(request.index for request in out) == [*range(len(models))]
    for model in "ABC":
        indices = [request.index for request in out if request.request.model == model]
        assert indices == sorted(indices)
    assert len([*groupby(out, lambda request: request.request.model)]) <= max(1, len([*groupby(models)]))
