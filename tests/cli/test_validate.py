"""`omni-gen validate`: counts good requests and names bad ones."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import omni_gen


def test_validate_counts_good_requests_and_names_bad_ones() -> None:
    good = omni_gen("validate", "-", input='{"prompt": "a"}\n{"prompt": "b"}\n')
    assert (good.returncode, good.stderr) == (0, "2 requests, no problems\n")
    bad = omni_gen("validate", "-", input='{"prompt": "a"}\n{"prompt": "b", "width": 65}\n')
    assert bad.returncode == 2
    assert "<stdin>:2:26: width: 65 is not a multiple of 16; nearest are 64 and 80" in bad.stderr


def test_the_rules_are_those_of_the_given_model(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "LTXPipeline", "_diffusers_version": "0.36.0"}')
    row = '{"prompt": "a", "num_frames": 9, "height": 64, "width": 48}\n'
    result = omni_gen("validate", "-", "--model", tmp_path, input=row)
    assert "width: 48 is not a multiple of 32; nearest are 32 and 64" in result.stderr


def test_user_cards_are_applied_and_validated_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "cards.toml").write_text("[cards.WanPipeline]\nsizes = { multiple = 48 }\n")
    row = '{"prompt": "a", "width": 64, "height": 48}\n'
    result = omni_gen("validate", "-", "--cards", tmp_path / "cards.toml", input=row)
    assert "width: 64 is not a multiple of 48" in result.stderr
    (tmp_path / "cards.toml").write_text("[cards.WanPipeline]\nsize = 3\n")
    result = omni_gen("run", "-", "-o", tmp_path / "out", "--cards", tmp_path / "cards.toml", input=row)
    assert (result.returncode, 'did you mean "sizes"?' in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()


def benchmark_list(rows: int) -> str:
    """Return a list as benchmarks ship it: one line of JSON whose objects have three fields that are none."""
    return json.dumps([{"prompt_en": f"circle {n}", "dimension": ["color"], "aux": {"n": n}} for n in range(rows)])


@pytest.mark.parametrize(
    ("name", "text", "lines", "count"),
    [
        ("list.json", benchmark_list(946), 3, "2,838"),
        ("list.csv", "prompt,height\n" + "a circle,65\n" * 2000, 1, "2,000"),
        ("list.jsonl", '{"prompt": "a", "width": "wide", "steps": 0}\n' * 2000, 2, "4,000"),
    ],
)
@pytest.mark.parametrize("command", [["validate"], ["run", "--progress", "none"], ["run", "--dry-run"]])
def test_one_mistake_in_every_row_is_one_line_with_the_true_count(
    name: str, text: str, lines: int, count: str, command: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    result = omni_gen(*command, tmp_path / name, cwd=tmp_path)
    *problems, last = result.stderr.splitlines()
    assert (result.returncode, len(problems)) == (2, lines)
    assert all(" rows, first at line " in problem for problem in problems)
    assert last == f"omni-gen: {count} problems; nothing was rendered"


def test_wrong_flag_is_told_once_however_many_rows_there_are(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("a red circle\n" * 3000)
    result = omni_gen("run", tmp_path / "p.txt", "--width", "854", "-o", tmp_path / "out", "--progress", "none")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "--width: 854 is not a multiple of 16; nearest are 848 and 864",
        "omni-gen: 1 problem; nothing was rendered",
    ]
