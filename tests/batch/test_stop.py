"""A stop wakes every waiting thread, whether it comes before or after the wait begins."""

import signal

from omni_cli.batch import Stop


def test_a_stop_calls_every_registered_wake_up() -> None:
    stop, woken = Stop(), []
    with stop.waking(lambda: woken.append(1)), stop.waking(lambda: woken.append(2)):
        assert not stop.requested
        assert woken == []
        stop.request()
        assert stop.requested
        assert woken == [1, 2]


def test_after_the_block_the_wake_up_is_not_called() -> None:
    stop, woken = Stop(), []
    with stop.waking(lambda: woken.append(1)):
        pass
    stop.request()
    assert woken == []


def test_the_first_signal_sets_the_exit_code() -> None:
    stop = Stop()
    assert stop.exit_code == 130
    stop.request(signal.SIGTERM)
    stop.request(signal.SIGINT)
    assert stop.exit_code == 143


def test_a_wake_up_registered_after_the_stop_is_called_at_once() -> None:
    stop, seen = Stop(), []
    stop.request()
    with stop.waking(lambda: seen.append(stop.requested)):
        assert seen == [True]
