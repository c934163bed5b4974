"""Which output stands where on a sheet."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.errors import UsageError
from omni_cli.report.sheet_cells import SheetGrid, SheetOutput, arrange, check_field, read_sheet_outputs
from omni_cli.request import Adapter, GenerationRequest
from tests.factories import result
from tests.report.conftest import MakeFolder, OutputFolder


def output(name: str, seed: int = 1, folder: str = "f", **fields: object) -> SheetOutput:
    row = result(name, request=GenerationRequest(id=name, **fields), seeds=(seed,))  # type: ignore[arg-type]
    return SheetOutput(folder, row, 0, None, None)


def ids(grid: SheetGrid) -> list[list[str]]:
    return [[cell.row.id if cell is not None else "" for cell in line] for line in grid.cells]


def test_without_fields_outputs_follow_each_other() -> None:
    grid = arrange([output(name) for name in "abcde"], None, None, 2)
    assert ids(grid) == [["a", "b"], ["c", "d"], ["e"]]
    assert (grid.columns, grid.lines, grid.width) == ([], [], 2)


def test_two_fields_make_a_table_whose_numbers_are_in_order() -> None:
    outputs = [
        output(f"{scale:g}/{seed}", seed, guidance_scale=scale) for seed in (10, 9) for scale in (7.0, 3.5, 10.0)
    ]
    grid = arrange(outputs[:-1], "guidance_scale", "seed", 8)
    assert grid.columns == ["guidance_scale=3.5", "guidance_scale=7", "guidance_scale=10"]
    assert grid.lines == ["seed=9", "seed=10"]
    assert ids(grid) == [["3.5/9", "7/9", ""], ["3.5/10", "7/10", "10/10"]]


def test_words_keep_their_order_and_a_request_without_the_field_has_a_place() -> None:
    outputs = [output("a", strength=0.5), output("b"), output("c", strength=0.25)]
    assert arrange(outputs, "strength", "id", 8).columns == ["strength=–", "strength=0.25", "strength=0.5"]
    assert arrange([output("b"), output("a")], "id", "seed", 8).columns == ["id=b", "id=a"]


def test_outputs_with_the_same_values_are_counted() -> None:
    outputs = [output("a", 1), output("b", 1), output("c", 2)]
    grid = arrange(outputs, "seed", "folder", 8)
    assert (ids(grid), grid.hidden) == ([["a", "c"]], 1)


@pytest.mark.parametrize(
    ("x", "y", "expected"), [("seed", None, [["a", "b"], ["c", ""]]), (None, "seed", [["a", "c"], ["b", ""]])]
)
def test_one_field_lines_the_outputs_of_each_value_up(x: str | None, y: str | None, expected: list[list[str]]) -> None:
    grid = arrange([output("a", 1), output("b", 2), output("c", 1)], x, y, 8)
    assert ids(grid) == expected
    assert [*grid.columns, *grid.lines] == ["seed=1", "seed=2"]


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 3)), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_every_output_has_one_place_or_is_counted(values: list[tuple[str, int]], has_x: bool, has_y: bool) -> None:
    outputs = [output(f"{number}", seed, folder) for number, (folder, seed) in enumerate(values)]
    grid = arrange(outputs, "folder" if has_x else None, "seed" if has_y else None, 3)
    shown = [name for line in ids(grid) for name in line if name]
    assert len(shown) == len(set(shown)) == len(outputs) - grid.hidden
    assert grid.hidden == 0 or (has_x and has_y)


def test_every_kind_of_field_has_a_text() -> None:
    adapters = [Adapter(path="/x/anime.safetensors", weight=0.5), Adapter(path="b")]
    one = output("a", 2**63 - 1, lora=adapters, meta={"k": 1}, extra={"eta": 0.5}, num_outputs=2, fps=8.0)
    names = [
        "id",
        "seed",
        "lora",
        "meta.k",
        "meta.none",
        "extra.eta",
        "num_outputs",
        "fps",
        "model",
        "status",
        "prompt",
    ]
    texts = ["a", str(2**63 - 1), "anime:0.5, b:1", "1", "–", "0.5", "2", "8", "demo", "done", "–"]
    assert [one.value(check_field("--x", name)) for name in names] == texts


@pytest.mark.parametrize("name", ["guidance", "meta", "meta.", "seed.x", "", "__class__", "files"])
def test_a_field_that_no_output_has_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"--y: no output has a field"):
        check_field("--y", name)


def test_outputs_of_several_folders_are_read_and_chosen(make_folder: MakeFolder, tmp_path: Path) -> None:
    first, second = make_folder("one"), make_folder("two")
    for folder in (first, second):
        folder.done("a", "a-0.png", "a-1.png", seed=3)
        folder.add("bad", "failed")
        folder.write()
    outputs = read_sheet_outputs([first.root, second.root])
    assert [(each.folder, each.value("id"), each.value("seed")) for each in outputs[:4]] == [
        ("one", "a-0", "3"),
        ("one", "a-1", "4"),
        ("one", "bad", "–"),
        ("two", "a-0", "3"),
    ]
    assert len(read_sheet_outputs([first.root, second.root], ["bad"])) == 2
    with pytest.raises(UsageError, match='--id: there is no row of "c"'):
        read_sheet_outputs([first.root], ["a", "c"])


def test_a_path_that_leads_out_of_the_folder_is_not_followed(folder: OutputFolder) -> None:
    from msgspec import structs

    row = folder.done("a")
    folder.rows = [structs.replace(row, files=(structs.replace(row.files[0], path="../x.png"),))]
    assert [each.path for each in read_sheet_outputs([folder.write()])] == [None]
