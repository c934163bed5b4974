"""Random faults: the same command in the end has every request done once, with the right files."""

import sys
from pathlib import Path

import pytest

from tests.chaos import faults
from tests.chaos.folder import check, requests
from tests.chaos.monkey import Monkey
from tests.chaos.places import small_disk
from tests.chaos.run import Place
from tests.conftest import SMALL

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]

PER_FAULT = 25
"""Requests for each fault of a long proof."""

HANG_S = 12.0
"""Seconds that a long proof waits for what hangs: much longer than any forward or output of it takes."""


def test_whatever_happens_every_request_is_done_once_with_its_right_files(
    pytestconfig: pytest.Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: int | None = pytestconfig.getoption("--chaos")
    seed: int = pytestconfig.getoption("--chaos-seed")
    wanted = requests(asked or SMALL)
    place = Place(tmp_path, hang_timeout=HANG_S if asked else None)
    with small_disk(place.out, f"{48 + len(wanted) // 100}m") as mounted:
        kinds = (*faults.EVERYWHERE, faults.fill_disk) if mounted else faults.EVERYWHERE
        kinds = (*kinds, *faults.HANGS) if asked else kinds
        monkey = Monkey(place, wanted, kinds, max(8, len(wanted) // PER_FAULT), seed)
        print(f"--chaos {len(wanted)} --chaos-seed {seed}")  # noqa: T201 - shown with a failure
        report = monkey.work()
        rows = check(place.out, wanted)
    if asked:
        retried = sum(row["attempts"] > 1 for row in rows.values())
        with capsys.disabled():
            print(f"\n{report}; {retried} rows of more than one attempt; 0 lost, doubled, corrupt or left behind")  # noqa: T201
    assert report.faults.total() > 0
