"""The output path on a device that is late, against the CPU's bytes; every step that makes them right is needed."""

import json

import pytest

from tests.lag.conftest import Python


def check(python: Python, names: str, mutant: str = "OutOfTreePlatform", **variables: int) -> dict[str, list[str]]:
    result = python("-m", "tests.lag.late_outputs", names, mutant, **variables)
    assert result.returncode == 0, result.stderr
    wrong: dict[str, list[str]] = json.loads(result.stdout.splitlines()[-1])
    return wrong


def test_outputs_have_the_bytes_of_the_cpu(python: Python) -> None:
    found = check(python, "timings,no_memory,slow_pieces,pieces_on_a_slow_side_stream,previews")
    assert not any(found.values()), found


def test_memory_that_cannot_be_pinned_costs_no_output(python: Python) -> None:
    assert check(python, "refused_registration", LAG_PIN_LIMIT=0) == {"refused_registration": []}


def test_events_of_a_shared_device_are_waited_for(python: Python) -> None:
    assert check(python, "slow_forward", LAG_EVENT_DELAY_US=2000) == {"slow_forward": []}


@pytest.mark.parametrize(
    ("names", "mutant"),
    [
        ("slow_forward,slow_pieces,previews", "NoWait"),
        ("slow_side_stream,pieces_on_a_slow_side_stream", "NoSync"),
        ("second_device", "NoActivate"),
    ],
)
def test_each_step_is_needed(python: Python, names: str, mutant: str) -> None:
    result = python("-m", "tests.lag.late_outputs", names, mutant)
    # A process that a mutant kills has found it, too.
    assert result.returncode != 0 or all(json.loads(result.stdout.splitlines()[-1]).values())
