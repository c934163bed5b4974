"""A stop reaches whoever waits, whether it comes before or after."""

from omni_cli.batch import Stop


def test_a_request_wakes_all_who_asked_for_it() -> None:
    stop, woken = Stop(), []
    stop.on_request(lambda: woken.append(1))
    stop.on_request(lambda: woken.append(2))
    assert not stop.requested
    assert woken == []
    stop.request()
    assert stop.requested
    assert woken == [1, 2]


def test_one_who_comes_later_is_woken_at_once_and_finds_it_requested() -> None:
    stop, seen = Stop(), []
    stop.request()
    stop.on_request(lambda: seen.append(stop.requested))
    assert seen == [True]
