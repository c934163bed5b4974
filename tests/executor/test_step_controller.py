"""The step controller's reply to a step, by the calls before and after it."""

import threading

from omni_cli.executor.step_controller import StepController, StepEvent
from tests.executor.fake_worker import TIMEOUT_S


class Steps:
    """The steps of one call, and the replies to them: False to continue, True to stop."""

    def __init__(self, controller: StepController, rpc_id: int = 1) -> None:
        self.replies: list[bool] = []
        self._controller = controller
        self._rpc_id = rpc_id

    def finish(self, step: int) -> list[bool]:
        """Report the end of `step` of 8; return all replies so far."""
        self._controller.on_step(self._rpc_id, StepEvent(step, 8), self.replies.append)
        return self.replies


def test_step_continues_at_once_without_a_pause() -> None:
    steps = Steps(StepController())
    assert steps.finish(1) == [False]
    assert steps.finish(2) == [False, False]


def test_pause_makes_the_next_step_wait_until_resume() -> None:
    controller = StepController()
    steps = Steps(controller)
    controller.pause()
    assert steps.finish(3) == []
    assert controller.waits
    controller.resume()
    assert steps.replies == [False]
    assert not controller.waits
    assert steps.finish(4) == [False, False]


def test_stop_answers_the_pending_step_and_ends_the_pause() -> None:
    controller = StepController()
    steps = Steps(controller)
    controller.pause()
    steps.finish(3)
    controller.stop()
    assert steps.replies == [True]


def test_stop_between_two_steps_answers_the_next_step() -> None:
    controller = StepController()
    steps = Steps(controller)
    steps.finish(3)
    controller.stop()
    assert steps.finish(4) == [False, True]


def test_retry_after_a_death_stops_at_the_same_step() -> None:
    controller = StepController()
    first = Steps(controller)
    first.finish(2)
    controller.stop()
    assert first.finish(3) == [False, True]
    retry = Steps(controller, rpc_id=2)
    for step in (1, 2, 3):
        retry.finish(step)
    assert retry.replies == [False, False, True]


def test_pause_applies_to_the_retry_after_a_death() -> None:
    controller = StepController()
    controller.pause()
    Steps(controller).finish(5)
    retry = Steps(controller, rpc_id=2)
    assert retry.finish(1) == []
    controller.resume()
    assert retry.replies == [False]


def test_paced_steps_wait_until_taken_and_released() -> None:
    controller = StepController(paced=True)
    steps = Steps(controller)
    assert controller.take() is None
    steps.finish(1)
    controller.release()
    assert steps.replies == [], "the step was not taken"
    assert controller.has_step
    assert controller.take() == StepEvent(1, 8)
    assert controller.take() is None
    assert steps.replies == []
    controller.release()
    assert steps.replies == [False]


def test_pause_makes_a_released_step_wait() -> None:
    controller = StepController(paced=True)
    steps = Steps(controller)
    steps.finish(1)
    controller.take()
    controller.pause()
    controller.release()
    assert steps.replies == []
    controller.resume()
    assert steps.replies == [False]


def test_unpace_lets_pending_and_later_steps_continue() -> None:
    controller = StepController(paced=True)
    steps = Steps(controller)
    steps.finish(1)
    controller.unpace()
    assert steps.replies == [False]
    assert steps.finish(2) == [False, False]


def test_wait_for_decision_blocks_during_a_pause() -> None:
    controller = StepController()
    controller.pause()
    decisions: list[bool] = []
    thread = threading.Thread(target=lambda: decisions.append(controller.wait_for_decision(StepEvent(1, 2))))
    thread.start()
    with controller.changed:
        assert controller.changed.wait_for(lambda: controller.has_step, TIMEOUT_S)
    controller.stop()
    thread.join(TIMEOUT_S)
    assert decisions == [True]
