"""`--matrix FIELD=VALUES`: lists, ranges and JSON, checked by the rules of the fields."""

from pathlib import Path

import pytest

from omni_cli.errors import UsageError
from omni_cli.prompts.matrix import matrix_axes, parse_matrix_flags
from omni_cli.request import Adapter


def axis(flag: str) -> list[tuple[dict[str, object], str]]:
    (found,) = matrix_axes(parse_matrix_flags([flag]))
    return list(found.values)


@pytest.mark.parametrize(
    ("flag", "values"),
    [
        ("seed=1..3,9", [{"seed": 1}, {"seed": 2}, {"seed": 3}, {"seed": 9}]),
        ("guidance_scale= 3, 5.5", [{"guidance_scale": 3.0}, {"guidance_scale": 5.5}]),
        ("cfg_scale=3", [{"guidance_scale": 3.0}]),
        ("size=64x80,96x64", [{"width": 64, "height": 80}, {"width": 96, "height": 64}]),
        ("model=7,demo", [{"model": "7"}, {"model": "demo"}]),
        ('negative_prompt=["", "a, b"]', [{"negative_prompt": ""}, {"negative_prompt": "a, b"}]),
        ('extra=[{"eta": 0.5}]', [{"extra": {"eta": 0.5}}]),
        ('lora=[[], "owner/name"]', [{"lora": []}, {"lora": [Adapter(path="owner/name")]}]),
        ("image=a.png", [{"image": str(Path("a.png").absolute())}]),
    ],
)
def test_lists_ranges_and_json_are_values_of_the_field(flag: str, values: list[dict[str, object]]) -> None:
    assert [fields for fields, _ in axis(flag)] == values


def test_ids_are_extended_by_the_value_or_by_a_hash_of_one_that_is_no_word() -> None:
    assert [label for _, label in axis("guidance_scale=3,5.5")] == ["guidance_scale-3", "guidance_scale-5.5"]
    assert [label for _, label in axis("size=64x80")] == ["height-80-width-64"]
    labels = [label for _, label in axis('negative_prompt=["", "a/b", "a b"]')]
    assert len(set(labels)) == 3
    assert all(label.replace("-", "").replace("_", "").isalnum() for label in labels)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["seed"], "expected FIELD=VALUES"),
        (["seed="], "expected FIELD=VALUES"),
        (["seed=1", "seed=2"], "seed is given twice"),
        (["seed=1,,2"], "a value is missing between commas"),
        (["seed=4..1"], '"4..1" counts down'),
        (["seed=1..9999999999999"], "9,999,999,999,999 values; at most 100,000"),
        (["seed=-1"], r'--matrix seed="-1": expected a whole number from 0'),
        (["guidance_scale=3,3.0"], 'guidance_scale="3.0": is given twice'),
        (["guidance=3"], '"guidance": unknown field; did you mean "guidance_scale"?'),
        (["prompt=a,b"], "this field is not varied; give each prompt a row"),
        (["num_outputs=1,2"], "this field is not varied"),
        (["width=64", "size=64x64"], "width: is varied twice"),
        (["lora=[1"], "lora: .*expected a JSON list"),
        (["fps=[null]"], "is no value"),
        (["steps=[]"], "expected a list of 1 to"),
    ],
)
def test_what_cannot_be_used_is_told_with_the_flag(flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        matrix_axes(parse_matrix_flags(flags))
    assert str(caught.value).startswith("--matrix ")


def test_values_of_a_program_are_any_sequence() -> None:
    (found,) = matrix_axes({"guidance_scale": (3, 5)})
    assert [fields for fields, _ in found.values] == [{"guidance_scale": 3.0}, {"guidance_scale": 5.0}]
    with pytest.raises(UsageError, match="expected a list"):
        matrix_axes({"model": "demo"})
