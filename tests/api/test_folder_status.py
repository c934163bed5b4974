"""The status of a folder whose manifest and files change while they are read."""

import json
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from omni_cli.api.folder_status import (
    AnyStatusLine,
    FailedRequest,
    MissingRequest,
    OrphanedFile,
    StatusTotals,
    folder_status,
)
from omni_cli.config import OutputConfig
from omni_cli.errors import UsageError
from omni_cli.journal import LOCK_NAME, MANIFEST_NAME, Journal
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.report import write_report
from omni_cli.request import GenerationRequest, OutputFile
from tests.api.recorded_run import CONFIG, render_lines
from tests.factories import result


def place(root: Path, path: str) -> OutputFile:
    """Write a file of one byte and return its description."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(b"x")
    return OutputFile(path=path, sha256="", bytes=1, width=1, height=1, frames=1)


def read(root: Path, on_line: Callable[[AnyStatusLine], None] = lambda line: None) -> tuple[StatusTotals, list[str]]:
    """Return the totals and the paths of the orphaned files."""
    orphans: list[str] = []

    def add(line: AnyStatusLine) -> None:
        on_line(line)
        if isinstance(line, OrphanedFile):
            orphans.append(line.path)

    return folder_status(root, None, add), orphans


def test_a_file_whose_row_is_added_while_the_manifest_is_read_is_not_orphaned(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        journal.append(result("first", "failed"))
        (tmp_path / LOCK_NAME).unlink()  # without a run, the time of a file does not count
        late = place(tmp_path, "late.png")
        place(tmp_path, "orphan.png")

        def append_late_row(line: AnyStatusLine) -> None:
            if isinstance(line, FailedRequest):
                journal.append(result("late", "done", files=(late,)))

        totals, orphans = read(tmp_path, append_late_row)
    assert orphans == ["orphan.png"]
    assert (totals.done, totals.failed) == (0, 1), "the rows are those of the moment when reading began"


def test_only_files_from_before_a_running_run_are_orphaned(tmp_path: Path) -> None:
    with Journal.open(tmp_path):
        place(tmp_path, "of this run.png")
        place(tmp_path, "old.png")
        os.utime(tmp_path / "old.png", (0, 0))
        totals, orphans = read(tmp_path)
        assert orphans == ["old.png"]
        assert totals.running is not None
        assert totals.running.pid == os.getpid()


@pytest.mark.parametrize("name", ["A/B.PNG", unicodedata.normalize("NFD", "é/ü.png"), "straße.png", "a" * 100 + ".png"])
def test_names_that_a_file_system_may_spell_otherwise_are_known(name: str, tmp_path: Path) -> None:
    spelled = unicodedata.normalize("NFC", name).lower()
    with Journal.open(tmp_path) as journal:
        journal.append(result("a", "done", files=(place(tmp_path, spelled),)))
    (tmp_path / spelled).unlink()
    place(tmp_path, name)
    place(tmp_path, "b.png")
    assert read(tmp_path)[1] == ["b.png"]


def missing(root: Path, prompts: Path, rows: list[dict[str, Any]]) -> list[int]:
    """Return the lines of `rows`, written to the file `prompts`, that are missing in `root`."""
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines: list[int] = []

    def add(line: AnyStatusLine) -> None:
        if isinstance(line, MissingRequest):
            lines.append(line.line)

    with PromptSource(str(prompts), GenerationRequest()) as source:
        totals = folder_status(root, source, add)
    assert (totals.requests, totals.missing) == (len(rows), len(lines))
    return lines


def test_requests_without_an_id_are_found_by_their_content(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"prompt": "a"}, {"prompt": "a"}, {"prompt": "b", "seed": 3}]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = structs.replace(CONFIG, output=OutputConfig(output_dir=str(tmp_path / "out")))
    render_lines(prompts.read_bytes(), prompts, config)
    assert missing(tmp_path / "out", prompts, rows) == []
    assert missing(tmp_path / "out", prompts, [{"prompt": "new"}, *reversed(rows), {"prompt": "a"}]) == [1, 5]
    assert missing(tmp_path / "out", prompts, [{**rows[0], "num_outputs": 2}, *rows[1:]]) == [1]


def test_rows_of_0_1_0_are_found(tmp_path: Path) -> None:
    recorded = Path(__file__).parent / "outputs_0_1_0"
    rows = [json.loads(line) for line in (recorded / "prompts.jsonl").read_text().splitlines()]
    prompts = tmp_path / "prompts.jsonl"
    assert missing(recorded / "outputs", prompts, [{"prompt": "new"}, *reversed(rows)]) == [1]
    assert missing(recorded / "outputs", prompts, [*rows, rows[0], {**rows[3], "seed": 8}]) == [7, 8]


def test_links_and_names_that_are_not_unicode_do_not_stop_it(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        journal.append(result("a", "done", files=(place(tmp_path, "a.png"),)))
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nowhere")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png"))).touch()
    totals, orphans = read(tmp_path)
    assert sorted(orphans) == ["dangling.png", "\udcff.png"]
    assert (totals.done, totals.complete) == (1, True)


def test_a_folder_in_place_of_the_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).mkdir()
    with pytest.raises(UsageError, match=r"has no manifest\.jsonl"):
        read(tmp_path)


def test_a_report_of_the_folder_is_not_orphaned_and_other_files_beside_it_are(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        journal.append(result("a", "done", files=(place(tmp_path, "report/a.png"),)))
    report = write_report(tmp_path).page
    place(tmp_path, f"report/thumbs/{'0' * 32}.jpg")
    place(tmp_path, "report/thumbs/mine.jpg")
    place(tmp_path, "report/mine.html")
    assert report == tmp_path / "report" / "index.html"
    assert read(tmp_path)[1] == ["report/mine.html", "report/thumbs/mine.jpg"]
