"""A page that follows a run: written again while rows are added, and once more at the end.

    run ── rows ──> manifest.jsonl ──> this process, at low priority ──> index.html, which loads itself again
      └── standard input, closed at the end ──> the last page, which stays as it is

`python -m omni_cli.report.live_page OUTPUTS` follows until its standard input is closed: a run that is killed closes
it, too.
"""

import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from omni_cli.errors import OmniGenError
from omni_cli.journal import is_manifest_name, manifest_folder, manifests_version
from omni_cli.report.html_page import WrittenReport, write_report
from omni_cli.storage.filesystem import FileVersion
from omni_cli.storage.folder_lock import running_owner

SHORTEST_PAUSE_S = 5.0
"""Least time between two pages, in seconds."""

_PAUSE_FACTOR = 10
"""A pause lasts so many times as long as the page took, so that pages take a tenth of a core."""

_NICENESS = 10

IsOver = Callable[[float], bool]
"""Waits up to so many seconds, and returns True once the run has ended."""


def follow(outputs: Path, page_dir: Path | None, is_over: IsOver, other: Path | None = None) -> WrittenReport | None:
    """Write the page of `outputs` whenever rows were added, until `is_over`, and then the last one, and return it.

    The result is None if there is no manifest by then. Raises the errors of `write_report`.
    """
    pause, version = 0.0, None
    while not is_over(pause):
        pause = max(pause, SHORTEST_PAUSE_S)
        current = _version(outputs)
        if current in (None, version):
            continue
        started = time.monotonic()
        write_report(outputs, other, page_dir, reload=round(pause))
        version, pause = current, max(SHORTEST_PAUSE_S, _PAUSE_FACTOR * (time.monotonic() - started))
    return None if _version(outputs) is None else write_report(outputs, other, page_dir)


def follow_run(outputs: Path, other: Path | None = None, page_dir: Path | None = None) -> WrittenReport:
    """Write the page of `outputs` until no run holds the folder, and return the last one. Raises as `write_report`."""

    def is_over(pause: float) -> bool:
        time.sleep(pause)
        return running_owner(folder) is None

    folder = manifest_folder(outputs)
    written = follow(outputs, page_dir, is_over, other)
    return written if written is not None else write_report(outputs, other, page_dir)


def follow_runs(outputs: Path, other: Path | None = None, page_dir: Path | None = None) -> NoReturn:
    """Follow every run that starts in the folder from now on. Raises as `write_report`."""
    folder = manifest_folder(outputs)
    while True:
        while running_owner(folder) is None:
            time.sleep(1.0)
        follow_run(outputs, other, page_dir)


def _version(outputs: Path) -> tuple[FileVersion, ...] | None:
    return manifests_version(outputs.parent if is_manifest_name(outputs.name) else outputs)


def main() -> None:
    """Follow the run in the folder of the first argument until standard input is closed; print why, if it fails."""
    os.nice(_NICENESS)
    try:
        follow(Path(sys.argv[1]), None, lambda pause: bool(select.select([sys.stdin], [], [], pause)[0]))
    except OmniGenError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
