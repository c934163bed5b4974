"""Signals during a run: the first one stops it, the second one ends the process."""

import os
import queue
import signal

import pytest

from omni_cli.cli.signals import stopping

PATIENCE_S = 30.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_calls_the_first_function_with_its_number(number: int) -> None:
    calls: queue.SimpleQueue[int] = queue.SimpleQueue()
    before = signal.getsignal(number)
    with stopping(calls.put, lambda: calls.put(-1)):
        os.kill(os.getpid(), number)
        assert calls.get(timeout=PATIENCE_S) == number
    assert calls.empty()
    assert signal.getsignal(number) is before


def test_the_second_signal_calls_the_second_function_and_exits_with_the_code_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: queue.SimpleQueue[object] = queue.SimpleQueue()
    monkeypatch.setattr(os, "_exit", lambda code: calls.put(("exit", code)))
    with stopping(calls.put, lambda: calls.put("second")):
        os.kill(os.getpid(), signal.SIGTERM)
        assert calls.get(timeout=PATIENCE_S) == signal.SIGTERM
        os.kill(os.getpid(), signal.SIGINT)
        assert calls.get(timeout=PATIENCE_S) == "second"
        assert calls.get(timeout=PATIENCE_S) == ("exit", 143)
