"""Rows of one kind: resolved and checked as if each were the only row."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_cli.config import RunConfig
from omni_cli.errors import DiagnosticError, UsageError
from omni_cli.planner import ModelFacts, Models
from omni_cli.planner.resolve import resolve
from omni_cli.planner.row_kinds import RowKinds
from omni_cli.request import MAX_SEED, Adapter, GenerationRequest
from omni_cli.writers.file_sizes import estimate_files
from tests.planner.conftest import fill_output_folder

FEW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

ALWAYS_CHECKED = "{id:s}"
"""Names files as `{id}` does, but is not the template that lets rows skip the checks."""

IDS = [
    "a",
    "A",
    "b",
    "é",
    "é",
    "É",
    "a.mp4",
    "-a",
    ".a",
    "a.",
    "con",
    "CON.x",
    "com1",
    "comb",
    "x/y",
    "_a",
    "dir",
    "link",
    "pipe",
    "manifest.jsonl",
    "straße",
    "STRASSE",
    "00001",
]
ids = st.sampled_from([*IDS, "a b", "a" * 100, "a" * 101, "a" * 300, "a\ud800"])
outputs = st.sampled_from(
    ["a", "A.mp4", "a.webm", "a.mp4/b", "dir.mp4", "É", "way/a", "d/e", "manifest.jsonl", "a.png"]
)
row_fields = st.fixed_dictionaries(
    {},
    optional={
        "id": ids,
        "prompt": st.sampled_from(["red", "röt", "bad \ud800", "", None]),
        "negative_prompt": st.sampled_from(["blur", "ü", "\udfff"]),
        "seed": st.sampled_from([0, 5, MAX_SEED, MAX_SEED + 1, 2**70, -1]),
    },
)
kind_fields = st.fixed_dictionaries(
    {},
    optional={
        "output": outputs,
        "height": st.sampled_from([64, 65]),
        "num_frames": st.sampled_from([1, 9, 10]),
        "num_outputs": st.sampled_from([1, 2]),
        "format": st.sampled_from(["mp4", "gif", "png", "npy"]),
        "guidance_scale_2": st.just(1.0),
        "image": st.sampled_from(["none.png", ["none.png"]]),
        "extra": st.sampled_from([{}, {"max_sequence_length": 5}, {"nothing": [1]}]),
        "lora": st.just([Adapter(path="x/y")]),
    },
)
few = st.sampled_from([{}, {"height": 64}, {"format": "gif"}, {"num_frames": 1}, {"num_outputs": 2}, {"output": "a"}])
requests = st.tuples(row_fields, few | few | kind_fields).map(lambda row: {**row[0], **row[1]})


@pytest.fixture
def kinds(card, tmp_path):
    """kinds() gives RowKinds over tmp_path and their config, whose flags give a negative prompt and steps."""

    def make() -> tuple[RowKinds, RunConfig]:
        config = RunConfig(defaults=GenerationRequest(negative_prompt="from a flag", num_inference_steps=3))
        return RowKinds(config, Models(config.model, tmp_path, lambda model: ModelFacts(card)), tmp_path), config

    return make


@given(st.lists(requests, max_size=12), st.booleans())
@FEW
def test_skipped_checks_give_the_problems_and_plans_of_full_checks(planner, ask, tmp_path, rows, filled):
    output_dir = tmp_path / ("filled" if filled else "none")
    if filled:
        fill_output_folder(output_dir)
    skipping, checking = (
        planner(output={"output_dir": str(output_dir), "name_template": template})
        for template in ("{id}", ALWAYS_CHECKED)
    )
    for index, fields in enumerate(rows):
        row = ask(index, **fields)
        problems = skipping.check(row)
        assert problems == checking.check(row)
        if not problems and not {"image", "lora"} & fields.keys():
            assert skipping.plan(row) == checking.plan(row)


@pytest.mark.parametrize(
    "odd",
    [
        {"seed": 2**70},
        {"seed": -1},
        {"prompt": "bad \ud800"},
        {"prompt": None},
        {"negative_prompt": "\udfff"},
        *({"id": name} for name in ("con", "COM1", "com1.x", "nul.a", "comb", "-a", ".a", "a.", "é", "a" * 101, "x/y")),
    ],
)
def test_odd_row_of_a_passed_kind_is_checked_as_if_alone(planner, ask, odd):
    after, alone, row = planner(), planner(), ask(1, **odd)
    assert after.check(ask(0, id="first")) == []
    assert after.check(row) == alone.check(row)
    if "id" in odd:
        file = alone.plan(row).files[0]
        assert after.check(ask(2, output=file)) != []


@given(st.lists(requests, max_size=12))
@FEW
def test_file_of_a_passed_row_is_the_planned_one(planner, ask, rows):
    checking, planning = planner(), planner()
    for index, fields in enumerate(rows):
        row = ask(index, **fields)
        file = checking._kinds.file_of_passed(row)
        if file is not None:
            assert planning.plan(row).files == (file,)
        checking.check(row)


@given(st.lists(requests, max_size=12))
@FEW
def test_row_is_resolved_as_if_it_were_the_only_one(kinds, ask, card, tmp_path, rows):
    kinds, config = kinds()
    for index, fields in enumerate(rows):
        row = ask(index, **fields)
        try:
            alone = resolve(row.request, config, card, tmp_path)
        except (DiagnosticError, UsageError) as error:
            with pytest.raises(type(error)):
                kinds.resolve(row, card)
        else:
            assert kinds.resolve(row, card) == alone
            assert kinds.space(row, card) == estimate_files(alone.request, config.output)


def test_equal_numbers_of_another_type_are_another_kind(kinds, ask, card):
    kinds, _ = kinds()
    scales = [kinds.resolve(ask(guidance_scale=value), card).request.guidance_scale for value in (1, 1.0)]
    assert [type(scale) for scale in scales] == [int, float]
    values = [
        kinds.resolve(ask(extra={"x": value}), card).request.extra["x"] for value in (None, float("inf"), True, 1)
    ]
    assert [repr(value) for value in values] == ["None", "inf", "True", "1"]


def test_only_rows_of_a_passed_kind_skip_the_checks(kinds, ask, card):
    kinds, _ = kinds()
    first = ask(id="a", seed=1)
    assert kinds.file_of_passed(first) is None
    kinds.mark_passed(first, kinds.resolve(first, card))
    assert kinds.file_of_passed(ask(id="b", prompt="other", seed=2)) == "b.mp4"
    for other in ({"height": 65}, {"negative_prompt": "x"}, {"output": "x"}, {"extra": {"a": 1}}, {"prompt": None}):
        assert kinds.file_of_passed(ask(id="b", **other)) is None
