"""Requests of a bench, their number, and `--resolution`."""

import pytest

from omni_cli.bench.workload import BUDGET_S, BenchSize, bench_requests, choose_size, parse_resolution
from omni_cli.errors import UsageError
from omni_cli.request import GenerationRequest


@pytest.mark.parametrize(("text", "size"), [("768", (768, 768)), ("832x480", (832, 480)), ("64×32", (64, 32))])
def test_a_resolution_is_a_square_or_width_by_height(text: str, size: tuple[int, int]) -> None:
    assert parse_resolution(text) == size


@pytest.mark.parametrize("text", ["", "x", "768x", "x768", "-64", "0", "64x64x9", "7e2", "٦٤", "99999999"])
def test_an_invalid_resolution_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--resolution"):
        parse_resolution(text)


def test_requests_differ_in_id_prompt_and_seed_and_share_the_rest() -> None:
    requests = bench_requests(GenerationRequest(width=64, num_inference_steps=3), 20)
    assert len({request.id for request in requests}) == 20
    assert len({request.seed for request in requests}) == 20
    assert len({request.prompt for request in requests}) > 4
    assert {(request.width, request.num_inference_steps) for request in requests} == {(64, 3)}


def test_rounds_share_file_names_but_no_prompt_and_no_seed() -> None:
    first, second = bench_requests(GenerationRequest(), 16, 4), bench_requests(GenerationRequest(), 16, 20)
    assert not {r.prompt for r in first} & {r.prompt for r in second}
    assert not {r.seed for r in first} & {r.seed for r in second}
    assert [r.id for r in first] == [r.id for r in second]


def test_explicit_sizes_are_kept() -> None:
    assert choose_size(BenchSize(2, 7), [1.0, 1.0], 1) == (2, 7)


@pytest.mark.parametrize("seconds", [0.05, 0.2, 1.0, 3.0, 3.4])
def test_default_size_keeps_three_arms_within_the_budget(seconds: float) -> None:
    requests, rounds = choose_size(BenchSize(), [seconds] * 3, 1)
    assert requests >= 4
    assert rounds >= 3
    assert requests * rounds * 3 * seconds <= BUDGET_S


def test_a_slow_model_gets_the_smallest_size() -> None:
    assert choose_size(BenchSize(), [60.0, 60.0], 1) == (4, 3)


def test_a_round_holds_at_least_four_whole_batches() -> None:
    requests, _ = choose_size(BenchSize(), [0.2] * 5, 8)
    assert requests % 8 == 0
    assert requests >= 32
