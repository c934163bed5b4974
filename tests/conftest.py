"""Options of the whole suite."""

import signal
import threading
from collections.abc import Generator

import pytest

SMALL = 60
"""Requests of the chaos run that is part of the suite."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the random fault runs."""
    group = parser.getgroup("chaos", "fault proof")
    group.addoption(
        "--chaos", type=int, metavar="N", help="requests of a long fault proof; with it kills and fuzz are long too"
    )
    group.addoption("--all-pipelines", action="store_true", help="measure every pipeline of docs/pipelines.md")
    group.addoption("--chaos-seed", type=int, default=1, metavar="SEED", help="the fault schedule to replay")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of `pytest -m chaos --chaos 1000`."""
    config.addinivalue_line("markers", "chaos: the fault proof; made long by --chaos N, replayed by --chaos-seed")
    # A background job inherits ignored signals, and omni-gen keeps them: tests of signals need the defaults.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Keep derived values of this session away from the user's, in this process and in those it starts."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape lone surrogates in captured text: reports go between processes as UTF-8."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Say where two byte strings differ: the whole difference of two media files takes minutes to compute."""
    if op != "==" or not isinstance(left, bytes) or not isinstance(right, bytes):
        return None
    start = next((i for i, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
    where = min(len(left), len(right)) if start is None else start
    parts = [
        f"{name} of {len(value)} bytes: {value[where : where + 40]!r}"
        for name, value in (("left", left), ("right", right))
    ]
    return [f"bytes that differ from byte {where} on", *parts]
