"""The size of a call: as asked, or climbed to on the run's own requests."""

import itertools
from collections.abc import Callable

import pytest

from omni_cli.batch import Sizes
from omni_cli.batch.sizes import MAX_AUTO, TRIALS
from omni_cli.executor.protocol import Handle, Output
from omni_cli.media import ColorModel, Kind, MediaHeader
from omni_cli.request import GenerationRequest, Interval, PlannedRequest


def planned(number: int, key: str = "k") -> PlannedRequest:
    request = GenerationRequest(id=str(number), prompt="x")
    return PlannedRequest(request=request, index=number, seeds=(number,), files=("f",), fingerprint="", batch_key=key)


def output(seconds: float) -> Output:
    header = MediaHeader(
        kind=Kind.IMAGE, dtype="uint8", shape=(1, 1, 1, 1, 3), color=ColorModel.RGB, value_range=(0, 255)
    )
    moment = Interval(0, 0)
    return Output(header, memoryview(b"abc"), lambda: None, moment, Interval(0, seconds), moment)


def run_calls(sizes: Sizes, seconds: Callable[[int], float], calls: int, key: str = "k") -> list[int]:
    """Sizes of `calls` calls of one key, whose forward takes `seconds(size)`."""
    taken = []
    for _ in range(calls):
        size = sizes.size(key)
        taken.append(size)
        call = [planned(i, key) for i in range(size)]
        handles = [Handle(request, request.id) for request in call]
        sizes.watch(call, handles)
        for handle in handles:
            handle.output_ready.set_result(output(seconds(size)))
    return taken


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        (lambda size: 1.0, MAX_AUTO),  # a call costs the same whatever its size
        (lambda size: size * 1.0, 1),  # nothing is gained
        (lambda size: 1.0 if size <= 4 else size * 0.5, 4),  # gains end at 4
    ],
)
def test_auto_climbs_while_an_output_gets_cheaper_and_stays(seconds: Callable[[int], float], best: int) -> None:
    taken = run_calls(Sizes(0, 1, 1), seconds, 30)
    assert taken[0] == 1
    assert taken[TRIALS] == 2
    assert set(taken[-10:]) == {best}


def test_a_slow_first_call_does_not_end_the_climb() -> None:
    times = itertools.chain([9.0, 1.0, 9.0, 1.0], itertools.repeat(1.0))
    taken = run_calls(Sizes(0, 1, 1), lambda size: next(times), 20)
    assert taken[-1] == MAX_AUTO


def test_each_batch_key_climbs_for_itself() -> None:
    sizes = Sizes(0, 1, 1)
    run_calls(sizes, lambda size: 1.0, 20, "large")
    assert run_calls(sizes, lambda size: size * 1.0, 20, "small")[-1] == 1
    assert sizes.size("large") == MAX_AUTO
    assert sizes.size("") == 1


def test_a_size_that_fails_is_left_for_the_one_below() -> None:
    sizes = Sizes(0, 1, 1)
    run_calls(sizes, lambda size: 1.0, 2 * TRIALS)
    assert sizes.size("k") == 4
    call = [planned(i) for i in range(4)]
    handles = [Handle(request, request.id) for request in call]
    sizes.watch(call, handles)
    handles[0].output_ready.set_exception(RuntimeError("out of memory"))
    assert sizes.size("k") == 2
    assert run_calls(sizes, lambda size: 1.0, 9)[-1] == 2


def test_calls_that_are_not_full_teach_nothing() -> None:
    sizes = Sizes(0, 1, 1)
    run_calls(sizes, lambda size: 1.0, TRIALS)
    for _ in range(5):
        handle = Handle(planned(0), "0")
        sizes.watch([handle.planned], [handle])
        handle.output_ready.set_result(output(100.0))
    assert sizes.size("k") == 2


def test_a_fixed_size_never_changes_and_sets_the_window() -> None:
    sizes = Sizes(8, 2, 3)
    assert set(run_calls(sizes, lambda size: size * 9.0, 5)) == {8}
    assert sizes.window() == 4 * 8 * 2 + 2 * 3
    assert Sizes(1, 1, 1).look_ahead == 1
