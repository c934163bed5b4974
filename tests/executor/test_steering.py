"""What becomes of a step, by what was said before, meanwhile and after."""

import threading

from omni_cli.executor.steering import Steering, Step


class Worker:
    """Does steps and keeps the answers: False to go on, True to stop."""

    def __init__(self, steering: Steering, rpc_id: int = 1) -> None:
        self.answers: list[bool] = []
        self._steering = steering
        self._rpc_id = rpc_id

    def does(self, step: int) -> list[bool]:
        self._steering.arrived(self._rpc_id, Step(step, 8), self.answers.append)
        return self.answers


def test_a_step_goes_on_at_once_if_nobody_minds() -> None:
    worker = Worker(Steering())
    assert worker.does(1) == [False]
    assert worker.does(2) == [False, False]


def test_a_pause_holds_the_next_step_until_it_ends() -> None:
    steering = Steering()
    worker = Worker(steering)
    steering.pause()
    assert worker.does(3) == []
    assert steering.waits
    steering.resume()
    assert worker.answers == [False]
    assert not steering.waits
    assert worker.does(4) == [False, False]


def test_stop_is_said_to_the_step_that_waits_and_ends_the_pause() -> None:
    steering = Steering()
    worker = Worker(steering)
    steering.pause()
    worker.does(3)
    steering.stop()
    assert worker.answers == [True]


def test_stop_between_two_steps_is_said_to_the_next_one() -> None:
    steering = Steering()
    worker = Worker(steering)
    worker.does(3)
    steering.stop()
    assert worker.does(4) == [False, True]


def test_after_a_death_the_next_worker_stops_at_the_same_step() -> None:
    steering = Steering()
    first = Worker(steering)
    first.does(2)
    steering.stop()
    assert first.does(3) == [False, True]
    second = Worker(steering, rpc_id=2)
    for step in (1, 2, 3):
        second.does(step)
    assert second.answers == [False, False, True]


def test_a_pause_outlives_the_worker_it_began_with() -> None:
    steering = Steering()
    steering.pause()
    Worker(steering).does(5)
    heir = Worker(steering, rpc_id=2)
    assert heir.does(1) == []
    steering.resume()
    assert heir.answers == [False]


def test_paced_steps_wait_until_they_were_taken_and_let_go() -> None:
    steering = Steering(paced=True)
    worker = Worker(steering)
    assert steering.take() is None
    worker.does(1)
    steering.go_on()
    assert worker.answers == [], "let go of a step that nobody has seen"
    assert steering.has_step
    assert steering.take() == Step(1, 8)
    assert steering.take() is None
    assert worker.answers == []
    steering.go_on()
    assert worker.answers == [False]


def test_a_pause_holds_a_step_that_was_let_go() -> None:
    steering = Steering(paced=True)
    worker = Worker(steering)
    worker.does(1)
    steering.take()
    steering.pause()
    steering.go_on()
    assert worker.answers == []
    steering.resume()
    assert worker.answers == [False]


def test_who_no_longer_takes_steps_frees_those_that_wait_and_those_to_come() -> None:
    steering = Steering(paced=True)
    worker = Worker(steering)
    worker.does(1)
    steering.free()
    assert worker.answers == [False]
    assert worker.does(2) == [False, False]


def test_a_forward_on_a_thread_of_this_process_waits_out_a_pause() -> None:
    steering = Steering()
    steering.pause()
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(steering.ask(Step(1, 2))))
    thread.start()
    with steering.changed:
        assert steering.changed.wait_for(lambda: steering.has_step, 30)
    steering.stop()
    thread.join(30)
    assert answers == [True]
