"""How much is rendered, and what."""

import pytest

from omni_cli.bench.load import BUDGET_S, Counts, requests_of, settle, size_of
from omni_cli.errors import UsageError
from omni_cli.request import GenerationRequest


@pytest.mark.parametrize(("text", "size"), [("768", (768, 768)), ("832x480", (832, 480)), ("64×32", (64, 32))])
def test_a_resolution_is_a_square_or_width_by_height(text: str, size: tuple[int, int]) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "x", "768x", "x768", "-64", "0", "64x64x9", "7e2", "٦٤", "99999999"])
def test_a_resolution_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--resolution"):
        size_of(text)


def test_requests_differ_in_id_prompt_and_seed_and_share_the_rest() -> None:
    requests = requests_of(GenerationRequest(width=64, num_inference_steps=3), 20)
    assert len({request.id for request in requests}) == 20
    assert len({request.seed for request in requests}) == 20
    assert len({request.prompt for request in requests}) > 4
    assert {(request.width, request.num_inference_steps) for request in requests} == {(64, 3)}


def test_no_two_rounds_have_a_prompt_or_seed_in_common_but_the_files_are_the_same() -> None:
    first, second = requests_of(GenerationRequest(), 16, 4), requests_of(GenerationRequest(), 16, 20)
    assert not {r.prompt for r in first} & {r.prompt for r in second}
    assert not {r.seed for r in first} & {r.seed for r in second}
    assert [r.id for r in first] == [r.id for r in second]


def test_what_was_said_is_taken() -> None:
    assert settle(Counts(2, 7), [1.0, 1.0], 1) == (2, 7)


@pytest.mark.parametrize("pace", [0.05, 0.2, 1.0, 3.0, 3.4])
def test_counts_keep_three_arms_within_the_budget_on_two_cores(pace: float) -> None:
    requests, rounds = settle(Counts(), [pace] * 3, 1)
    assert requests >= 4
    assert rounds >= 3
    assert requests * rounds * 3 * pace <= BUDGET_S


def test_a_slow_model_still_gets_the_fewest_that_tell_anything() -> None:
    assert settle(Counts(), [60.0, 60.0], 1) == (4, 3)


def test_with_batches_a_round_holds_whole_ones_and_at_least_four() -> None:
    requests, _ = settle(Counts(), [0.2] * 5, 8)
    assert requests % 8 == 0
    assert requests >= 32
