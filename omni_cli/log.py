"""Logging: one logger for the package, one format, to a file or to whoever shows warnings; never to stdout.

A warning is a line for the person at the terminal; an error has an event of its own, and its details go to the log file.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger("omni_gen")
logger.addHandler(logging.NullHandler())  # without a log file, nothing is written behind the view's back

FORMAT = "%(asctime)s %(levelname)s %(processName)s/%(threadName)s %(name)s: %(message)s"


@contextmanager
def log_to_file(path: Path, level: int = logging.INFO) -> Iterator[None]:
    """Append the package's log to `path` (UTF-8) while the block lasts. Raises OSError if it cannot be opened."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter(FORMAT))
    logger.setLevel(level)
    with _attached(handler):
        yield
    handler.close()


@contextmanager
def warnings_to(show: Callable[[str], None]) -> Iterator[None]:
    """Show every warning of the package while the block lasts; errors have events of their own."""
    with _attached(_Shown(show)):
        yield


class _Shown(logging.Handler):
    """Passes the text of warnings on."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Give the message, if it is a warning."""
        if record.levelno == logging.WARNING:
            self._show(record.getMessage())


@contextmanager
def _attached(handler: logging.Handler) -> Iterator[None]:
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
