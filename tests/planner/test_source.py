"""A pipe is kept to be read twice; where that cannot be, the user is told what to do."""

import errno
import io
import os
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from omni_cli.errors import UsageError
from omni_cli.planner.source import Source
from omni_cli.prompts import Located
from omni_cli.request import GenerationRequest

ROWS = b'{"prompt": "a"}\n{"prompt": "b"}\n'


def prompts(source: Source) -> list[str | None]:
    return [row.request.prompt for row in source.rows() if isinstance(row, Located)]


def test_standard_input_and_a_named_pipe_are_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    feeder = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(ROWS))
    feeder.start()
    for path, stdin in (("-", io.BytesIO(ROWS)), (str(tmp_path / "pipe"), None)):
        with Source(path, GenerationRequest(), stdin) as source:
            assert prompts(source) == prompts(source) == ["a", "b"]
            assert source.base == Path()
    feeder.join()


class Broken(io.RawIOBase):
    """A standard input that cannot be read, such as a folder."""

    def read(self, size: int = -1) -> bytes:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))


@pytest.mark.parametrize(
    ("stdin", "temporary", "reason"),
    [(Broken(), None, "Is a directory"), (io.BytesIO(ROWS), "/nonexistent/folder", "No such file or directory")],
    ids=["read", "copy"],
)
def test_a_pipe_that_cannot_be_kept_is_told_with_the_reason(
    stdin: BinaryIO, temporary: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", temporary)
    source = Source("-", GenerationRequest(), stdin)
    with pytest.raises(UsageError, match=rf"<stdin> cannot be copied .*\(TMPDIR\).*: {reason}; make room"), source:
        pass


def test_a_standard_input_that_is_closed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="there is no standard input"), Source("-", GenerationRequest()):
        pass
