"""A child process reports how it ended, keeps its log, and leaves no descriptor."""

import os
import sys
from pathlib import Path

import pytest

from omni_cli.child_process import ChildProcess, with_log_tail


def run(code: str) -> ChildProcess:
    process = ChildProcess.start((sys.executable, "-S", "-c", code))
    process.wait_or_kill(30)
    return process


@pytest.mark.parametrize(
    ("code", "report"),
    [
        ("raise SystemExit(3)", "exited with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", "was killed by SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 5)", "was killed by signal 39"),
    ],
)
def test_exit_report_names_the_code_or_the_signal(code: str, report: str) -> None:
    process = run(code)
    assert process.exit_report() == report
    process.close()
    process.close()


def test_log_tail_is_text_whatever_bytes_were_written() -> None:
    process = run("import os; os.write(1, b'x' * 9000); os.write(2, b'\\nthe \\xff end\\n')")
    assert process.log_tail().endswith("x\nthe \N{REPLACEMENT CHARACTER} end")
    assert len(process.log_tail()) < 4001
    process.close()


def test_reading_the_log_does_not_move_the_write_position() -> None:
    code = "import os; os.write(2, b'first '); os.read(0, 1); os.write(2, b'second')"
    process = ChildProcess.start((sys.executable, "-S", "-c", code), pipes=True)
    while process.log_tail() != "first":
        os.sched_yield()
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait_or_kill(30) == 0
    assert process.log_tail() == "first second"
    process.close()


def test_process_that_does_not_exit_in_time_is_killed() -> None:
    process = ChildProcess.start((sys.executable, "-S", "-c", "import signal; signal.pause()"))
    assert process.wait_or_kill(0) == -9
    assert process.exit_report() == "was killed by SIGKILL"
    process.close()


def test_process_has_its_own_group_no_stdin_and_no_inherited_descriptor() -> None:
    code = (
        "import os, sys; print(os.getpgid(0) == os.getpid(), sys.stdin.read() == '', len(os.listdir('/proc/self/fd')))"
    )
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    process = run(code)
    os.close(inherited)
    assert process.log_tail() == "True True 4"  # three standard descriptors, and the listing itself
    process.close()


def test_pipes_carry_stdin_and_stdout_and_the_log_stderr() -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('log', file=sys.stderr)"
    process = ChildProcess.start((sys.executable, "-S", "-c", code), pipes=True)
    with process.stdin:
        process.stdin.write(b"text")
    assert process.stdout.read() == b"TEXT\n"
    assert process.wait_or_kill() == 0
    assert process.log_tail() == "log"
    process.close()


def test_program_that_cannot_be_started_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(OSError, match="nowhere"):
        ChildProcess.start((str(tmp_path / "nowhere"),))
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_failure_quotes_the_log_or_says_that_it_is_empty() -> None:
    assert with_log_tail("exited with code 1", "why") == "exited with code 1; its log ends with:\nwhy"
    assert with_log_tail("exited with code 1", "") == "exited with code 1; its log is empty"


def test_a_long_log_is_cut_to_its_end_and_goes_on_there() -> None:
    code = "import os; os.write(2, b'x' * (2 << 20) + b'end'); os.read(0, 1); os.write(2, b'after')"
    process = ChildProcess.start((sys.executable, "-S", "-c", code), pipes=True)
    while not process.log_tail().endswith("end"):
        os.sched_yield()
    process.trim_log()
    assert os.fstat(process.log.fileno()).st_size < 5000
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait_or_kill(30) == 0
    assert process.log_tail().endswith("xend\nafter")
    process.close()


def test_a_short_log_is_not_cut() -> None:
    process = run("import os; os.write(2, b'x' * 9000)")
    process.trim_log()
    assert os.fstat(process.log.fileno()).st_size == 9000
    process.close()


def test_the_log_needs_no_folder_of_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    process = run("print('said')")
    assert process.log_tail() == "said"
    process.close()
