"""Names of other tools: mapped to fields, kept as meta, left out, or a mistake that says what to do."""

import pytest

from omni_cli.errors import UsageError
from omni_cli.prompts.columns import Columns, parse_field_flags
from omni_cli.request import GenerationRequest

VBENCH = '[{"prompt_en": "a", "dimension": ["color"]}, {"prompt_en": "b", "dimension": ["style"]}]'
PARTI = 'Prompt\tCategory\tNote\na\tAbstract\tx\nb "quoted"\tWorld\t\n'
DRAWBENCH = "Prompts,Category\na,Colors\nb,Counting\n"


def columns(extra="error", **fields):
    return Columns({name: field for field, name in fields.items()}, extra)


@pytest.mark.parametrize(
    ("content", "kind", "fields", "metas"),
    [
        (VBENCH, "json", {"prompt": "prompt_en"}, [{"dimension": ["color"]}, {"dimension": ["style"]}]),
        (PARTI, "tsv", {}, [{"Category": "Abstract", "Note": "x"}, {"Category": "World"}]),
        (DRAWBENCH, "csv", {"prompt": "Prompts"}, [{"Category": "Colors"}, {"Category": "Counting"}]),
    ],
)
def test_other_columns_are_kept_left_out_or_refused(requests, problems, content, kind, fields, metas):
    prompts = ["a", 'b "quoted"' if kind == "tsv" else "b"]
    kept = requests(content, kind, columns=columns("keep", **fields))
    assert kept == [GenerationRequest(prompt=prompt, meta=meta) for prompt, meta in zip(prompts, metas, strict=True)]
    ignored = requests(content, kind, columns=columns("ignore", **fields))
    assert ignored == [GenerationRequest(prompt=prompt) for prompt in prompts]
    refused = problems(content, kind, columns=columns(**fields))
    assert refused
    assert all("unknown field" in one and "--extra-columns keep" in one for one in refused)


def test_a_mapped_column_replaces_the_one_with_the_field_s_own_name(requests, problems):
    row = '{"prompt": "short", "caption": "long", "meta": {"a": 1}}'
    assert requests(row, columns=columns("ignore", prompt="caption")) == [
        GenerationRequest(prompt="long", meta={"a": 1})
    ]
    assert requests(row, columns=columns("keep", prompt="caption")) == [
        GenerationRequest(prompt="long", meta={"a": 1, "prompt": "short"})
    ]
    assert problems(row, columns=columns(prompt="caption")) == [
        '1:2: "prompt" is not used: --field takes this field from another column; add --extra-columns keep or ignore'
    ]
    table = "prompt,caption\nshort,long\n"
    assert requests(table, "csv", columns=columns("ignore", prompt="caption")) == [GenerationRequest(prompt="long")]
    assert requests(table, "csv", columns=columns("keep", prompt="caption")) == [
        GenerationRequest(prompt="long", meta={"prompt": "short"})
    ]


def test_mistakes_of_mapped_columns_are_placed_at_their_cells(rows, problems):
    content = 'Text to draw,No.\na,x\n"b",7\n'
    mapped = columns(prompt="Text to draw", seed="No.")
    problem, row = rows(content, "csv", columns=mapped)
    assert (problem.line, problem.column, problem.field) == (2, 3, "seed")
    assert (row.request, row.at("seed")) == (GenerationRequest(prompt="b", seed=7), (3, 5))
    assert problems(content, "csv", columns=columns(prompt="text")) == [
        '1:1: there is no column "text", which --field names; columns are "Text to draw", "No."'
    ]


def test_headers_are_read_in_any_spelling(requests):
    text = "Prompt,Negative Prompt,Seed,Width,height,Steps,CFG Scale,numFrames\na red circle,blur,7,64,48,8,3,9\n"
    assert requests(text, "csv") == [
        GenerationRequest(
            prompt="a red circle", negative_prompt="blur", seed=7, width=64, height=48,
            num_inference_steps=8, guidance_scale=3.0, num_frames=9,
        )
    ]  # fmt: skip


def test_manifests_of_other_engines_are_read(requests):
    row = (
        '{"request_id": "r", "prompt": "a", "sampling_params": {"num_outputs_per_prompt": 2, "seed": 1},'
        ' "image_paths": ["a.png"]}'
    )
    assert requests(row) == [GenerationRequest(id="r", prompt="a", num_outputs=2, seed=1, image=["a.png"])]


@pytest.mark.parametrize("flag", ["prompt", "=x", "prompt=", "promt=x", "a=b=c"])
def test_a_field_flag_without_a_field_and_a_column_is_refused(flag):
    with pytest.raises(UsageError, match="--field"):
        parse_field_flags([flag])
    with pytest.raises(UsageError, match='the column "x" is already taken for prompt'):
        parse_field_flags(["prompt=x", "seed=x"])
    assert parse_field_flags(["prompt=a=b", 'seed=Größe "x"']) == {"a=b": "prompt", 'Größe "x"': "seed"}
