"""Tiny models are saved once per session; the input files too."""

from pathlib import Path

import pytest

from tests.pipelines.measure import write_inputs
from tests.worker.conftest import _one_thread, tiny_model  # noqa: F401


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the cases name."""
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder
