"""Whether the disk can hold a run, asked before it begins: refused only if it cannot, warned of if it may not."""

import logging
from pathlib import Path

import pytest

from omni_cli.config import OutputConfig
from omni_cli.errors import OutputFolderError, Problem
from omni_cli.planner.room import check_room, shown_bytes
from omni_cli.request import GenerationRequest
from omni_cli.writers.room import ROW_BYTES, Room
from tests.disks import small_disk

ROW = ROW_BYTES + len("a red circle")
CLIP = 9 * 64 * 64 * 3 + 128


def test_a_run_takes_what_its_requests_take_by_their_own_word_a_flags_and_the_cards(planner, ask):
    rows = [
        ask(0, format="npy"),
        ask(1, format="npy", num_frames=1, height=32, num_outputs=2),
        ask(2, output="x.npy"),
        ask(3, output="y.npy", width=128),
    ]
    sizes = [CLIP, 2 * (32 * 64 * 3 + 128), CLIP, 2 * CLIP - 128]
    total = sum(sizes) + 4 * ROW
    assert planner().room(rows) == Room(5, total, total)
    assert planner(defaults={"width": 128, "format": "npy"}).room([ask(0)]).least == 2 * CLIP - 128 + ROW


def test_what_is_done_and_what_falls_to_others_takes_nothing(planner, ask):
    rows = [ask(n, id=f"r{n}", format="npy") for n in range(6)]
    assert planner().room(rows, {"r1", "r2"}.__contains__).files == 4
    assert planner(limit=3).room(rows).files == 3
    assert planner(shard=(1, 3)).room(rows).files == 2
    assert planner().room([Problem("p", 1, 1, "", "bad"), ask(1, format="npy")]).files == 1


def test_a_request_without_an_id_is_done_by_its_number(planner, ask):
    assert planner().room([ask(3, format="npy"), ask(4, format="npy")], {"00003"}.__contains__).files == 1


def test_a_long_file_is_resolved_once_per_shape(planner, ask, monkeypatch):
    from omni_cli.planner import room as room_module

    calls: list[GenerationRequest] = []
    resolve = room_module.resolve
    monkeypatch.setattr(
        room_module, "resolve", lambda request, *rest: (calls.append(request), resolve(request, *rest))[1]
    )
    rows = [ask(n, prompt=f"p{n}", seed=n, format=("npy", "mp4")[n % 2]) for n in range(100)]
    assert planner().room(rows).files == 100
    assert len(calls) == 2


def test_a_disk_that_cannot_hold_the_run_is_refused_with_figures_and_what_to_do(tmp_path):
    with small_disk(tmp_path / "disk", "1m") as disk:
        output = OutputConfig(output_dir=str(disk / "out"))
        with pytest.raises(
            OutputFolderError, match=r"12 files take at least 1\.5 MiB, 1\.0 MiB are free; .*--no-disk-check"
        ) as error:
            check_room(Room(12, 3 << 19, 3 << 19), output)
        assert str(disk / "out") in str(error.value)
        assert not (disk / "out").exists()


def test_a_disk_without_names_for_the_files_is_refused(tmp_path):
    with small_disk(tmp_path / "disk", "1m", inodes=5) as disk:
        check_room(Room(4, 0, 0), OutputConfig(output_dir=str(disk)))
        with pytest.raises(OutputFolderError, match="5 files are to be made, and it takes 4 more"):
            check_room(Room(5, 0, 0), OutputConfig(output_dir=str(disk)))


def test_a_disk_that_may_become_full_is_a_warning_and_a_large_one_is_not(tmp_path, caplog):
    with small_disk(tmp_path / "disk", "1m") as disk, caplog.at_level(logging.WARNING, "omni_gen"):
        check_room(Room(3, 0, 1 << 20), OutputConfig(output_dir=str(disk)))
        assert caplog.messages == []
        check_room(Room(3, 0, 2 << 20), OutputConfig(output_dir=str(disk)))
        (message,) = caplog.messages
        assert "may become full: 1.0 MiB are free, 3 files of this kind typically take 2.0 MiB" in message


def test_a_folder_that_cannot_be_asked_is_left_to_the_run(caplog, monkeypatch):
    import os

    def refused(path: Path) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "statvfs", refused)
    check_room(Room(3, 1 << 60, 1 << 60), OutputConfig(output_dir="out"))
    assert "cannot be told: Function not implemented" in caplog.text


def test_sizes_are_shown_as_people_say_them():
    assert [shown_bytes(n) for n in (0, 1023, 1024, 1536, 5 << 30, 3 << 50)] == [
        "0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "5.0 GiB", "3.0 PiB",
    ]  # fmt: skip
