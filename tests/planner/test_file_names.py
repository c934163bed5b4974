"""File names: from `--name-template` or `output` to one path per output."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.errors import DiagnosticError, UsageError
from omni_cli.planner.file_names import FIELDS, NameTemplate, file_names
from omni_cli.request import GenerationRequest

REQUEST = GenerationRequest(
    id="a/b",
    prompt="a  red\ncat",
    width=64,
    height=32,
    num_frames=9,
    num_inference_steps=8,
    guidance_scale=3.5,
    fps=8.0,
)


def render(text: str, request: GenerationRequest = REQUEST) -> str:
    return NameTemplate(text).render(request, index=7, n=2, seed=41)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{id}", "a_b"),
        ("{index:05d}-{seed}", "00007-41"),
        ("{width}x{height}/{id}_{n}", "64x32/a_b_2"),
        ("{prompt}", "a red cat"),
        ("{prompt:.5s}|", "a red|"),
        ("{num_frames:>3}f {num_inference_steps} {guidance_scale:.1f} {fps:g}", "  9f 8 3.5 8"),
        ("{{{id}}}", "{a_b}"),
        ("{id:/>9}", "______a_b"),
        ("{seed:x}", "29"),
    ],
)
def test_template_fields_take_the_values_of_the_request(text, name):
    assert render(text) == name


def test_long_prompt_is_shortened_in_a_name():
    name = render("{prompt}-{index}", GenerationRequest(id="a", prompt="猫" * 400))
    assert name.startswith("猫" * 29 + "-")
    assert name.endswith("-7")
    assert len(name.encode()) <= 98


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{name}", "unknown field {name}"),
        ("{id.__class__}", "unknown field {id.__class__}"),
        ("{id[0]}", "unknown field {id[0]}"),
        ("{}", "unknown field {}"),
        ("{0}", "unknown field {0}"),
        ("{id!r}", "not a plain one"),
        ("{index:{width}}", "not a plain one"),
        ("{index:099999999d}", "not a plain one"),
        ("{index:s}", "does not fit"),
        ("{id:d}", "does not fit"),
        ("{id", "expected '}'"),
        ("/tmp/{id}", "relative path"),
        ("../{id}", "relative path"),
        ("a/./{id}", "relative path"),
        ("{id}/", "relative path"),
        ("", "relative path"),
        ("{id}.png", "leave the extension out"),
        ("{id}.mov", "leave the extension out"),
    ],
)
def test_invalid_template_raises_with_the_list_of_fields(text, reason):
    with pytest.raises(UsageError) as refused:
        NameTemplate(text)
    assert reason in str(refused.value)
    assert all(f"{{{field}}}" in str(refused.value) for field in FIELDS)


def test_template_field_without_a_value_is_a_problem():
    with pytest.raises(DiagnosticError, match="not known before rendering") as refused:
        render("{width}-{id}", GenerationRequest(id="a"))
    assert refused.value.diagnostic.field == "width"


TEXT = st.text(st.characters(exclude_categories=()), max_size=300) | st.text("./\\a-", max_size=12)


def names(seeds=(5,), template="{id}", extension=".png", **fields):
    request = GenerationRequest(**{"id": "a", **fields})
    return file_names(request, 3, seeds, NameTemplate(template), extension)


def test_several_outputs_are_numbered():
    assert names() == ("a.png",)
    assert names((5, 6, 7)) == ("a-0.png", "a-1.png", "a-2.png")


def test_template_with_n_numbers_the_outputs_itself():
    assert names((5, 6), "{id}_{n}_{seed}") == ("a_0_5.png", "a_1_6.png")
    assert names((5, 6), "{id}_{seed}") == ("a_5-0.png", "a_6-1.png")


def test_output_field_may_hold_folders_and_an_extension():
    assert names(output="x/./y//shot.v2") == ("x/y/shot.v2.png",)
    assert names(output="x/a.JPEG", extension=".jpg") == ("x/a.JPEG",)
    assert names((1, 2), output="x/a.png") == ("x/a-0.png", "x/a-1.png")
    assert names((1, 2), "{n}{id}", output="a.png") == ("a-0.png", "a-1.png")


@pytest.mark.parametrize(
    "output", ["../a.png", "x/../../a", "/etc/a.png", "x/", "x/.", "manifest.jsonl/a.png", "MANIFEST.jsonl/a", ""]
)
def test_output_field_that_leaves_the_folder_is_a_problem(output):
    with pytest.raises(DiagnosticError) as refused:
        names(output=output)
    assert refused.value.diagnostic.field == "output"


def test_names_of_the_journal_are_reserved():
    assert names(output=".omni-gen.lock/a.png") == ("_omni-gen.lock/a.png",)
    assert names(id="manifest.jsonl") == ("manifest.jsonl.png",)


def test_long_name_is_shortened_to_fit_number_and_temporary_name():
    paths = names(tuple(range(11)), id="猫" * 300)
    assert len(set(paths)) == 11
    assert max(len(name.encode()) for name in paths) <= 195
    assert paths[0].startswith("猫" * 57)
    assert paths[10].endswith("-10.png")
    assert len({name.rpartition("-")[0] for name in paths}) == 1


@given(
    TEXT,
    st.none() | TEXT,
    st.sampled_from(["{id}", "{prompt}/{id}", "{id:.3}{n}", "x/{id}-{prompt}/{index}"]),
    st.integers(1, 3),
)
def test_no_name_escapes_the_folder_or_is_too_long(text, output, template, count):
    try:
        paths = names(tuple(range(count)), template, id=text, prompt=text, output=output)
    except DiagnosticError:
        assert output is not None
        return
    root = Path("/out")
    for name in paths:
        assert name.encode().decode() == name
        parts = name.split("/")
        assert all(0 < len(part.encode()) <= 195 and part[0] not in ".-" for part in parts)
        assert Path("/out", name).resolve().is_relative_to(root)
        assert parts[0] != "manifest.jsonl"
    assert len(set(paths)) == count


def test_a_template_uses_values_that_the_user_keeps() -> None:
    template = NameTemplate("{meta.category}/{meta.Sub set}-{id}")
    request = GenerationRequest(id="a", meta={"category": "Ani/mals ..", "Sub set": 3})
    assert file_names(request, 0, [1], template, ".png") == ("Ani_mals___/3-a.png",)
    for meta in (None, {"category": "x"}, {"category": ["x"], "Sub set": 1}, {"category": "x", "Sub set": True}):
        with pytest.raises(DiagnosticError, match=r"is not given, but --name-template uses \{meta"):
            file_names(GenerationRequest(id="a", meta=meta), 0, [1], template, ".png")


@pytest.mark.parametrize("text", ["{meta}", "{meta.}", "{meta.a!r}", "{meta.a:{id}}"])
def test_a_template_takes_nothing_but_a_name_of_meta(text: str) -> None:
    with pytest.raises(UsageError, match=r"fields are .*\{meta.NAME\}"):
        NameTemplate(text)
