"""Shards: which requests are whose, and which shard a job of an array is."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.storage.shards import holds, scheduled_shard, shard_name


@given(st.text(), st.integers(1, 50))
def test_each_request_is_of_exactly_one_shard(request_id: str, count: int) -> None:
    assert sum(holds((number, count), request_id) for number in range(count)) == 1
    from_one = [number % count for number in range(1, count + 1) if holds((number, count), request_id)]
    assert from_one == [number for number in range(count) if holds((number, count), request_id)]


def test_shards_are_of_about_one_size() -> None:
    shares = Counter(number for n in range(8000) for number in range(8) if holds((number, 8), f"a cat-{n}"))
    assert all(900 < share < 1100 for share in shares.values())


def test_the_last_shard_counted_from_one_is_the_first_counted_from_zero() -> None:
    assert shard_name((4, 4)) == shard_name((0, 4)) == ".0-of-4"
    assert shard_name(None) == ""


@pytest.mark.parametrize(
    ("environ", "shard"),
    [
        ({}, None),
        ({"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "4"}, (2, 4)),
        ({"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "5"}, (2, 4)),
        (
            {
                "SLURM_ARRAY_TASK_ID": "10",
                "SLURM_ARRAY_TASK_COUNT": "3",
                "SLURM_ARRAY_TASK_MIN": "2",
                "SLURM_ARRAY_TASK_STEP": "4",
            },
            (2, 3),
        ),
        ({"CLOUD_RUN_TASK_INDEX": "0", "CLOUD_RUN_TASK_COUNT": "9"}, (0, 9)),
        ({"AWS_BATCH_JOB_ARRAY_INDEX": "3", "AWS_BATCH_JOB_ARRAY_SIZE": "4"}, (3, 4)),
        ({"JOB_COMPLETION_INDEX": "1", "JOB_COMPLETIONS": "2"}, (1, 2)),
    ],
)
def test_a_job_of_an_array_knows_its_shard(environ: dict[str, str], shard: tuple[int, int] | None) -> None:
    assert scheduled_shard(environ=environ) == shard


def test_the_number_of_shards_can_be_given_where_the_scheduler_does_not_say_it() -> None:
    assert scheduled_shard(8, {"JOB_COMPLETION_INDEX": "5"}) == (5, 8)
    with pytest.raises(ValueError, match=r"JOB_COMPLETIONS is not; .* auto/8"):
        scheduled_shard(environ={"JOB_COMPLETION_INDEX": "5"})
    with pytest.raises(ValueError, match="is not one of 4 shards"):
        scheduled_shard(4, {"JOB_COMPLETION_INDEX": "5"})
    with pytest.raises(ValueError, match="JOB_COMPLETION_INDEX='x' is not a number"):
        scheduled_shard(4, {"JOB_COMPLETION_INDEX": "x"})
