"""A stop reaches whoever waits, whether it comes before or after."""

import signal

from omni_cli.batch import Stop


def test_a_request_wakes_all_who_asked_for_it() -> None:
    stop, woken = Stop(), []
    with stop.waking(lambda: woken.append(1)), stop.waking(lambda: woken.append(2)):
        assert not stop.requested
        assert woken == []
        stop.request()
        assert stop.requested
        assert woken == [1, 2]


def test_one_who_no_longer_waits_is_not_woken() -> None:
    stop, woken = Stop(), []
    with stop.waking(lambda: woken.append(1)):
        pass
    stop.request()
    assert woken == []


def test_the_first_signal_is_the_exit_code() -> None:
    stop = Stop()
    assert stop.exit_code == 130
    stop.request(signal.SIGTERM)
    stop.request(signal.SIGINT)
    assert stop.exit_code == 143


def test_one_who_comes_later_is_woken_at_once_and_finds_it_requested() -> None:
    stop, seen = Stop(), []
    stop.request()
    with stop.waking(lambda: seen.append(stop.requested)):
        assert seen == [True]
