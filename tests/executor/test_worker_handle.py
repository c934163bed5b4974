"""A worker process starts with its channel only, in an environment that keeps freed memory."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from omni_cli.executor.worker_handle import KEEP_MEMORY, start_worker, worker_environment


def test_worker_gets_no_descriptor_but_its_channel() -> None:
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    worker = start_worker(0, 0.0, (sys.executable, "-S", "-c", "import os; print(len(os.listdir('/proc/self/fd')))"))
    os.close(inherited)
    worker.process.wait_or_kill(30)
    assert worker.process.log_tail() == "5"  # three standard descriptors, the channel, and the listing itself
    worker.close()
    worker.close()


def test_worker_imports_from_this_process_path_and_not_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "msgspec.py").write_text("raise SystemExit('the wrong msgspec')")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "users_runner.py").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(str(tmp_path / "there"))
    program = (sys.executable, "-P", "-c", "import users_runner, omni_cli.worker, msgspec; print('found')")
    worker = start_worker(0, 0.0, program)
    worker.process.wait_or_kill(30)
    assert worker.process.log_tail() == "found"
    real = start_worker(0, 0.0)
    assert real.channel.receive() is not None, real.process.log_tail()  # Hello
    real.process.wait_or_kill(0)
    worker.close()
    real.close()


def test_program_that_cannot_be_started_leaves_no_descriptor(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        start_worker(0, 0.0, (str(tmp_path / "nowhere"),))


def test_first_kill_reason_is_kept_and_reported() -> None:
    worker = start_worker(0, 0.0, (sys.executable, "-S", "-c", "import signal; signal.pause()"))
    worker.kill("was killed: first")
    worker.kill("was killed: second")
    worker.process.wait_or_kill(30)
    assert worker.exit_report() == f"{worker.name} was killed: first"
    worker.close()


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
def test_worker_keeps_the_memory_of_a_large_tensor_unless_the_user_sets_the_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def count_faults() -> int:
        command = [sys.executable, "-c", CHURN]
        return int(subprocess.run(command, env=worker_environment(), capture_output=True, check=True).stdout)

    assert count_faults() < 1000
    for name in KEEP_MEMORY:
        monkeypatch.setenv(name, str(1 << 17))
    assert count_faults() > 5000  # 48 MiB are 12,288 pages, five times; fewer where the system hands out large ones


@pytest.mark.parametrize(
    ("environ", "spin"),
    [
        ({}, ("10000", "1")),
        ({"GOMP_SPINCOUNT": "5"}, ("5", "1")),
        ({"KMP_BLOCKTIME": "200"}, ("10000", "200")),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, (None, None)),
        ({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "7"}, ("7", None)),
    ],
)
def test_waiting_threads_spin_as_the_user_says_or_for_a_moment(
    environ: dict[str, str], spin: tuple[str | None, str | None]
) -> None:
    environment = worker_environment(environ)
    assert (environment.get("GOMP_SPINCOUNT"), environment.get("KMP_BLOCKTIME")) == spin
