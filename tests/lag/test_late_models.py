"""Whole models on a device that is late."""

import json

from tests.lag.conftest import Python


def test_batches_sleep_and_offload_have_the_floats_of_the_cpu(python: Python) -> None:
    result = python("-m", "tests.lag.late_models", LAG_DELAY_US=5)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == []
