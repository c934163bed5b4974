"""Every test of the executor ends with as many descriptors, threads and children as it began with."""

import contextlib
import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.puppet import Stage


def children() -> set[int]:
    """Process ids of this process's children, dead ones that nobody reaped included."""
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # a thread of a library that has just ended
            found |= {int(pid) for pid in task.read_text().split()}
    return found


def held() -> tuple[int, set[threading.Thread], set[int]]:
    """What can be left behind."""
    return len([*Path("/proc/self/fd").iterdir()]), set(threading.enumerate()), children()


@pytest.fixture(autouse=True, scope="session")
def _no_garbage_of_others() -> None:
    """What other rooms' tests left in cycles is collected now and not in the middle of a count."""
    gc.collect()


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(_no_garbage_of_others: None) -> Iterator[None]:
    before = held()
    yield
    assert held() == before


@pytest.fixture
def stage(_nothing_is_left_behind: None) -> Iterator[Stage]:
    with Stage() as stage:
        yield stage
