"""Options of the whole suite."""

from collections.abc import Generator

import pytest

SMALL = 60
"""Requests of the chaos run that is part of the suite."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long the fault proof is, and which one."""
    group = parser.getgroup("chaos", "fault proof")
    group.addoption(
        "--chaos", type=int, metavar="N", help="requests of a long fault proof; with it kills and fuzz are long too"
    )
    group.addoption("--chaos-seed", type=int, default=1, metavar="SEED", help="the fault schedule to replay")


def pytest_configure(config: pytest.Config) -> None:
    """The marker that picks the proof: `pytest -m chaos --chaos 1000`."""
    config.addinivalue_line("markers", "chaos: the fault proof; made long by --chaos N, replayed by --chaos-seed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Captured text may hold lone surrogates, which are data here; a report goes between processes, where only text may go."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report
