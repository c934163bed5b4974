"""A signal to every process of a job stops the run like a signal to the run alone: computed outputs are kept."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.chaos.processes import WORKER, children
from tests.chaos.run import PATIENCE_S, Place, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def test_workers_leave_stopping_to_the_run_and_none_is_replaced(tmp_path: Path) -> None:
    place = Place(tmp_path)
    rows = [{"id": f"r{n}", "prompt": "x", "num_frames": 1, "extra": {"forward_seconds": 0.5}} for n in range(60)]
    with running(place.command(place.prompts(rows)), place) as run:
        assert run.wait_for(lambda: run.finished >= 1, PATIENCE_S), run.noise
        workers = children(run.pid, WORKER)
        assert workers
        for pid in workers:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        run.send(signal.SIGTERM)
        assert run.wait() == 143
    kept = [json.loads(line) for line in (place.out / "manifest.jsonl").read_text().splitlines()]
    assert run.restarts == 0
    assert {row["status"] for row in kept} == {"done"}
    assert {row["attempts"] for row in kept} == {1}
    assert len(kept) == run.done.total()
    place.check_nothing_left()
