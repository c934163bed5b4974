"""AV1 encoders that may make themselves real-time leave the process, and the machine, as they were."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omni_cli.writers.samples import Frames
from omni_cli.writers.thread_scheduling import leave_real_time


def policies(process: int | str) -> set[int]:
    return {os.sched_getscheduler(int(task.name)) for task in Path(f"/proc/{process}/task").iterdir()}


def may_be_real_time() -> bool:
    code = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


real_time = pytest.mark.skipif(not may_be_real_time(), reason="only a privileged process can be real-time")


@real_time
def test_encoding_av1_leaves_every_thread_as_it_was(clip: Callable[..., Frames], written: Callable[..., Path]) -> None:
    written(clip(96, 64), "mp4", codec="av1")
    assert policies("self") == {os.SCHED_OTHER}


@real_time
def test_a_process_that_made_itself_real_time_is_taken_back() -> None:
    code = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert policies(process.pid) == {os.SCHED_FIFO}
        leave_real_time(process.pid)
        assert policies(process.pid) == {os.SCHED_OTHER}
        process.communicate(b"\n")


def test_a_process_that_has_ended_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    leave_real_time(process.pid)
