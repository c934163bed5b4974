"""Logging: one logger for the package, one format, always stderr or a file, never stdout."""

import logging
from pathlib import Path

logger = logging.getLogger("omni_gen")

FORMAT = "%(asctime)s %(levelname)s %(processName)s/%(threadName)s %(name)s: %(message)s"


def log_to_file(path: Path, level: int = logging.INFO) -> logging.Handler:
    """Send the package's log to `path` (appended, UTF-8) and return the handler, for the caller to close."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter(FORMAT))
    logger.addHandler(handler)
    logger.setLevel(level)
    return handler
