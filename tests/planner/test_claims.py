"""Ids and names of all requests together."""

import tracemalloc

from omni_cli.planner.claims import Claims


def test_the_first_line_of_an_id_is_remembered():
    claims = Claims()
    assert claims.claim_id("a", 1) is None
    assert claims.claim_id("A", 2) is None
    assert claims.claim_id("a", 3) == 1


def test_names_are_compared_without_case_and_in_one_form():
    claims = Claims()
    assert claims.claim_file("x/Été.png", 1) is None
    assert claims.claim_file("x/e\u0301TE\u0301.png", 2) == 1
    assert claims.claim_file("x/STRASSE.png", 3) is None
    assert claims.claim_file("X/straße.PNG", 4) == 3


def test_a_name_is_a_file_or_a_folder_not_both():
    claims = Claims()
    assert claims.claim_file("a.png", 1) is None
    assert claims.claim_file("A.png/b/c.png", 2) == 1
    assert claims.claim_file("d/e/f.png", 3) is None
    assert claims.claim_file("d/E", 4) == 3
    assert claims.claim_file("d/e/g.png", 5) is None


def test_many_claims_stay_small():
    tracemalloc.start()
    try:
        claims = Claims()
        for number in range(20_000):
            claims.claim_file("x" * 180 + str(number), number + 1000)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20_000 * 200
