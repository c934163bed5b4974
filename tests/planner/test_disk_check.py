"""The disk estimate of a run: an error if the disk cannot hold it, a warning if it may become full."""

import logging
from pathlib import Path

import pytest

from omni_cli.config import OutputConfig
from omni_cli.errors import Diagnostic, OutputFolderError
from omni_cli.planner.disk_check import check_space
from omni_cli.request import GenerationRequest
from omni_cli.writers.file_sizes import ROW_BYTES, SpaceEstimate
from tests.disks import small_disk

ROW = ROW_BYTES + len("a red circle")
CLIP = 9 * 64 * 64 * 3 + 128


def test_estimate_uses_sizes_of_request_flags_and_card(planner, ask):
    rows = [
        ask(0, format="npy"),
        ask(1, format="npy", num_frames=1, height=32, num_outputs=2),
        ask(2, output="x.npy"),
        ask(3, output="y.npy", width=128),
    ]
    sizes = [CLIP, 2 * (32 * 64 * 3 + 128), CLIP, 2 * CLIP - 128]
    total = sum(sizes) + 4 * ROW
    assert planner().estimate_space(rows) == SpaceEstimate(5, total, total)
    assert planner(defaults={"width": 128, "format": "npy"}).estimate_space([ask(0)]).least == 2 * CLIP - 128 + ROW


def test_finished_requests_and_other_shards_take_no_space(planner, ask):
    rows = [ask(n, id=f"r{n}", format="npy") for n in range(6)]
    assert planner().estimate_space(rows, {"r1", "r2"}.__contains__).files == 4
    assert planner(limit=3).estimate_space(rows).files == 3
    assert sum(planner(shard=(number, 3)).estimate_space(rows).files for number in range(3)) == 6
    assert planner(shard=(1, 3)).estimate_space(rows).files < 6
    assert planner().estimate_space([Diagnostic("bad", source="p", line=1, column=1), ask(1, format="npy")]).files == 1


def test_finished_request_without_an_id_is_recognized_by_its_content(planner, ask):
    rows = [ask(3, id=None, format="npy"), ask(4, id=None, format="npy", prompt="b")]
    first, _ = (row.request.id for row in planner().selected(rows))
    assert planner().estimate_space(rows, {first}.__contains__).files == 1


def test_rows_of_one_kind_are_resolved_once(planner, ask, monkeypatch):
    from omni_cli.planner import row_kinds

    calls: list[GenerationRequest] = []
    resolve = row_kinds.resolve
    monkeypatch.setattr(
        row_kinds, "resolve", lambda request, *rest: (calls.append(request), resolve(request, *rest))[1]
    )
    rows = [ask(n, prompt=f"p{n}", seed=n, format=("npy", "mp4")[n % 2]) for n in range(100)]
    assert planner().estimate_space(rows).files == 100
    assert len(calls) == 2


def test_too_small_disk_raises_with_figures_and_remedy(tmp_path):
    with small_disk(tmp_path / "disk", "1m") as disk:
        output = OutputConfig(output_dir=str(disk / "out"))
        with pytest.raises(
            OutputFolderError, match=r"12 files take at least 1\.5 MiB, 1\.0 MiB are free; .*--no-disk-check"
        ) as error:
            check_space(SpaceEstimate(12, 3 << 19, 3 << 19), output)
        assert str(disk / "out") in str(error.value)
        assert not (disk / "out").exists()


def test_disk_without_enough_inodes_raises(tmp_path):
    with small_disk(tmp_path / "disk", "1m", inodes=5) as disk:
        check_space(SpaceEstimate(4, 0, 0), OutputConfig(output_dir=str(disk)))
        with pytest.raises(OutputFolderError, match="it takes 4 more files"):
            check_space(SpaceEstimate(5, 0, 0), OutputConfig(output_dir=str(disk)))


def test_disk_that_may_become_full_is_a_warning(tmp_path, caplog):
    with small_disk(tmp_path / "disk", "1m") as disk, caplog.at_level(logging.WARNING, "omni_gen"):
        check_space(SpaceEstimate(3, 0, 1 << 20), OutputConfig(output_dir=str(disk)))
        assert caplog.messages == []
        check_space(SpaceEstimate(3, 0, 2 << 20), OutputConfig(output_dir=str(disk)))
        (message,) = caplog.messages
        assert "may become full: 1.0 MiB are free, 3 files of this kind typically take 2.0 MiB" in message


def test_unknown_free_space_passes_with_a_warning(caplog, monkeypatch):
    import os

    def refused(path: Path) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "statvfs", refused)
    check_space(SpaceEstimate(3, 1 << 60, 1 << 60), OutputConfig(output_dir="out"))
    assert "is unknown: Function not implemented" in caplog.text
