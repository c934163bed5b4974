"""kill -9 of the parent at random moments: nothing of the run stays, and the next start takes what it had to leave."""

import random
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.folder import check, requests, temporary_files
from tests.chaos.places import namespace
from tests.chaos.run import PATIENCE_S, Place, Run, running

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]

SMALL = 3
LONG = 20
LEAVE_S = 2.0
"""Seconds in which the processes of a killed run must exit; measured in the long run only."""

LEAVINGS = (".r.png.0123456789abcdef.omni-tmp", ".manifest.jsonl.0123456789abcdef.omni-tmp")

FLAGS = ("--workers", "2", "--encoder", "ffmpeg", "--writers", "2")


def wait_for_a_moment(run: Run, rng: random.Random, early: bool) -> str:
    """While the run starts, or while it renders."""
    if early:
        seconds = rng.uniform(0.0, 1.5)
        run.wait_for(lambda: False, seconds)
        return f"{seconds:.2f} s after its start"
    target = run.finished + rng.randint(1, 12)
    assert run.wait_for(lambda: run.finished >= target, PATIENCE_S), run.noise
    time.sleep(rng.random() * 0.05)
    return f"after {run.finished} requests"


def test_a_killed_run_leaves_no_process_no_shared_memory_and_no_file_that_outlives_the_next_start(
    pytestconfig: pytest.Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: int | None = pytestconfig.getoption("--chaos")
    seed: int = pytestconfig.getoption("--chaos-seed")
    kills, rng, place = LONG if asked else SMALL, random.Random(seed), Place(tmp_path)
    wanted = requests(kills * 15)
    command = place.command(place.prompts(wanted), *FLAGS)
    place.out.mkdir()
    print(f"--chaos-seed {seed}")  # noqa: T201 - shown with a failure
    old: set[Path] = set()
    seen, longest = 0, 0.0
    for number in range(kills):
        with running(command, place) as run:
            moment = wait_for_a_moment(run, rng, early=number % 3 == 0)
            print(f"kill {number}: {moment}")  # noqa: T201
            assert not (run.started and old & temporary_files(place.out)), "the start before let them be"
            assert run.send(signal.SIGKILL), f"the run was over before the kill: {run.noise}"
            assert run.wait() == -signal.SIGKILL
            longest = max(longest, place.check_nothing_left(LEAVE_S if asked else PATIENCE_S))
            seen += len(temporary_files(place.out))
            for name in LEAVINGS:  # what a kill at the right moment leaves, so that there is something every time
                (place.out / name).write_bytes(b"half")
            old = temporary_files(place.out)
    with running(command, place) as run:
        assert run.wait() == 0, run.noise
        place.check_nothing_left()
    check(place.out, wanted)
    if asked:
        with capsys.disabled():
            where = "and /dev/shm empty" if namespace() else "(/dev/shm not looked at)"
            print(  # noqa: T201
                f"\nkill -9, seed {seed}: {kills} kills, the last process gone after at most {longest:.2f} s {where}, "
                f"{seen} temporary files left by the kills, 0 by the next start"
            )
