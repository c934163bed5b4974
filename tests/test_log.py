"""The log file: whole lines at once, and a disk that is full costs lines and nothing else."""

import logging
from pathlib import Path

import pytest

from omni_cli.log import log_to_file, logger, warnings_to
from tests.disks import fill, small_disk


def test_lines_are_appended_with_their_level_and_thread(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("before\n")
    with log_to_file(path):
        logger.info("one %s", "\ud800 two")
        assert path.read_text().startswith("before\n")
        assert path.read_text().endswith("INFO MainProcess/MainThread omni_gen: one \\ud800 two\n")
    logger.warning("later")
    assert "later" not in path.read_text()


def test_a_warning_is_shown_and_logged_and_an_error_only_logged(tmp_path: Path) -> None:
    shown: list[str] = []
    with log_to_file(tmp_path / "run.log"), warnings_to(shown.append):
        logger.warning("the queue")
        logger.error("a traceback")
    assert shown == ["the queue"]
    assert [line.rpartition(": ")[2] for line in (tmp_path / "run.log").read_text().splitlines()] == [
        "the queue",
        "a traceback",
    ]


def test_a_full_disk_is_told_once_and_the_log_goes_on_when_there_is_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    with small_disk(tmp_path / "disk") as disk, warnings_to(shown.append):
        path = disk / "run.log"
        with log_to_file(path):
            logger.info("first")
            ballast = fill(disk)
            for _ in range(3):
                logger.info("%s", "x" * 5000)
            assert shown == [f"the log file {path} cannot be written: No space left on device; lines are lost"]
            ballast.unlink()
            logger.info("last")
            fill(disk)
            logger.info("%s", "y" * 5000)
        lines = path.read_text().splitlines()
    assert lines[0].endswith("first")
    assert any(line.endswith("omni_gen: last") for line in lines)
    assert capsys.readouterr().err == "", "logging's own traceback would be in the middle of the view"


def test_a_file_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), log_to_file(tmp_path / "none" / "run.log"):
        pass
    assert all(not isinstance(handler, logging.FileHandler) for handler in logger.handlers)


def test_a_warning_that_comes_again_is_shown_once() -> None:
    shown: list[str] = []
    with warnings_to(shown.append):
        for number in (1, 1, 2, 1):
            logger.warning("warning %d", number)
    assert shown == ["warning 1", "warning 2"]
