"""StepReporter numbers the steps of several calls consecutively."""

from omni_cli.worker.pipeline.step_reporter import StepReporter


def reporter_of(calls: int) -> tuple[StepReporter, list[tuple[int, int]]]:
    reported: list[tuple[int, int]] = []
    return StepReporter(
        calls, lambda state: reported.append((state.step, state.total)) or True, lambda: False
    ), reported


def test_steps_of_all_calls_are_numbered_consecutively() -> None:
    reporter, reported = reporter_of(2)
    for _ in range(2):
        reporter.next_call()
        for step in (1, 2):
            reporter.report(step, 2)
    assert reported == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_call_with_several_rounds_of_steps_goes_on_counting() -> None:
    reporter, reported = reporter_of(2)
    for _ in range(2):
        reporter.next_call()
        for _ in range(3):
            for step in (1, 2):
                reporter.report(step, 2)
    assert [step for step, _ in reported] == list(range(1, 13))
    assert reported[5] == (6, 12)
    assert reported[-1] == (12, 12)
    assert all(step <= total for step, total in reported)


def test_a_retried_call_restarts_its_count() -> None:
    reporter, reported = reporter_of(1)
    reporter.next_call()
    reporter.report(1, 2)
    reporter.retry_call(2)
    for _ in range(2):
        reporter.next_call()
        for step in (1, 2):
            reporter.report(step, 2)
    assert reported == [(1, 2), (1, 4), (2, 4), (3, 4), (4, 4)]
