"""Steps of several calls as one run of steps, whatever a call does with its bar."""

from omni_cli.worker.steps import Steps


def counted(calls: int) -> tuple[Steps, list[tuple[int, int]]]:
    seen: list[tuple[int, int]] = []
    return Steps(calls, lambda state: seen.append((state.step, state.total)) or True, lambda: False), seen


def test_calls_are_one_run_of_steps() -> None:
    steps, seen = counted(2)
    for _ in range(2):
        steps.next_call()
        for step in (1, 2):
            steps.done(step, 2)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_call_that_begins_its_steps_anew_goes_on_counting() -> None:
    steps, seen = counted(2)
    for _ in range(2):
        steps.next_call()
        for _ in range(3):
            for step in (1, 2):
                steps.done(step, 2)
    assert [step for step, _ in seen] == list(range(1, 13))
    assert seen[5] == (6, 12)
    assert seen[-1] == (12, 12)
    assert all(step <= total for step, total in seen)


def test_a_call_that_came_to_nothing_is_not_counted() -> None:
    steps, seen = counted(1)
    steps.next_call()
    steps.done(1, 2)
    steps.again(2)
    for _ in range(2):
        steps.next_call()
        for step in (1, 2):
            steps.done(step, 2)
    assert seen == [(1, 2), (1, 4), (2, 4), (3, 4), (4, 4)]
