"""Sheets on disk: what is drawn where, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from omni_cli.errors import UsageError
from omni_cli.report.contact_sheet import MARGIN, SheetCanvas, SheetStyle
from omni_cli.report.sheet_cells import arrange, read_sheet_outputs
from omni_cli.report.sheet_files import WrittenSheets, write_sheets
from omni_cli.request import GenerationRequest
from omni_cli.writers.readback import read_frames
from tests.report.conftest import OutputFolder, levels


def write(
    folder: OutputFolder, path: Path, x: str | None = None, y: str | None = None, **options: Any
) -> WrittenSheets:
    columns, rows = options.pop("columns", 3), options.pop("rows", 10)
    outputs = read_sheet_outputs([folder.write()])
    return write_sheets(outputs, path, SheetStyle(**options), x, y, columns, rows)


def cells(folder: OutputFolder, columns: int = 3, **options: Any) -> list[tuple[str, tuple[int, int]]]:
    """Return the ids on a sheet, and the upper left corners of their boxes."""
    grid = arrange(read_sheet_outputs([folder.write()]), None, None, columns)
    return [(output.value("id"), corner) for output, corner in SheetCanvas(grid, SheetStyle(**options)).places()]


def test_each_picture_stands_in_its_cell(folder: OutputFolder, tmp_path: Path) -> None:
    for number in range(4):
        folder.done(f"r{number}", seed=number)
    write(folder, tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        pixels = np.asarray(sheet)
    for number, (name, (left, top)) in enumerate(cells(folder)):
        assert name == f"r{number}"
        left += (64 - 32) // 2  # a picture of 32 pixels in the middle of the least box
        assert (pixels[top : top + 24, left : left + 32] == levels(number)).all()
    assert (pixels[:MARGIN] == 255).all()


def test_large_pictures_are_scaled_to_the_size(folder: OutputFolder, tmp_path: Path) -> None:
    folder.done("a")
    Image.fromarray(levels(1, 512, 1024)).save(folder.root / "a.png")
    from msgspec import structs

    row = folder.rows[0]
    folder.rows = [structs.replace(row, files=(structs.replace(row.files[0], width=1024, height=512),))]
    write(folder, tmp_path / "sheet.webp", size=200, caption="")
    with Image.open(tmp_path / "sheet.webp") as sheet:
        assert sheet.size == (2 * MARGIN + 200, 2 * MARGIN + 100)


def test_a_picture_that_is_larger_than_its_row_says_stays_in_its_cell(folder: OutputFolder, tmp_path: Path) -> None:
    folder.done("a")
    folder.done("b")
    for name in ("a.png", "b.png"):
        Image.new("RGB", (400, 400), "red").save(folder.root / name)
    write(folder, tmp_path / "sheet.png", caption="", columns=1)
    with Image.open(tmp_path / "sheet.png") as sheet:
        red = (np.asarray(sheet)[..., 1] == 0).any(axis=1)
    assert list(np.flatnonzero(np.diff(red.astype(int)))) == [11, 35, 41, 65]  # two boxes of 24 lines, a gap of 6


def test_a_clip_is_a_strip_from_its_first_frame_to_its_last(folder: OutputFolder, tmp_path: Path) -> None:
    folder.done("a", "a", frames=5)
    folder.done("b", "b.npz", frames=5)
    write(folder, tmp_path / "sheet.png", strip=3, columns=1)
    with Image.open(tmp_path / "sheet.png") as sheet:
        pixels = np.asarray(sheet)
    for _, (left, top) in cells(folder, columns=1, strip=3):
        for place, frame in enumerate((0, 2, 4)):
            at = left + place * (64 + 3) + 16
            assert (pixels[top : top + 24, at : at + 32] == levels(1 + frame)).all()


def test_what_has_no_picture_leaves_its_reason(folder: OutputFolder, tmp_path: Path) -> None:
    folder.done("gone")
    folder.done("broken")
    folder.done("sound", "a.wav")
    folder.add("bad", "failed")
    (folder.root / "gone.png").unlink()
    (folder.root / "broken.png").write_bytes(b"no picture")
    written = write(folder, tmp_path / "sheet.png", columns=4)
    with Image.open(written.paths[0]) as sheet:
        for _, (left, top) in cells(folder, columns=4):
            assert sheet.getpixel((left + 1, top + 1)) == (0xE8, 0xE8, 0xE4)
    assert written.summary == "sheet: 4 outputs"


def test_what_does_not_fit_goes_to_further_sheets(folder: OutputFolder, tmp_path: Path) -> None:
    for number in range(7):
        folder.done(f"r{number}")
    written = write(folder, tmp_path / "s.png", columns=2, rows=2)
    assert [path.name for path in written.paths] == ["s.png", "s-2.png"]
    assert all(path.is_file() for path in written.paths)


def test_headings_are_hostile_text_and_take_their_room(folder: OutputFolder, tmp_path: Path) -> None:
    for number, prompt in enumerate(["\x1b[31m\n<b>\u202e", "猫" * 10_000, "\U0001f388"]):
        folder.done(f"r{number}", request=GenerationRequest(id=f"r{number}", prompt=prompt))
    written = write(folder, tmp_path / "sheet.png", x="prompt", y="seed")
    with Image.open(written.paths[0]) as sheet:
        assert sheet.width < 500


def test_clips_play_beside_each_other_at_the_rate_of_the_fastest(folder: OutputFolder, tmp_path: Path) -> None:
    from msgspec import structs

    folder.done("slow", "slow", frames=4)
    folder.done("fast", "fast.npy", frames=4)
    folder.done("still", seed=50)
    row = folder.rows[0]
    folder.rows[0] = structs.replace(row, files=(structs.replace(row.files[0], fps=4.0),))
    write(folder, tmp_path / "sheet.mp4", caption="")
    frames = list(read_frames(tmp_path / "sheet.mp4"))
    assert len(frames) == 8  # four frames at half the rate; the fast clip stops at its last one
    corners = cells(folder, caption="")

    def shown(number: int, cell: int) -> int:
        """Return which frame of the clip in a cell frame `number` of the video shows."""
        left, top = corners[cell][1]
        picture = frames[number][top : top + 24, left + 16 : left + 48].astype(int)
        return int(np.argmin([np.abs(picture - levels(1 + frame)).mean() for frame in range(4)]))

    assert [shown(number, 0) for number in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [shown(number, 1) for number in range(8)] == [0, 1, 2, 3, 3, 3, 3, 3]


def test_sheets_that_cannot_be_are_refused_with_what_to_do(folder: OutputFolder, tmp_path: Path) -> None:
    folder.done("a", "a.jpg")
    for path, reason in [
        (tmp_path / "sheet.bmp", "a sheet has one of the extensions .png"),
        (tmp_path / "sheet.mp4", "there is no clip in the sheet; name a .png"),
        (folder.root / "a.jpg", "is an output; choose another name"),
        (tmp_path / "none" / "sheet.png", "cannot be written: "),
    ]:
        with pytest.raises(UsageError, match=reason):
            write(folder, path)
    with pytest.raises(UsageError, match=r"--font .*: is not a font"):
        write(folder, tmp_path / "sheet.png", font=folder.root / "a.jpg")
    for number in range(600):
        folder.add(f"r{number}", "failed")
    with pytest.raises(UsageError, match=r"pixels, more than 32000 a side: choose a smaller --size"):
        write(folder, tmp_path / "sheet.png", x="id", y="seed")
    assert list(tmp_path.glob("sheet*")) == []
