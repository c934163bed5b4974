"""Collect what libraries warn of while a pipeline is loaded or called: their log records and Python's warnings."""

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from omni_cli.log import logger
from omni_cli.notes import note_text

LIBRARIES = ("diffusers", "transformers")
"""Packages whose loggers do not pass their records on to the root logger."""

_FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)
"""Categories that do not concern the user of a pipeline."""

_ON_IMPORT = "requires torchvision (not installed)"
"""Words of transformers' advice on its own installation, given when diffusers is imported."""


@contextmanager
def library_warnings(collect: Callable[[str], None]) -> Iterator[None]:
    """Pass on what is warned of on this thread inside the `with` block: one safe line each, repeated or not.

    Loggers of diffusers and transformers must let warnings through, as `quiet_libraries` makes them do.
    """
    thread = threading.get_ident()
    handler = _CollectingHandler(thread, collect)
    loggers = [logging.getLogger(), *map(logging.getLogger, LIBRARIES)]
    for library in loggers:
        library.addHandler(handler)
    try:
        with warnings.catch_warnings():
            show_elsewhere = warnings.showwarning

            def show(
                message: Warning | str,
                category: type[Warning],
                filename: str,
                lineno: int,
                file: TextIO | None = None,
                line: str | None = None,
            ) -> None:
                if threading.get_ident() == thread:
                    collect(note_text(f"{category.__name__}: {message}"))
                else:
                    show_elsewhere(message, category, filename, lineno, file, line)

            warnings.simplefilter("always")
            for category in _FOR_DEVELOPERS:
                warnings.simplefilter("ignore", category)
            warnings.showwarning = show
            yield
    finally:
        for library in loggers:
            library.removeHandler(handler)


class _CollectingHandler(logging.Handler):
    """Handler that passes on the warnings and errors of libraries on one thread."""

    def __init__(self, thread: int, collect: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._thread = thread
        self._collect = collect
        self._last: logging.LogRecord | None = None  # comes again from each ancestor, where loggers propagate

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on the text of a library's record, after the name of the library."""
        library = record.name.partition(".")[0]
        if record is self._last or record.thread != self._thread or library == logger.name:
            return
        self._last = record
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not fit the format
            message = str(record.msg)
        if _ON_IMPORT not in message:
            self._collect(note_text(f"{library}: {message}"))
