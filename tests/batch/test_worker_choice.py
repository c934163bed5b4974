"""The number of workers and threads of `--workers auto`."""

import pytest

from omni_cli.batch.worker_choice import SMALL_WORK, choose_on_cpu, choose_on_devices
from omni_cli.config import EngineConfig

GIB = 1 << 30


def cpu(work: float | None, *, cores: int = 4, free: int = 64 * GIB, weights: int = 0, **environ: str) -> str:
    choice = choose_on_cpu(EngineConfig(), work, weights, cores=cores, free=free, environ=environ)
    return choice.describe(choice.workers(1000))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (cpu(SMALL_WORK), "4 workers of 1 thread: 4 usable cores, small requests"),
        (cpu(SMALL_WORK, cores=1), "1 worker of 1 thread: 1 usable core, small requests"),
        (cpu(SMALL_WORK * 2), "1 worker of 4 threads: 4 usable cores, large requests"),
        (cpu(None), "1 worker of 4 threads: 4 usable cores, requests of unknown size"),
        (cpu(1, free=3 * GIB), "3 workers of 1 thread: 4 usable cores, small requests, 3.0 GiB of free memory"),
        (cpu(1, free=0), "1 worker of 1 thread: 4 usable cores, small requests, 0.0 GiB of free memory"),
        (
            cpu(1, free=9 * GIB, weights=2 * GIB),
            "2 workers of 1 thread: 4 usable cores, small requests, 9.0 GiB of free memory",
        ),
        (cpu(1, OMP_NUM_THREADS="2"), "2 workers of 2 threads: 4 usable cores, small requests"),
        (cpu(1, OMP_NUM_THREADS="2,1"), "2 workers of 2 threads: 4 usable cores, small requests"),
        (cpu(1, OMP_NUM_THREADS="9"), "1 worker of 9 threads: 4 usable cores, small requests"),
        (cpu(SMALL_WORK * 2, OMP_NUM_THREADS="1"), "1 worker of 1 thread: 4 usable cores, large requests"),
        (cpu(1, OMP_NUM_THREADS="many"), "4 workers of 1 thread: 4 usable cores, small requests"),
    ],
)
def test_a_cpu_has_workers_by_cores_size_memory_and_the_threads_that_the_user_has_set(said: str, expected: str) -> None:
    assert said == expected


def test_the_flag_for_threads_wins_over_the_environment() -> None:
    choice = choose_on_cpu(EngineConfig(threads=3), 1, 0, cores=6, free=64 * GIB, environ={"OMP_NUM_THREADS": "1"})
    assert (choice.limit, choice.threads) == (2, 3)


def test_threads_do_not_depend_on_how_many_calls_are_left() -> None:
    choice = choose_on_cpu(EngineConfig(), 1, 0, cores=2, free=64 * GIB, environ={})
    assert [(calls, choice.workers(calls)) for calls in (0, 1, 15, 16, 1000)] == [
        (0, 1),
        (1, 1),
        (15, 1),
        (16, 2),
        (1000, 2),
    ]
    assert choice.threads == 1


def test_every_device_has_a_worker_as_far_as_there_are_calls() -> None:
    choice = choose_on_devices("cuda:0", 8)
    assert [choice.workers(calls) for calls in (1, 3, 8, 1000)] == [1, 3, 8, 8]
    assert choice.describe(3) == "3 workers: one per cuda device, 8 visible"
