"""A forward that hangs, and an output that hangs: each costs its worker, and no request."""

import sys
from pathlib import Path

import pytest

from tests.chaos.folder import check, requests
from tests.chaos.hanging import FORWARD, OUTPUT
from tests.chaos.run import HANGING, PATIENCE_S, Place, running

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]


def test_a_worker_that_hangs_is_replaced_and_its_requests_run_again(tmp_path: Path) -> None:
    place = Place(tmp_path, hang_timeout=2.0)
    wanted = requests(30)
    place.ask_to_hang(FORWARD)
    command = place.command(place.prompts(wanted), "--workers", "1", "--forward-timeout", "2", runner=HANGING)
    with running(command, place) as run:
        assert run.wait_for(lambda: run.finished > 0, PATIENCE_S)
        assert run.restarts == 1
        place.ask_to_hang(OUTPUT)
        assert run.wait() == 0, run.noise
    place.check_nothing_left()
    assert not place.is_asked_to_hang(OUTPUT)
    assert run.restarts == 2
    attempts = [row["attempts"] for row in check(place.out, wanted).values()]
    assert max(attempts) == 2
