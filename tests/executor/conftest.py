"""Checks that every test leaves no descriptor, thread or child process behind."""

import contextlib
import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.fake_worker import Harness


def child_pids() -> set[int]:
    """Return the process ids of this process's children, unreaped ones included."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # a thread of a library has just ended
            pids |= {int(pid) for pid in task.read_text().split()}
    return pids


def open_resources() -> tuple[int, set[threading.Thread], set[int]]:
    """Return the number of descriptors, the threads, and the child processes."""
    return len([*Path("/proc/self/fd").iterdir()]), set(threading.enumerate()), child_pids()


@pytest.fixture(autouse=True, scope="session")
def _collect_garbage_of_other_tests() -> None:
    """Collect cycles of earlier tests now, so that they do not change the counts later."""
    gc.collect()


@pytest.fixture(autouse=True)
def _no_leaks(_collect_garbage_of_other_tests: None) -> Iterator[None]:
    before = open_resources()
    yield
    assert open_resources() == before


@pytest.fixture
def harness(_no_leaks: None) -> Iterator[Harness]:
    with Harness() as harness:
        yield harness
