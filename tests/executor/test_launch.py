"""A worker process starts clean, says how it ended, and leaves nothing."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from omni_cli.executor.launch import KEEP_MEMORY, WorkerProcess, start_worker, worker_environment


def run(code: str, *more: str) -> WorkerProcess:
    worker = start_worker((sys.executable, "-S", "-c", code, *more))
    worker.end(30)
    return worker


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("raise SystemExit(3)", "exited with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", "was killed by SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 5)", "was killed by signal 39"),
    ],
)
def test_how_it_ended_is_told_in_words(code: str, ending: str) -> None:
    worker = run(code)
    assert worker.ending() == ending
    worker.dispose()
    worker.dispose()


def test_the_end_of_its_log_is_kept_whatever_bytes_it_wrote() -> None:
    worker = run("import os; os.write(1, b'x' * 9000); os.write(2, b'\\nthe \\xff end\\n')")
    assert worker.log_tail().endswith("x\nthe \N{REPLACEMENT CHARACTER} end")
    assert len(worker.log_tail()) < 4001
    worker.dispose()


def test_reading_the_log_does_not_move_the_place_where_the_worker_writes() -> None:
    code = "import os; os.write(1, b'first '); os.read(int(__import__('sys').argv[1]), 1); os.write(1, b'second')"
    worker = start_worker((sys.executable, "-S", "-c", code))
    while worker.log_tail() != "first":
        os.sched_yield()
    worker.channel.send(b"go on")
    worker.end(30)
    assert worker.log_tail() == "first second"
    worker.dispose()


def test_one_that_does_not_leave_is_killed() -> None:
    worker = start_worker((sys.executable, "-S", "-c", "import signal; signal.pause()"))
    worker.end(0.01)
    assert worker.ending() == "was killed by SIGKILL"
    worker.dispose()


def test_it_has_a_process_group_of_its_own_no_stdin_and_no_descriptor_but_its_channel() -> None:
    code = "import os, sys; print(os.getpgid(0) == os.getpid(), sys.stdin.read() == '', sorted(os.listdir('/proc/self/fd')))"
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    worker = run(code)
    os.close(inherited)
    group, stdin, fds = worker.log_tail().split(" ", 2)
    assert (group, stdin) == ("True", "True")
    assert len(fds.split()) == 5, fds  # three standard ones, the channel, and the listing itself
    worker.dispose()


def test_it_finds_modules_where_this_process_does_and_not_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "msgspec.py").write_text("raise SystemExit('the wrong msgspec')")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "users_runner.py").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(str(tmp_path / "there"))
    worker = start_worker((sys.executable, "-P", "-c", "import users_runner, omni_cli.worker, msgspec; print('found')"))
    worker.end(30)
    assert worker.log_tail() == "found"
    real = start_worker()
    assert real.channel.receive() is not None, real.log_tail()  # Hello
    real.end(0)
    worker.dispose()
    real.dispose()


def test_a_program_that_cannot_be_started_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        start_worker((str(tmp_path / "nowhere"),))


CHURN = """
import ctypes, resource
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
size = 48 << 20
def once():
    memory = libc.malloc(size)
    ctypes.memset(memory, 1, size)
    libc.free(memory)
once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    once()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the variables are glibc's")
def test_a_worker_keeps_the_memory_of_a_large_tensor_and_a_user_may_say_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faults() -> int:
        command = [sys.executable, "-c", CHURN]
        return int(subprocess.run(command, env=worker_environment(), capture_output=True, check=True).stdout)

    assert faults() < 1000
    for name in KEEP_MEMORY:
        monkeypatch.setenv(name, str(1 << 17))
    assert faults() > 5000  # 48 MiB are 12,288 pages, five times; fewer where the system hands out large ones
