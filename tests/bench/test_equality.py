"""Comparison of the arms' pixels."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omni_cli.bench.equality import OutputComparison, compare_outputs
from omni_cli.bench.workload import bench_requests
from omni_cli.writers.readback import Difference
from tests.bench.conftest import FIELDS, open_engine


@pytest.mark.parametrize(
    ("levels", "allowed", "passed"), [(0, 0, True), (1, 0, False), (1, 1, True), (2, 1, False), (256, None, True)]
)
def test_a_comparison_passes_within_the_allowed_levels(levels: int, allowed: int | None, passed: bool) -> None:
    assert OutputComparison("plain", "async", "levels", Difference(levels, 1), allowed).passed is passed


def test_a_differing_pixel_is_found(tmp_path: Path) -> None:
    requests = bench_requests(FIELDS, 2)
    with open_engine(tmp_path, "async") as first, open_engine(tmp_path, "no-async") as second:
        for arm in (first, second):
            arm.run(requests)
        picture = np.asarray(Image.open(tmp_path / "no-async" / "0001.png")).copy()
        picture[7, 15, 2] += 9
        Image.fromarray(picture).save(tmp_path / "no-async" / "0001.png")
        (comparison,) = compare_outputs([first, second], requests, "float32")
    assert not comparison.passed
    assert comparison.difference.levels == 9
