"""Ids and file names of all requests together."""

import tracemalloc
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from omni_cli.planner.checks.unique_names import UniqueNames

ids = st.sampled_from(["a", "A", "b", "é", "e\u0301", "É", "a.mp4", "straße", "STRASSE", "a" * 40, "A" * 40, "a\ud800"])


def test_second_claim_of_an_id_returns_the_first_line():
    names = UniqueNames()
    assert names.claim_id("a", 1) is None
    assert names.claim_id("A", 2) is None
    assert names.claim_id("a", 3) == 1


def test_files_are_compared_without_case_in_one_unicode_form():
    names = UniqueNames()
    assert names.claim_file("x/Été.png", 1) is None
    assert names.claim_file("x/e\u0301TE\u0301.png", 2) == 1
    assert names.claim_file("x/STRASSE.png", 3) is None
    assert names.claim_file("X/straße.PNG", 4) == 3


def test_name_is_a_file_or_a_folder_but_not_both():
    names = UniqueNames()
    assert names.claim_file("a.png", 1) is None
    assert names.claim_file("A.png/b/c.png", 2) == 1
    assert names.claim_file("d/e/f.png", 3) is None
    assert names.claim_file("d/E", 4) == 3
    assert names.claim_file("d/e/g.png", 5) is None


def test_long_names_take_little_memory():
    tracemalloc.start()
    try:
        names = UniqueNames()
        for number in range(20_000):
            names.claim_file("x" * 180 + str(number), number + 1000)
        traced, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert traced < 20_000 * 200


@given(
    st.lists(
        st.tuples(st.booleans(), ids | st.lists(ids, min_size=2, max_size=3).map("/".join)),
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_claims_clash_as_in_a_plain_list(steps):
    names, seen_ids, seen_files = UniqueNames(), {}, {}
    for line, (is_id, name) in enumerate(steps, 1):
        if is_id:
            assert names.claim_id(name, line) == (seen_ids.get(name))
            seen_ids.setdefault(name, line)
            continue
        folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
        clashes = [
            seen
            for seen in seen_files
            if seen == folded or seen.startswith(folded + "/") or folded.startswith(seen + "/")
        ]
        assert (names.claim_file(name, line) is None) == (not clashes)
        if not clashes:
            seen_files[folded] = line
