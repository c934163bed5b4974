"""Steps are told at a rate that somebody can look at, and the last one always."""

from omni_cli.worker.progress import StepTeller


def test_fast_steps_are_thinned_out_and_the_last_one_is_told() -> None:
    told: list[int] = []
    now = 100.0
    teller = StepTeller(lambda step, total: told.append(step), lambda: now)
    for step in range(1, 101):
        teller(step, 100)
        now += 0.01
    assert told[:3] == [1, 6, 11]
    assert told[-1] == 100
    assert len(told) == 21


def test_slow_steps_are_all_told() -> None:
    told: list[tuple[int, int]] = []
    now = 100.0
    teller = StepTeller(lambda step, total: told.append((step, total)), lambda: now)
    for step in (1, 2, 3):
        teller(step, 3)
        now += 1
    assert told == [(1, 3), (2, 3), (3, 3)]
