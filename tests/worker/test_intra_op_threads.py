"""The intra-op threads of workers."""

import pytest

from omni_cli.cores import usable_cores
from omni_cli.worker.intra_op_threads import default_threads


def test_workers_share_the_cores_unless_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [default_threads(8, workers) for workers in (1, 1000)] == [usable_cores(), 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert default_threads(3, 1000) == 3
