"""`run --report` and `--report-live`: the page of the folder, and a run that does not depend on it."""

import json
import signal
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from omni_cli.cli.run_report import run_and_report
from omni_cli.errors import EngineError, OmniGenError, UsageError
from omni_cli.journal import Journal
from omni_cli.report import live_page
from omni_cli.report.live_page import follow
from tests.cli.conftest import Start, omni_gen
from tests.factories import result

NULL = ["--runner", "omni_cli.worker.null:NullRunner", "--workers", "1"]


def reload_of(page: Path) -> float:
    """Return after how many seconds the page loads itself again."""
    text = page.read_text(encoding="utf-8")
    return float(text.rpartition('"reload":')[2].partition("}")[0])


def outputs_of(page: Path) -> int:
    text = page.read_text(encoding="utf-8")
    data = text.partition('<script id="data" type="application/json">')[2].partition("</script>")[0]
    return len(json.loads(data)["folders"][0]["outputs"])


@pytest.fixture
def render(tmp_path: Path) -> Callable[[], int]:
    """Return a run that fails one request, with exit code 1."""

    def render() -> int:
        with Journal.open(tmp_path) as journal:
            journal.append(result("a", "failed"))
        return 1

    return render


def test_the_page_is_written_at_the_end_and_named(
    tmp_path: Path, render: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_and_report(render, tmp_path, live=False, quiet=False) == 1
    page = tmp_path / "report" / "index.html"
    assert outputs_of(page) == 1
    assert capsys.readouterr().err == f"omni-gen: report: 1 output, 1 failed, in {page}\n"


def test_with_a_view_for_programs_nothing_is_printed(
    tmp_path: Path, render: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    run_and_report(render, tmp_path, live=False, quiet=True)
    assert (tmp_path / "report" / "index.html").is_file()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("error", "is_written"), [(EngineError("died"), True), (UsageError("bad prompts"), False)])
def test_a_run_that_ends_with_an_error_is_reported_if_it_had_begun(
    tmp_path: Path, render: Callable[[], int], error: OmniGenError, is_written: bool
) -> None:
    def fail() -> NoReturn:
        render()
        raise error

    with pytest.raises(type(error)):
        run_and_report(fail, tmp_path, live=False, quiet=True)
    assert (tmp_path / "report" / "index.html").is_file() is is_written


def test_an_interrupted_run_ends_without_a_report(tmp_path: Path, render: Callable[[], int]) -> None:
    assert run_and_report(lambda: render() + 129, tmp_path, live=False, quiet=True) == 130
    assert not (tmp_path / "report").exists()


def test_a_report_that_cannot_be_written_is_a_line_and_changes_no_exit_code(
    tmp_path: Path, render: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report").write_text("a file of the user")
    assert run_and_report(render, tmp_path, live=False, quiet=True) == 1
    assert capsys.readouterr().err.startswith("omni-gen: --report: the report cannot be written to ")
    assert run_and_report(render, tmp_path, live=True, quiet=True) == 1
    assert "omni-gen: --report-live: the process that writes the report exited with code 1" in capsys.readouterr().err
    assert (tmp_path / "report").read_text() == "a file of the user"


def test_a_page_follows_the_manifest_until_the_run_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_page, "SHORTEST_PAUSE_S", 0.01)
    page = tmp_path / "report" / "index.html"
    seen: list[tuple[bool, int, int]] = []

    with Journal.open(tmp_path) as journal:

        def is_over(pause: float) -> bool:
            exists = page.is_file()
            seen.append((exists, outputs_of(page) if exists else 0, page.stat().st_mtime_ns if exists else 0))
            if len(seen) in (2, 4):
                journal.append(result(f"r{len(seen)}", "failed"))
            return len(seen) == 6

        written = follow(tmp_path, None, is_over)
    assert [(exists, outputs) for exists, outputs, _ in seen[:3]] == [(False, 0), (True, 0), (True, 1)]
    assert seen[3] == seen[2]  # no row was added: the page is not written again
    assert seen[4][:2] == (True, 2)
    assert written is not None
    assert (written.outputs, reload_of(page)) == (2, 0)


def test_a_killed_run_leaves_a_last_page_and_no_process(tmp_path: Path, start: Start) -> None:
    prompts, out = tmp_path / "p.jsonl", tmp_path / "out"
    prompts.write_text("".join(f'{{"id": "r{n}", "prompt": "x", "num_frames": 1}}\n' for n in range(2000)))
    process = start("run", prompts, "-o", out, *NULL, "--progress", "none", "--report-live")
    page = out / "report" / "index.html"
    deadline = time.monotonic() + 60
    while not page.is_file():
        assert process.poll() is None, "the run ended before its page was there"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert reload_of(page) >= 5
    process.kill()
    while reload_of(page) > 0:  # the last page, written by the process that outlives the run for it
        assert time.monotonic() < deadline
        time.sleep(0.05)
    while writes_reports_of(out):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def writes_reports_of(folder: Path) -> bool:
    """Return True if a process exists that writes the live page of `folder`."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            arguments = path.read_bytes().split(b"\0")
            if b"omni_cli.report.live_page" in arguments and bytes(folder) in arguments:
                return True
    return False


def test_report_prints_the_path_of_the_page(tmp_path: Path, render: Callable[[], int]) -> None:
    render()
    ended = omni_gen("report", tmp_path, "--follow")
    assert (ended.returncode, ended.stdout) == (0, f"{tmp_path / 'report' / 'index.html'}\n")
    assert ended.stderr == "report: 1 output, 1 failed\n"
    assert omni_gen("report", tmp_path / "none").returncode == 2


def test_serve_prints_an_address_that_works_until_ctrl_c(
    tmp_path: Path, render: Callable[[], int], start: Start
) -> None:
    render()
    process = start("report", tmp_path, "--serve", "--port", "0")
    assert process.stdout is not None
    with urllib.request.urlopen(process.stdout.readline().strip(), timeout=10) as answer:
        assert b"<!-- omni-gen report -->" in answer.read()
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == -signal.SIGINT
