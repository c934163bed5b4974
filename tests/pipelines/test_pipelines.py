"""Every kind of pipeline, planned from a prompt file and run, beside plain diffusers; and its row in the docs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omni_cli.media import Kind
from tests import tiny
from tests.pipelines.cases import CASES, MORE, Case
from tests.pipelines.measure import measure
from tests.pipelines.table import row, rows

pytestmark = [
    # Some schedulers of diffusers hand tensors to numpy in an old way, and Mochi asks the CPU for a float32 autocast.
    pytest.mark.filterwarnings("ignore:__array(_wrap)?__ :DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:In CPU autocast:UserWarning"),
]


LEAST_CONTRAST = {Kind.IMAGE: 15, Kind.VIDEO: 15, Kind.AUDIO: 1e-4}
"""Standard deviation of the levels, or samples: an empty output would prove nothing."""


def test_a_pipeline_gives_the_bytes_of_diffusers(case: Case, tiny_model: Callable[[str], Path], inputs: Path) -> None:
    outcome = measure(case, tiny_model(case.model), inputs)
    assert outcome.alone == 0
    assert outcome.track == (0 if case.track else None)
    assert outcome.together is None or outcome.together <= 1
    assert (outcome.file, outcome.fps) == (case.file, case.fps)
    assert outcome.contrast == 0 if case.black else outcome.contrast > LEAST_CONTRAST[outcome.kind]
    told, total = [step for step, _ in outcome.steps], outcome.steps[-1][1]
    assert told == sorted(set(told))
    assert 2 <= told[-1] == total
    ours, theirs = outcome.defaults
    assert ours == theirs
    assert row(case, outcome) in rows(), "run: python -m tests.pipelines.table"


def test_the_table_has_a_row_for_every_pipeline_and_no_other() -> None:
    assert len(rows()) == len(set(rows())) == len(CASES + MORE) >= 80
    assert {case.model for case in CASES + MORE} <= set(tiny.NAMES)
