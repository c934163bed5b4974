"""Where a run's requests come from, in a form that can be read twice: once to find every fault, once to render."""

import dataclasses
import io
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec
from msgspec import structs

from omni_cli.errors import Problem, UsageError
from omni_cli.planner.live import going_on, head_of
from omni_cli.prompts import Located, read
from omni_cli.prompts.source import STDIN, display_name, is_pipe
from omni_cli.request import GenerationRequest

Rows = Iterator[Located | Problem]


class Source:
    """A prompt file, or a pipe: copied to a nameless file when it is opened, or read as it comes.

    `live` is true of a pipe that is still open; its rows can be read once.
    """

    def __init__(
        self, path: str, defaults: GenerationRequest, stdin: BinaryIO | None = None, *, streaming: bool = False
    ) -> None:
        """`path` may be "-". `defaults` may stand in for inputs that a request does not give.

        `streaming`: a pipe that does not end soon is not waited for.
        """
        self._path = path
        self._defaults = defaults
        self._stdin = stdin
        self._streaming = streaming
        self._spool: BinaryIO | None = None
        self._stack = ExitStack()
        self.live = False

    @property
    def base(self) -> Path:
        """Where relative input paths of the requests start: the prompt file's folder, the working folder for a pipe."""
        return Path(self._path).parent if self._spool is None else Path()

    def __enter__(self) -> Self:
        """Copy a pipe, or begin with it. Raises UsageError if it cannot be read, or there is no room for the copy."""
        if is_pipe(self._path):
            try:
                with ExitStack() as undo:
                    self._spool = self._begun(undo)
                    self._stack = undo.pop_all()
            except OSError as error:
                raise UsageError(
                    f"{display_name(self._path)} cannot be copied to the folder of temporary files (TMPDIR), which lets it be read"
                    f" twice: {error.strerror or error}; make room there, or give the prompts as a file"
                ) from error
        return self

    def _begun(self, undo: ExitStack) -> BinaryIO:
        """The rows' bytes: of a pipe that goes on, as they come; else a copy that can be read twice."""
        pipe = undo.enter_context(self._pipe())
        if self._streaming and (descriptor := _descriptor_of(pipe)) is not None:
            head, ended = head_of(descriptor)
            self.live = not ended
            return io.BytesIO(head) if ended else going_on(head, descriptor)
        spool = undo.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        shutil.copyfileobj(pipe, spool)
        return spool

    def _pipe(self) -> AbstractContextManager[BinaryIO]:
        if self._path != STDIN:
            return Path(self._path).open("rb")
        if self._stdin is None and sys.stdin is None:
            raise UsageError("there is no standard input to read prompts from; give a file")
        return nullcontext(self._stdin or sys.stdin.buffer)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the copy."""
        self._stack.close()

    def rows(self) -> Rows:
        """All rows, from the start; of a live pipe, as they come. Raises UsageError if the file cannot be read."""
        if self._spool is None:
            return read(self._path, defaults=self._defaults)
        if not self.live:
            self._spool.seek(0)
        return read("-", stdin=self._spool, defaults=self._defaults)


def _descriptor_of(pipe: BinaryIO) -> int | None:
    """The descriptor of something that can be waited for; None for a plain file and for what has none."""
    try:
        descriptor = pipe.fileno()
    except (OSError, ValueError):  # io.UnsupportedOperation is both: a stream of a program
        return None
    return None if stat.S_ISREG(os.fstat(descriptor).st_mode) else descriptor


def given_row(request: GenerationRequest | Mapping[str, Any] | str, index: int, defaults: GenerationRequest) -> Rows:
    """A request of a program, judged by the same rules as a row of a file; a string is a prompt.

    Problems name the request by its number, as `requests[2]`.
    """
    source = f"requests[{index}]"
    try:
        # The standard library keeps what JSON cannot hold (NaN, lone surrogates) visible to the reader, which refuses it.
        line = json.dumps(msgspec.to_builtins({"prompt": request} if isinstance(request, str) else request)).encode()
    except (TypeError, ValueError) as error:
        yield Problem(source, 0, 0, "", f"cannot be written as JSON: {error}")
        return
    for row in read("-", stdin=io.BytesIO(line), format="jsonl", defaults=defaults):
        if isinstance(row, Located):
            yield structs.replace(row, index=index, row=structs.replace(row.row, source=source))
        else:
            yield dataclasses.replace(row, source=source)
