"""From a request to its files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.planner.files import file_names
from omni_cli.planner.naming import Misnamed
from omni_cli.planner.template import NameTemplate
from omni_cli.request import GenerationRequest

TEXT = st.text(st.characters(exclude_categories=()), max_size=300) | st.text("./\\a-", max_size=12)


def names(seeds=(5,), template="{id}", extension=".png", **fields):
    request = GenerationRequest(**{"id": "a", **fields})
    return file_names(request, 3, seeds, NameTemplate(template), extension)


def test_one_output_has_the_plain_name_and_several_are_numbered():
    assert names() == ("a.png",)
    assert names((5, 6, 7)) == ("a-0.png", "a-1.png", "a-2.png")


def test_a_template_with_n_numbers_the_outputs_itself():
    assert names((5, 6), "{id}_{n}_{seed}") == ("a_0_5.png", "a_1_6.png")
    assert names((5, 6), "{id}_{seed}") == ("a_5-0.png", "a_6-1.png")


def test_output_may_hold_folders_and_its_own_extension():
    assert names(output="x/./y//shot.v2") == ("x/y/shot.v2.png",)
    assert names(output="x/a.JPEG", extension=".jpg") == ("x/a.JPEG",)
    assert names((1, 2), output="x/a.png") == ("x/a-0.png", "x/a-1.png")
    assert names((1, 2), "{n}{id}", output="a.png") == ("a-0.png", "a-1.png")


@pytest.mark.parametrize(
    "output", ["../a.png", "x/../../a", "/etc/a.png", "x/", "x/.", "manifest.jsonl/a.png", "MANIFEST.jsonl/a", ""]
)
def test_an_output_that_is_no_file_of_the_folder_is_refused(output):
    with pytest.raises(Misnamed) as refused:
        names(output=output)
    assert refused.value.field == "output"


def test_the_journals_files_cannot_be_named():
    assert names(output=".omni-gen.lock/a.png") == ("_omni-gen.lock/a.png",)
    assert names(id="manifest.jsonl") == ("manifest.jsonl.png",)


def test_a_name_is_cut_so_that_the_numbered_file_and_its_temporary_name_fit():
    found = names(tuple(range(11)), id="猫" * 300)
    assert len(set(found)) == 11
    assert max(len(name.encode()) for name in found) <= 195
    assert found[0].startswith("猫" * 57)
    assert found[10].endswith("-10.png")
    assert len({name.rpartition("-")[0] for name in found}) == 1


@given(
    TEXT,
    st.none() | TEXT,
    st.sampled_from(["{id}", "{prompt}/{id}", "{id:.3}{n}", "x/{id}-{prompt}/{index}"]),
    st.integers(1, 3),
)
def test_no_name_ever_escapes_or_grows_too_long(text, output, template, count):
    try:
        found = names(tuple(range(count)), template, id=text, prompt=text, output=output)
    except Misnamed:
        assert output is not None
        return
    root = Path("/out")
    for name in found:
        assert name.encode().decode() == name
        parts = name.split("/")
        assert all(0 < len(part.encode()) <= 195 and part[0] not in ".-" for part in parts)
        assert Path("/out", name).resolve().is_relative_to(root)
        assert parts[0] != "manifest.jsonl"
    assert len(set(found)) == count
