"""Logging: one logger for the package, to a log file or to a view; never to stdout.

A warning is shown to the person at the terminal. An error has an event of its own; its details go to the log file.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path

logger = logging.getLogger("omni_gen")
logger.addHandler(logging.NullHandler())  # without a handler, logging would print warnings into the view

FORMAT = "%(asctime)s %(levelname)s %(processName)s/%(threadName)s %(name)s: %(message)s"


@contextmanager
def log_to_file(path: Path, level: int = logging.INFO) -> Iterator[None]:
    """Append the package's log to `path` (UTF-8) inside the `with` block. Raises OSError if it cannot be opened."""
    with path.open("ab", buffering=0) as file:
        handler = _LogFile(file, path)
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.setLevel(level)
        with _attached(handler):
            yield


@contextmanager
def warnings_to(show: Callable[[str], None]) -> Iterator[None]:
    """Pass the text of every warning of the package to `show` inside the `with` block."""
    with _attached(_WarningHandler(show)):
        yield


class _LogFile(logging.Handler):
    """Handler that writes each line unbuffered, so that a full disk cannot fail at the end of the run.

    Lines that cannot be written are lost, with one warning. Logging resumes once there is room.
    """

    def __init__(self, file: RawIOBase, path: Path) -> None:
        super().__init__()
        self._file = file
        self._path = path
        self._failed = False
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record as one line; after a torn write, begin a new line."""
        data = b"\n" * self._torn + self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        try:
            written = self._file.write(data) or 0
            self._torn = written < len(data)
        except OSError as error:
            if not self._failed:
                self._failed = True
                logger.warning("the log file %s cannot be written: %s; lines are lost", self._path, error.strerror)


class _WarningHandler(logging.Handler):
    """Handler that passes the text of each warning to a callable, once."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on the message of a warning; ignore errors."""
        text = record.getMessage()
        if record.levelno == logging.WARNING and text not in self._shown:
            self._shown.add(text)
            self._show(text)


@contextmanager
def _attached(handler: logging.Handler) -> Iterator[None]:
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
