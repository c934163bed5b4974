"""Logging: one logger for the package, one format, to a file or to whoever shows warnings; never to stdout.

A warning is a line for the person at the terminal; an error has an event of its own, and its details go to the log file.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path

logger = logging.getLogger("omni_gen")
logger.addHandler(logging.NullHandler())  # without a log file, nothing is written behind the view's back

FORMAT = "%(asctime)s %(levelname)s %(processName)s/%(threadName)s %(name)s: %(message)s"


@contextmanager
def log_to_file(path: Path, level: int = logging.INFO) -> Iterator[None]:
    """Append the package's log to `path` (UTF-8) while the block lasts. Raises OSError if it cannot be opened."""
    with path.open("ab", buffering=0) as file:
        handler = _LogFile(file, path)
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.setLevel(level)
        with _attached(handler):
            yield


@contextmanager
def warnings_to(show: Callable[[str], None]) -> Iterator[None]:
    """Show every warning of the package while the block lasts; errors have events of their own."""
    with _attached(_Shown(show)):
        yield


class _LogFile(logging.Handler):
    """Writes each line at once, past any buffer: nothing is left that a full disk could make fail later, at the end of the run.

    Lines that cannot be written are lost, which is said once; with room again, the log goes on.
    """

    def __init__(self, file: RawIOBase, path: Path) -> None:
        super().__init__()
        self._file = file
        self._path = path
        self._failed = False
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, on a line of its own."""
        data = b"\n" * self._torn + self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        try:
            written = self._file.write(data) or 0
            self._torn = written < len(data)
        except OSError as error:
            if not self._failed:
                self._failed = True
                logger.warning("the log file %s cannot be written: %s; lines are lost", self._path, error.strerror)


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
