"""Files for other programs, written at the end of a run: a layout's metadata and the result file of an API."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omni_cli.api.session import Session
from omni_cli.config import LayoutName
from omni_cli.errors import OmniGenError, StorageUnavailable
from omni_cli.events import Note
from omni_cli.export.layout_metadata import write_metadata
from omni_cli.export.openai_results import results_name, write_results
from omni_cli.journal import MANIFEST_NAME, manifests_version, read_rows
from omni_cli.request import PlannedRequest, Result
from omni_cli.storage.disk_errors import describe_error

_ATTEMPTS = 3
"""Times to write metadata while other shards add rows: those write it, too, when they end."""


class Exports:
    """The requests of one run, in their order, for a result file; none are kept if there is to be none."""

    def __init__(self, session: Session) -> None:
        """Write to the folder of `session`."""
        self._session = session
        self._entries: list[str | Result] = []

    def listing(self, planned: Iterable[PlannedRequest]) -> Iterator[PlannedRequest]:
        """Yield `planned`, and remember their ids."""
        for request in planned:
            if self._session.config.output.results is not None:
                self._entries.append(request.id)
            yield request

    def reject(self, result: Result) -> None:
        """Remember a request that has no row in the manifest."""
        if self._session.config.output.results is not None:
            self._entries.append(result)

    def write(self) -> None:
        """Write the files that the settings ask for. Raises StorageUnavailable if one cannot be written."""
        output = self._session.config.output
        folder = Path(output.output_dir)
        try:
            if output.results is not None:
                path = folder / results_name(self._session.config.shard)
                done, failed = write_results(path, self._rows(), inline=output.results == "openai-base64")
                text = f"{path}: {done:,} response{'s' * (done != 1)}, {failed:,} error{'s' * (failed != 1)}"
                self._session.observe(Note(at=time.monotonic(), level="info", text=text))
            if output.layout is not None:
                _write_metadata(output.layout, folder)
        except OSError as error:
            place = error.filename or folder
            raise StorageUnavailable(
                f"{str(place)!r}: {describe_error(error)}; all outputs are in place: run the same command again, it"
                " writes what is missing"
            ) from error

    def _rows(self) -> Iterator[Result]:
        for entry in self._entries:
            row = entry if isinstance(entry, Result) else self._session.journal.full_row(entry)
            if row is not None:
                yield row


def _write_metadata(layout: LayoutName, folder: Path) -> None:
    """Write the metadata of all rows in `folder`, again if other shards have added rows meanwhile. Raises OSError.

    The shard that ends last writes what all have rendered.
    """
    for _ in range(_ATTEMPTS):
        version = manifests_version(folder)
        write_metadata(layout, folder, read_rows(folder / MANIFEST_NAME))
        if manifests_version(folder) == version:
            return


@contextmanager
def exporting(session: Session) -> Iterator[Exports]:
    """Yield the exports of a run, and write them when it ends: also when an error ends it, which is raised again."""
    exports = Exports(session)
    try:
        yield exports
    except OmniGenError:
        with suppress(StorageUnavailable):  # the first error says more
            exports.write()
        raise
    exports.write()
