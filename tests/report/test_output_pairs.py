"""Two folders side by side: counterparts, pixels, times."""

import shutil
from pathlib import Path

import pytest
from msgspec import structs

from omni_cli.report.output_pairs import OutputPair, compare_pixels, pair_outputs
from omni_cli.report.reported_outputs import ReportedOutput, read_folder
from tests.report.conftest import MakeFolder, OutputFolder


def output(name: str, prompt: str = "", seed: str = "", forward: float = 0.0) -> ReportedOutput:
    return ReportedOutput(id=name, status="done", prompt=prompt, seed=seed, forward=forward)


def test_ids_then_words_decide_and_the_rest_has_no_counterpart() -> None:
    first = [output("a", "x", "1"), output("b-3f", "cat", "1"), output("c-1", "dog", "5"), output("only")]
    second = [output("new"), output("c-2", "dog", "9"), output("b-77", "cat", "1"), output("a", "changed", "2")]
    pairs = [(pair.first, pair.second, pair.by) for pair in pair_outputs(first, second)]
    assert pairs == [(0, 3, "id"), (1, 2, "prompt and seed"), (2, 1, "prompt"), (3, None, None), (None, 0, None)]


def test_equal_requests_are_paired_in_order_and_once() -> None:
    first = [output(f"l{n}", "cat", "1") for n in range(3)]
    second = [output(f"r{n}", "cat", "1") for n in range(2)]
    pairs = [(pair.first, pair.second) for pair in pair_outputs(first, second)]
    assert pairs == [(0, 0), (1, 1), (2, None)]


def test_the_ratio_is_that_of_the_forwards() -> None:
    pairs = pair_outputs([output("a", forward=2), output("b")], [output("a", forward=5), output("b", forward=1)])
    assert [pair.ratio for pair in pairs] == [2.5, None]


def compared(first: OutputFolder, second: OutputFolder) -> dict[str, OutputPair]:
    left, right = (read_folder(folder.write(), folder.root) for folder in (first, second))
    pairs = pair_outputs(left.outputs, right.outputs)
    compare_pixels(pairs, left, right, lambda done, total: None)
    return {left.outputs[pair.first].id: pair for pair in pairs if pair.first is not None}


def test_pixels_are_compared_decoded_whatever_holds_them(make_folder: MakeFolder) -> None:
    first, second = make_folder("one"), make_folder("two")
    for name, left, right, frames in [
        ("same", "a.png", "a.npy", 1),
        ("clip", "b.gif", "b.gif", 3),
        ("longer", "c.webm", "c.webm", 2),
        ("equal", "d.webm", "d.webm", 2),
    ]:
        first.done(name, left, frames=frames)
        second.done(name, right, frames=frames + (name == "longer"))
    pairs = compared(first, second)
    assert [pairs[name].levels for name in ("same", "clip", "longer", "equal")] == [0, 0, 256, 0]
    assert pairs["same"].mean == 0


def test_the_difference_is_the_largest_and_the_mean_one(make_folder: MakeFolder) -> None:
    first, second = make_folder("one"), make_folder("two")
    first.done("a", "a.npy")
    row = second.done("a", "a.npy")
    path = second.root / "a.npy"
    data = bytearray(path.read_bytes())
    data[-1] += 32  # the last of 24 * 32 * 3 values
    path.write_bytes(data)
    second.rows = [structs.replace(row, files=(structs.replace(row.files[0], sha256="other"),))]
    pair = compared(first, second)["a"]
    assert (pair.levels, pair.mean) == (32, pytest.approx(32 / (24 * 32 * 3), abs=1e-3))


def test_equal_rows_do_not_hide_a_file_that_was_changed(make_folder: MakeFolder) -> None:
    first, second = make_folder("one"), make_folder("two")
    first.done("a", "a.npy")
    second.done("a", "a.npy")
    path = second.root / "a.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    assert (compared(first, second)["a"].levels or 0) > 50


def test_what_cannot_be_compared_says_why(make_folder: MakeFolder) -> None:
    first, second = make_folder("one"), make_folder("two")
    for name in ("gone", "broken", "failed"):
        first.done(name)
    second.done("gone", seed=2)
    second.done("broken", seed=3)
    second.add("failed", "failed")
    (second.root / "gone.png").unlink()
    broken = second.root / "broken.png"
    broken.write_bytes(broken.read_bytes()[:60].ljust(broken.stat().st_size, b"\0"))
    pairs = compared(first, second)
    assert {name: pair.levels for name, pair in pairs.items()} == dict.fromkeys(pairs)
    assert pairs["gone"].fault == "not both are done: damaged"
    assert pairs["failed"].fault == "not both are done: failed"
    assert pairs["broken"].fault.startswith("cannot be decoded: ")


def test_a_folder_equals_its_copy(folder: OutputFolder, tmp_path: Path) -> None:
    folder.done("a")
    folder.done("b", "b", frames=2)
    folder.done("c", "c.npz", frames=2)
    copy = OutputFolder(shutil.copytree(folder.write(), tmp_path / "copy"))
    copy.rows = folder.rows
    assert {pair.levels for pair in compared(folder, copy).values()} == {0}
