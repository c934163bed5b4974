"""The transport bench: its process, its figures, its table."""

import pytest

from omni_cli.bench.transport_bench import (
    CaseReport,
    ClipSize,
    PathReport,
    TransportJob,
    parse_clip_size,
    run_transport_bench,
    transport_table,
)
from omni_cli.errors import EngineError, UsageError


@pytest.fixture(scope="module")
def reports() -> dict[tuple[str, str], CaseReport]:
    clips = (ClipSize(1, 32, 48), ClipSize(5, 32, 48), ClipSize(99999, 99999, 99999))
    measured = run_transport_bench(TransportJob(clips=clips, repeats=3, device="cpu"), lambda line: None)
    return {(str(report.clip), report.dtype): report for report in measured}


@pytest.mark.parametrize("clip", ["1x32x48", "5x32x48"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_both_paths_give_the_same_pixels_and_ours_moves_a_quarter(
    reports: dict[tuple[str, str], CaseReport], clip: str, dtype: str
) -> None:
    report = reports[clip, dtype]
    assert report.ours is not None
    assert report.reference is not None
    assert report.levels_apart <= 1
    assert report.ours.moved_bytes == report.clip.levels
    assert report.reference.moved_bytes == 4 * report.clip.levels
    assert report.ours.host_copies == 1
    assert report.reference.host_copies == (4 if dtype == "bfloat16" else 3)
    assert len(report.ours.seconds) == len(report.reference.seconds) == 3


def test_a_clip_that_does_not_fit_is_skipped_with_the_reason(reports: dict[tuple[str, str], CaseReport]) -> None:
    report = reports["99999x99999x99999", "float32"]
    assert report.ours is None
    assert "GiB" in (report.skipped or "")


def test_a_failing_process_raises_with_its_log() -> None:
    with pytest.raises(EngineError, match=r"(?s)code 1.*no such device"):
        run_transport_bench(TransportJob(clips=(ClipSize(1, 8, 8),), device="abacus"), lambda line: None)


def test_the_table_shows_both_paths_and_skipped_cases() -> None:
    clip = ClipSize(81, 480, 832)
    ours = PathReport(
        seconds=(0.1, 0.2, 0.3), moved_bytes=clip.levels, host_copies=1, device_peak_bytes=None, host_peak_bytes=2**20
    )
    reference = PathReport(
        seconds=(1.0, 2.0, 3.0),
        moved_bytes=4 * clip.levels,
        host_copies=4,
        device_peak_bytes=None,
        host_peak_bytes=2**30,
    )
    table = transport_table(
        [
            CaseReport(clip=clip, dtype="bfloat16", device="cpu", ours=ours, reference=reference, levels_apart=1),
            CaseReport(clip=clip, dtype="float32", device="cpu", skipped="needs 9.9 GiB of memory, 1.0 GiB are free"),
        ]
    )
    assert table.splitlines()[2:5] == [
        "| 81x480x832 | bfloat16 | ours | 200.0 [100.0, 300.0] | 10.0 [10.0, 10.0]x | 92.5 MiB | 1 | - | 1.0 MiB |",
        "| 81x480x832 | bfloat16 | reference | 2000.0 [1000.0, 3000.0] | 1 | 370.2 MiB | 4 | - | 1.0 GiB |",
        "| 81x480x832 | float32 | skipped: needs 9.9 GiB of memory, 1.0 GiB are free | | | | | | |",
    ]
    assert "at most 1 of 255 levels apart" in table


@pytest.mark.parametrize("text", ["", "81", "81x480", "0x8x8", "81x480x832x3", "-1x8x8", "1x8x8\n"])
def test_an_invalid_clip_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--clip"):
        parse_clip_size(text)


def test_a_clip_size_is_frames_by_height_by_width() -> None:
    assert parse_clip_size("81×480x832") == ClipSize(81, 480, 832)
