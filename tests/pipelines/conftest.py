"""Tiny models are saved once per session; the input files too."""

from pathlib import Path

import pytest

from tests.pipelines.cases import CASES, MORE
from tests.pipelines.measure import write_inputs
from tests.worker.conftest import _one_thread, tiny_model  # noqa: F401


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Measure the cases of the long run only when they are asked for."""
    if "case" in metafunc.fixturenames:
        cases = CASES + (MORE if metafunc.config.getoption("--all-pipelines") else ())
        metafunc.parametrize("case", cases, ids=[case.model for case in cases])


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the cases name."""
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder
