"""The size of a call: fixed, or found by measuring the run's own requests."""

import itertools
from collections.abc import Callable

import pytest

from omni_cli.batch import BatchSize
from omni_cli.batch.batch_size import MAX_AUTO, TRIALS
from omni_cli.executor.protocol import Handle, Output
from omni_cli.request import Interval
from tests.factories import media_header, planned


def output(seconds: float) -> Output:
    moment = Interval(0, 0)
    return Output(media_header((1, 1, 1, 1, 3)), memoryview(b"abc"), lambda: None, moment, Interval(0, seconds), moment)


def run_calls(sizes: BatchSize, seconds: Callable[[int], float], calls: int, key: str = "k") -> list[int]:
    """Run `calls` calls of one key, whose forward takes `seconds(size)`; return their sizes."""
    sizes_used = []
    for _ in range(calls):
        size = sizes.size(key)
        sizes_used.append(size)
        call = [planned(index=i, batch_key=key) for i in range(size)]
        handles = [Handle(request, request.id) for request in call]
        sizes.watch(call, handles)
        for handle in handles:
            handle.output_ready.set_result(output(seconds(size)))
    return sizes_used


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        (lambda size: 1.0, MAX_AUTO),  # a call costs the same whatever its size
        (lambda size: size * 1.0, 1),  # no gain
        (lambda size: 1.0 if size <= 4 else size * 0.5, 4),  # gains end at 4
    ],
)
def test_auto_doubles_while_outputs_get_cheaper_and_then_settles(seconds: Callable[[int], float], best: int) -> None:
    sizes_used = run_calls(BatchSize(0, 1, 1), seconds, 30)
    assert sizes_used[0] == 1
    assert sizes_used[TRIALS] == 2
    assert set(sizes_used[-10:]) == {best}


def test_a_slow_first_call_does_not_end_the_search() -> None:
    times = itertools.chain([9.0, 1.0, 9.0, 1.0], itertools.repeat(1.0))
    sizes_used = run_calls(BatchSize(0, 1, 1), lambda size: next(times), 20)
    assert sizes_used[-1] == MAX_AUTO


def test_each_batch_key_is_measured_on_its_own() -> None:
    sizes = BatchSize(0, 1, 1)
    run_calls(sizes, lambda size: 1.0, 20, "large")
    assert run_calls(sizes, lambda size: size * 1.0, 20, "small")[-1] == 1
    assert sizes.size("large") == MAX_AUTO
    assert sizes.size("") == 1


def test_a_size_that_fails_is_replaced_by_the_size_below() -> None:
    sizes = BatchSize(0, 1, 1)
    run_calls(sizes, lambda size: 1.0, 2 * TRIALS)
    assert sizes.size("k") == 4
    call = [planned(index=i, batch_key="k") for i in range(4)]
    handles = [Handle(request, request.id) for request in call]
    sizes.watch(call, handles)
    handles[0].output_ready.set_exception(RuntimeError("out of memory"))
    assert sizes.size("k") == 2
    assert run_calls(sizes, lambda size: 1.0, 9)[-1] == 2


def test_calls_that_are_not_full_are_not_measured() -> None:
    sizes = BatchSize(0, 1, 1)
    run_calls(sizes, lambda size: 1.0, TRIALS)
    for _ in range(5):
        handle = Handle(planned(batch_key="k"), "0")
        sizes.watch([handle.planned], [handle])
        handle.output_ready.set_result(output(100.0))
    assert sizes.size("k") == 2


def test_a_fixed_size_never_changes_and_sets_the_window() -> None:
    sizes = BatchSize(8, 2, 3)
    assert set(run_calls(sizes, lambda size: size * 9.0, 5)) == {8}
    assert sizes.window() == 4 * 8 * 2 + 2 * 3
    assert BatchSize(1, 1, 1).buffer_size == 1
