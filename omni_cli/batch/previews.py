"""Previews of requests at work: one small picture beside each output, replaced as it gets better, gone when the output is there.

    pump ── take ──> the latest of each request ──> preview thread: scale, PNG, hidden file ──> renamed
    writer threads ── close ──> removed, unless they are to be kept

Nothing here may hold up the pump or fail a request: what goes wrong is told once, and the run goes on. A file under the name of
a preview that is none of ours is never touched.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from omni_cli.batch.cores import yield_cores
from omni_cli.config import PREVIEW_SUFFIX, OutputConfig
from omni_cli.errors import WriteError
from omni_cli.events import Note, Observer, PreviewWritten
from omni_cli.executor.protocol import Preview
from omni_cli.log import logger
from omni_cli.request import PlannedRequest
from omni_cli.writers.place import placing

MAX_SIDE = 384
"""Pixels of the longer side: enough to judge a composition by, and encoded in a few milliseconds."""

MARK = "omni-gen preview"
"""Text in the file, by which it is known as ours."""

_HEAD_BYTES = 256
"""Within these is the mark: it is written right after the header."""


class Previews:
    """The previews in one output folder."""

    def __init__(self, config: OutputConfig, observer: Observer) -> None:
        """No thread is started before the first preview comes."""
        self._root = Path(config.output_dir)
        self._keep = config.keep_previews
        self._observe = observer
        self._lock = threading.Lock()
        self._open: dict[str, PlannedRequest] = {}
        self._latest: dict[str, Preview] = {}
        self._shown: set[str] = set()
        self._told = False
        self._thread = ThreadPoolExecutor(1, "preview", yield_cores)

    def open(self, call: Sequence[PlannedRequest]) -> None:
        """These requests are about to be at work."""
        with self._lock:
            taken = {_name(planned) for planned in self._open.values()}
            self._open.update((planned.id, planned) for planned in call if _name(planned) not in taken)

    def take(self, preview: Preview) -> None:
        """Write this preview soon, if no later one has come by then; returns at once."""
        if preview.fault is not None:
            self._tell(f"no previews: {preview.fault}")
            return
        with self._lock:
            if preview.id not in self._open:
                return
            waiting = preview.id in self._latest
            self._latest[preview.id] = preview
        if not waiting:
            with suppress(RuntimeError):  # closed meanwhile
                self._thread.submit(self._write, preview.id)

    def close(self, planned: PlannedRequest) -> None:
        """The request has ended: no preview of it appears any more, and the one that is there goes."""
        with self._lock:
            if self._open.get(planned.id) is not planned:
                return
            del self._open[planned.id]
            self._latest.pop(planned.id, None)
            if planned.id in self._shown:
                self._shown.discard(planned.id)
                if not self._keep:
                    self._remove(self._root / _name(planned))

    def __enter__(self) -> Self:
        """The previews themselves."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No more previews; those of requests that were cut off go as well."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        for planned in list(self._open.values()):
            self.close(planned)

    def _write(self, id_: str) -> None:
        with self._lock:
            preview, planned = self._latest.pop(id_, None), self._open.get(id_)
        if preview is None or planned is None:
            return
        name = _name(planned)
        try:
            with placing(self._root, name) as pending:
                with open(pending.descriptor, "wb", closefd=False) as file:
                    _encode(preview, planned, file.write)
                with self._lock:
                    if self._open.get(id_) is not planned:
                        return
                    if not _is_ours(pending.path):
                        raise WriteError(f"{name!r} is there and is no preview")
                    pending.show()
                    self._shown.add(id_)
        except (OSError, ValueError, WriteError) as error:
            self._tell(f"a preview was not written: {error}")
            return
        self._observe(PreviewWritten(at=time.monotonic(), id=id_, path=name, step=preview.step, total=preview.total))

    def _remove(self, path: Path) -> None:
        try:
            if _is_ours(path):
                path.unlink(missing_ok=True)
        except OSError as error:
            self._tell(f"the preview {str(path)!r} cannot be removed: {error.strerror}")

    def _tell(self, text: str) -> None:
        """Once for people; all of it in the log."""
        logger.info("%s", text)
        first, self._told = not self._told, True
        if first:
            self._observe(Note(at=time.monotonic(), level="warning", text=text))


def _name(planned: PlannedRequest) -> str:
    """The preview's path: beside the first output, under its stem."""
    first = PurePosixPath(planned.files[0])
    return str(first.with_name(first.stem + PREVIEW_SUFFIX))


def _encode(preview: Preview, planned: PlannedRequest, write: Callable[[bytes], object]) -> None:
    """PNG bytes of the preview in the output's shape, at most MAX_SIDE pixels long."""
    # Imported here: the command line starts without it.
    import io

    from PIL import Image, PngImagePlugin

    width, height = planned.request.width or preview.width * 8, planned.request.height or preview.height * 8
    scale = min(1.0, MAX_SIDE / max(width, height))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = Image.frombytes("RGB", (preview.width, preview.height), preview.pixels)
    text = PngImagePlugin.PngInfo()
    text.add_text("Software", MARK)
    text.add_text("Comment", f"step {preview.step} of {preview.total}")
    buffer = io.BytesIO()
    small.resize(size, Image.Resampling.BICUBIC).save(buffer, "PNG", compress_level=1, pnginfo=text)
    write(buffer.getvalue())


def _is_ours(path: Path) -> bool:
    """True if there is no such file, or it bears the mark. Raises OSError for what cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    with os.fdopen(descriptor, "rb") as file:
        return MARK.encode() in file.read(_HEAD_BYTES)
