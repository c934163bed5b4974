"""What version 0.1.0 computed for a request never changes."""

from omni_cli.planner.version_1 import is_line_id, sample_seeds_v1
from omni_cli.request import MAX_SEED


def test_fingerprint_of_version_1_never_changes(planner, ask):
    one = planner()
    planned = one.plan(ask(id="a", prompt="p"))
    fingerprint = one.fingerprint_v1(planned, sample_seeds_v1(None, 1, 0, "a"))
    assert fingerprint == "fb5d1e885c9482c4b25b094e78e258bb13f05489814bab4238acb4dd7fe6a16f"


def test_seeds_of_version_1_never_change():
    assert sample_seeds_v1(None, 2, 0, "00000") == (9138653102013689099, 932497332522907331)
    assert sample_seeds_v1(MAX_SEED, 2, 0, "a") == (MAX_SEED, 0)


def test_ids_by_row_number_have_five_digits_or_more():
    assert is_line_id("00000")
    assert is_line_id("100000")
    assert not is_line_id("0000")
    assert not is_line_id("a0000")
