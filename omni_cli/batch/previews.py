"""Preview files: a small picture beside each running request's output, replaced at each step, removed at the end.

    pump thread ── submit ──> latest preview per request ──> preview thread: scale, PNG, hidden file ──> renamed
    writer threads ── close ──> removed, unless previews are kept

Nothing here blocks the pump or fails a request: the first error is reported, and the run continues. A file that has the
name of a preview but was not written as one is never replaced or removed.
"""

import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from omni_cli.config import PREVIEW_SUFFIX, OutputConfig
from omni_cli.errors import WriteError
from omni_cli.events import Note, Observer, PreviewWritten
from omni_cli.executor.protocol import PreviewImage
from omni_cli.log import logger
from omni_cli.request import PlannedRequest
from omni_cli.storage.atomic import pending_file
from omni_cli.storage.filesystem import open_plain_file

MAX_SIDE = 384
"""Longest side in pixels: enough to judge a composition, and a few milliseconds to encode."""

MARK = "omni-gen preview"
"""Text in the PNG that identifies it as a preview."""

_HEAD_BYTES = 256
"""The mark is within these first bytes, right after the PNG header."""

_BACKGROUND_NICENESS = 5


def lower_thread_priority() -> None:
    """Run this thread at niceness 5, or keep a higher niceness.

    Linux only: other systems have no niceness per thread.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = max(_BACKGROUND_NICENESS, os.getpriority(os.PRIO_PROCESS, thread))
        os.setpriority(os.PRIO_PROCESS, thread, niceness)


class Previews:
    """The previews in one output folder."""

    def __init__(self, config: OutputConfig, observer: Observer) -> None:
        """No thread is started before the first preview arrives."""
        self._root = Path(config.output_dir)
        self._keep = config.keep_previews
        self._observe = observer
        self._lock = threading.Lock()
        self._open: dict[str, PlannedRequest] = {}
        self._latest: dict[str, PreviewImage] = {}
        self._written: set[str] = set()
        self._reported = False
        self._thread = ThreadPoolExecutor(1, "preview", lower_thread_priority)

    def open(self, call: Sequence[PlannedRequest]) -> None:
        """Accept previews of these requests, except one whose preview has the name of another open request's."""
        with self._lock:
            names = {_preview_name(planned) for planned in self._open.values()}
            self._open.update((planned.id, planned) for planned in call if _preview_name(planned) not in names)

    def submit(self, preview: PreviewImage) -> None:
        """Queue `preview` to be written, in place of an earlier one that still waits. Returns at once."""
        if preview.fault is not None:
            self._report(f"no previews: {preview.fault}")
            return
        with self._lock:
            if preview.id not in self._open:
                return
            waiting = preview.id in self._latest
            self._latest[preview.id] = preview
        if not waiting:
            with suppress(RuntimeError):  # the thread was shut down meanwhile
                self._thread.submit(self._write, preview.id)

    def close(self, planned: PlannedRequest) -> None:
        """Write no more previews of the request, which has ended, and remove its file unless previews are kept."""
        with self._lock:
            if self._open.get(planned.id) is not planned:
                return
            del self._open[planned.id]
            self._latest.pop(planned.id, None)
            if planned.id in self._written:
                self._written.discard(planned.id)
                if not self._keep:
                    self._remove(self._root / _preview_name(planned))

    def __enter__(self) -> Self:
        """Return the previews themselves."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the thread and close the requests that are still open."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        for planned in list(self._open.values()):
            self.close(planned)

    def _write(self, id_: str) -> None:
        with self._lock:
            preview, planned = self._latest.pop(id_, None), self._open.get(id_)
        if preview is None or planned is None:
            return
        name = _preview_name(planned)
        try:
            with pending_file(self._root, name) as pending:
                with pending.open() as file:
                    file.write(_encode(preview, planned))
                with self._lock:
                    if self._open.get(id_) is not planned:
                        return
                    if not _is_replaceable(pending.path):
                        raise WriteError(f"{name!r} exists and is not a preview")
                    pending.publish()
                    self._written.add(id_)
        except (OSError, ValueError, WriteError) as error:
            self._report(f"a preview was not written: {error}")
            return
        self._observe(PreviewWritten(at=time.monotonic(), id=id_, path=name, step=preview.step, total=preview.total))

    def _remove(self, path: Path) -> None:
        try:
            if _is_replaceable(path):
                path.unlink(missing_ok=True)
        except OSError as error:
            self._report(f"the preview {str(path)!r} cannot be removed: {error.strerror}")

    def _report(self, text: str) -> None:
        """Log `text`; show people the first one only."""
        logger.info("%s", text)
        first, self._reported = not self._reported, True
        if first:
            self._observe(Note(at=time.monotonic(), level="warning", text=text))


def _preview_name(planned: PlannedRequest) -> str:
    """Return the preview's path, relative to the output folder: beside the first output, under its stem."""
    first = PurePosixPath(planned.files[0])
    return str(first.with_name(first.stem + PREVIEW_SUFFIX))


def _encode(preview: PreviewImage, planned: PlannedRequest) -> bytes:
    """Return `preview` as PNG, scaled to the output's aspect ratio, at most MAX_SIDE pixels long."""
    from omni_cli.writers.image import encode_thumbnail  # loads Pillow, which the command line starts without

    width, height = planned.request.width or preview.width * 8, planned.request.height or preview.height * 8
    scale = min(1.0, MAX_SIDE / max(width, height))
    new_size = max(1, round(width * scale)), max(1, round(height * scale))
    text = {"Software": MARK, "Comment": f"step {preview.step} of {preview.total}"}
    return encode_thumbnail(preview.pixels, (preview.width, preview.height), new_size, text)


def _is_replaceable(path: Path) -> bool:
    """Whether there is no such file, or it is a preview. Raises OSError if it cannot be read."""
    try:
        descriptor = open_plain_file(path)
    except FileNotFoundError:
        return True
    with os.fdopen(descriptor, "rb") as file:
        return MARK.encode() in file.read(_HEAD_BYTES)
