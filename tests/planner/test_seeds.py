"""Seeds belong to samples."""

from omni_cli.planner.seeds import sample_seeds
from omni_cli.request import MAX_SEED


def test_a_given_seed_counts_up_and_wraps():
    assert sample_seeds(5, 3, 0, "a") == (5, 6, 7)
    assert sample_seeds(MAX_SEED, 2, 0, "a") == (MAX_SEED, 0)
    assert sample_seeds(0, 1, 9, "b") == (0,)


def test_a_derived_seed_is_this_very_number_for_ever():
    assert sample_seeds(None, 2, 0, "00000") == (9138653102013689099, 932497332522907331)


def test_derived_seeds_differ_by_base_seed_id_and_sample_and_not_by_count():
    seen = {
        seed for base in (0, 1, 11) for name in ("a", "1\na", "日本") for seed in sample_seeds(None, 12, base, name)
    }
    assert len(seen) == 3 * 3 * 12
    assert all(0 <= seed <= MAX_SEED for seed in seen)
    assert sample_seeds(None, 5, 0, "a")[:2] == sample_seeds(None, 2, 0, "a")
