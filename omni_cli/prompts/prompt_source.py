"""The source of a run's requests: a file that can be read twice, once to validate and once to render, or a live pipe.

file ── snapshot ──────────────────────────────────────> read as often as needed, the same bytes each time
pipe ── it ends within GRACE_S, or may be waited for ──> copied, then like a file: all mistakes before any rendering
     └─ it stays open ─────────────────────────────────> live: each row is validated and rendered as it comes
"""

import io
import os
import select
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from msgspec import structs

from omni_cli.errors import UsageError
from omni_cli.log import logger
from omni_cli.prompts.byte_stream import STDIN, display_name, is_pipe, open_file
from omni_cli.prompts.encoding import single_byte_encoding
from omni_cli.prompts.expansion import Expander
from omni_cli.prompts.file_snapshot import MEMORY_BYTES, read_all, take_snapshot
from omni_cli.prompts.reader import AS_IT_IS, ReadOptions, read
from omni_cli.prompts.row import Rows
from omni_cli.request import GenerationRequest

GRACE_S = 0.3
"""Seconds to wait for the end of a pipe; `cat prompts.jsonl |` takes a few milliseconds."""

_CHUNK_BYTES = 1 << 16


class PromptSource:
    """A prompt file as it was when it was opened, or a pipe that is copied or read as it comes.

    Every read of a file gives the same rows, or raises if they were changed. `live` is True for a pipe that is still
    open; its rows can be read once.
    """

    def __init__(
        self,
        path: str,
        defaults: GenerationRequest,
        stdin: BinaryIO | None = None,
        *,
        options: ReadOptions = AS_IT_IS,
        expander: Expander | None = None,
        streaming: bool = False,
    ) -> None:
        """Read `path`, or `stdin` if it is "-". An input among `defaults` makes up for a request without one.

        `expander` makes the requests from the rows. `streaming`: read a pipe that does not end soon as it comes,
        instead of waiting for its end.
        """
        self._path = path
        self._defaults = defaults
        self._stdin = stdin
        self._options = options
        self._expander = expander
        self._encoding_is_known = options.encoding is not None
        self._streaming = streaming
        self._is_pipe = False
        self._open: Callable[[], BinaryIO] | None = None
        """Returns the bytes of the source from their start."""
        self._stack = ExitStack()
        self.live = False

    @property
    def base(self) -> Path:
        """The folder of relative input paths: the prompt file's, or the working folder for a pipe."""
        return Path() if self._is_pipe else Path(self._path).parent

    def __enter__(self) -> Self:
        """Open the source, and copy what is not live. Raises UsageError if it cannot be read or copied."""
        self._is_pipe = is_pipe(self._path)
        with ExitStack() as stack:
            self._open = self._open_pipe(stack) if self._is_pipe else self._open_file(stack)
            self._stack = stack.pop_all()
        return self

    def _open_file(self, stack: ExitStack) -> Callable[[], BinaryIO]:
        name = display_name(self._path)
        file = stack.enter_context(open_file(self._path))
        try:
            return take_snapshot(file, name)
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror or error}") from error

    def _open_pipe(self, stack: ExitStack) -> Callable[[], BinaryIO]:
        name = display_name(self._path)
        if self._path != STDIN:
            pipe: BinaryIO = stack.enter_context(open_file(self._path))
        elif self._stdin is None and sys.stdin is None:
            raise UsageError("there is no standard input to read prompts from; give a file")
        else:
            pipe = self._stdin or sys.stdin.buffer
        try:
            if self._streaming and (descriptor := _pollable_descriptor(pipe)) is not None:
                head, ended = read_head(descriptor)
                if ended:
                    return partial(io.BytesIO, head)
                self.live = True
                stream = live_stream(head, descriptor)
                return lambda: stream
            head = read_all(pipe, MEMORY_BYTES + 1)
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror or error}; give the prompts as a file") from error
        if len(head) <= MEMORY_BYTES:
            return partial(io.BytesIO, head)
        try:
            copy = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
            copy.write(head)
            shutil.copyfileobj(pipe, copy)
            copy.flush()
        except OSError as error:
            raise UsageError(
                f"{name} cannot be copied to the folder of temporary files (TMPDIR), which lets"
                f" it be read twice: {error.strerror or error}; make room there, or give the prompts as a file"
            ) from error
        return partial(_from_start, copy)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, or the pipe and its copy."""
        self._stack.close()

    def rows(self) -> Rows:
        """Read all requests from the start; of a live pipe, as they come.

        Raises UsageError if the source cannot be read, and, while rows are read, for a long file that was changed since
        it was first read. A file that is not UTF-8 is read as Windows-1252 if that makes Western text of it, with one
        warning.
        """
        assert self._open is not None, "rows are read inside the `with` block"
        binary, source = self._open(), STDIN if self._is_pipe else self._path
        if not self._encoding_is_known and not self.live:
            self._encoding_is_known = True
            encoding = single_byte_encoding(binary)
            if encoding is not None:
                self._options = structs.replace(self._options, encoding=encoding)
                advice = "save it as UTF-8, or name another encoding with --input-encoding"
                logger.warning("%s is not UTF-8, and is read as Windows-1252; %s", display_name(self._path), advice)
        rows = read(source, binary=binary, options=self._options, defaults=self._defaults)
        return rows if self._expander is None else self._expander.rows(rows, self.base, endless=self.live)


def read_head(descriptor: int, grace_s: float = GRACE_S) -> tuple[bytes, bool]:
    """Read what a pipe has within `grace_s` seconds; return it, and whether the pipe has ended."""
    parts: list[bytes] = []
    size, deadline = 0, time.monotonic() + grace_s
    while size < MEMORY_BYTES:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            break
        data = os.read(descriptor, _CHUNK_BYTES)
        if not data:
            return b"".join(parts), True
        parts.append(data)
        size += len(data)
    return b"".join(parts), False


def live_stream(head: bytes, descriptor: int) -> BinaryIO:
    """Return a stream of `head` and what the descriptor still gets, which the caller closes.

    Its `read1` returns what is there without waiting for a full buffer.
    """
    return io.BufferedReader(_LivePipe(head, descriptor), _CHUNK_BYTES)


class _LivePipe(io.RawIOBase):
    """A descriptor some of whose bytes have been read: they come first."""

    def __init__(self, head: bytes, descriptor: int) -> None:
        self._head = memoryview(head)
        self._descriptor = descriptor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        if self._head:
            size = min(len(buffer), len(self._head))
            buffer[:size], self._head = self._head[:size], self._head[size:]
            return size
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _from_start(file: BinaryIO) -> BinaryIO:
    file.seek(0)
    return file


def _pollable_descriptor(pipe: BinaryIO) -> int | None:
    """Return the descriptor of a pipe that can be polled, None for a plain file and for a stream without one."""
    try:
        descriptor = pipe.fileno()
    except (OSError, ValueError):  # io.UnsupportedOperation is both: a stream of a program
        return None
    return None if stat.S_ISREG(os.fstat(descriptor).st_mode) else descriptor
