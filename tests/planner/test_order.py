"""The order of requests: few switches, nothing lost, nothing starved, and no more held than was said."""

from collections.abc import Iterable, Iterator
from itertools import cycle, groupby, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.planner import grouped
from omni_cli.planner.order import PATIENCE, Group
from omni_cli.request import Adapter, GenerationRequest, PlannedRequest


def planned(index: int, **fields: Any) -> PlannedRequest:
    request = GenerationRequest(id=str(index), **{"height": 64, "width": 64, **fields})
    return PlannedRequest(request=request, index=index, seeds=(0,), files=(), fingerprint="")


def ordered(models: Iterable[str], look_ahead: int) -> str:
    stream = (planned(index, model=model) for index, model in enumerate(models))
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
def test_requests_of_one_model_come_together_within_the_look_ahead(models: str, look_ahead: int, order: str) -> None:
    assert ordered(models, look_ahead) == order


def test_within_a_model_adapters_come_together_and_within_them_shapes() -> None:
    lora = [Adapter(path="x")]
    rows = [
        planned(0, model="A"),
        planned(1, model="B"),
        planned(2, model="A", lora=lora),
        planned(3, model="A", height=32),
        planned(4, model="A", lora=lora),
        planned(5, model="A"),
        planned(6, model="A", lora=lora, height=32),
        planned(7, model="A", lora=[Adapter(path="x", weight=0.5)]),
    ]
    assert [request.index for request in grouped(rows, 100)] == [0, 5, 3, 2, 4, 6, 7, 1]


def test_a_stream_of_one_group_is_not_read_ahead() -> None:
    read: list[int] = []

    def stream() -> Iterator[PlannedRequest]:
        for index in range(100):
            read.append(index)
            yield planned(index)

    out = grouped(stream(), 1000)
    for count in (1, 2, 3):
        next(out)
        assert len(read) == count


def test_the_first_request_goes_at_once_and_no_more_than_the_look_ahead_is_held() -> None:
    read: list[int] = []

    def stream() -> Iterator[PlannedRequest]:
        for index, model in enumerate("A" + "B" * 99):
            read.append(index)
            yield planned(index, model=model)

    out = grouped(stream(), 7)
    assert (next(out).index, len(read)) == (0, 1)
    assert (next(out).index, len(read)) == (1, 9)
    assert (next(out).index, len(read)) == (2, 9)


def test_on_an_endless_stream_everything_has_its_turn_and_turns_are_long() -> None:
    stream = (planned(index, model=model) for index, model in enumerate(cycle("AAAAAAAAAAAAAAAAAAAB")))
    out = [request.request.model for request in islice(grouped(stream, 10), 3000)]
    assert "B" in out[: 14 * PATIENCE]
    assert len([*groupby(out)]) < 3000 / (10 * PATIENCE) * 3


@given(st.text("ABC", max_size=60), st.integers(0, 12))
def test_nothing_is_lost_and_each_group_keeps_its_order(models: str, look_ahead: int) -> None:
    stream = (planned(index, model=model) for index, model in enumerate(models))
    out = [*grouped(stream, look_ahead)]
    assert sorted(request.index for request in out) == [*range(len(models))]
    for model in "ABC":
        indices = [request.index for request in out if request.request.model == model]
        assert indices == sorted(indices)
    assert len([*groupby(out, lambda request: request.request.model)]) <= max(1, len([*groupby(models)]))


def test_nearness_ranks_a_shape_below_adapters_below_a_model() -> None:
    here = Group("A", (), 64, 64, 1)
    others = [here, here._replace(height=32), here._replace(adapters=(("x", 1.0),)), here._replace(model="B")]
    assert [here.nearness(other) for other in others] == [3, 2, 1, 0]
