"""Takes back the real-time scheduling that SVT-AV1 gives itself.

Where it may, as root in a container, `svt_av1_enc_init` runs the thread that calls it and all of its own threads under
SCHED_FIFO at priority 99 for good. They would come before every other thread of the machine, and processes started
later would inherit it.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

REAL_TIME_ENCODER = "libsvtav1"


@contextlib.contextmanager
def keep_scheduling() -> Iterator[None]:
    """Give this thread and those that start in the block the policy that this thread had before it."""
    if not hasattr(os, "sched_getscheduler"):
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        if policy != os.SCHED_FIFO:
            _leave_real_time(os.getpid(), policy, parameters)


def leave_real_time(process: int) -> None:
    """Give the threads of another `process` that are under SCHED_FIFO this thread's policy."""
    if hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) != os.SCHED_FIFO:
        _leave_real_time(process, os.sched_getscheduler(0), os.sched_getparam(0))


def _leave_real_time(process: int, policy: int, parameters: os.sched_param) -> None:
    with contextlib.suppress(OSError):  # the process has ended, or there is no /proc
        for task in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                if os.sched_getscheduler(int(task.name)) == os.SCHED_FIFO:
                    os.sched_setscheduler(int(task.name), policy, parameters)
