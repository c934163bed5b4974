"""A pipe that ends at once is copied and read twice; one that stays open is read row by row."""

import errno
import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from omni_cli.errors import UsageError
from omni_cli.prompts import LocatedRequest
from omni_cli.prompts.prompt_source import PromptSource, live_stream, read_head
from omni_cli.request import GenerationRequest

ROWS = b'{"prompt": "a"}\n{"prompt": "b"}\n'


def prompts(source: PromptSource) -> list[str | None]:
    return [row.request.prompt for row in source.rows() if isinstance(row, LocatedRequest)]


def test_standard_input_and_a_named_pipe_are_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    feeder = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(ROWS))
    feeder.start()
    for path, stdin in (("-", io.BytesIO(ROWS)), (str(tmp_path / "pipe"), None)):
        with PromptSource(path, GenerationRequest(), stdin) as source:
            assert prompts(source) == prompts(source) == ["a", "b"]
            assert source.base == Path()
    feeder.join()


class Broken(io.RawIOBase):
    """A standard input that cannot be read, such as a folder."""

    def read(self, size: int = -1) -> bytes:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))


def test_a_pipe_that_cannot_be_read_is_refused_with_the_reason() -> None:
    source = PromptSource("-", GenerationRequest(), Broken())
    with pytest.raises(UsageError, match="cannot read <stdin>: Is a directory; give"), source:
        pass


def test_a_pipe_that_cannot_be_copied_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent/folder")
    with PromptSource("-", GenerationRequest(), io.BytesIO(ROWS)) as source:
        assert prompts(source) == ["a", "b"], "a short pipe needs no file"
    monkeypatch.setattr("omni_cli.prompts.prompt_source.MEMORY_BYTES", 8)
    source = PromptSource("-", GenerationRequest(), io.BytesIO(ROWS))
    reason = "No such file or directory"
    with pytest.raises(UsageError, match=rf"<stdin> cannot be copied .*\(TMPDIR\).*: {reason}; make room"), source:
        pass


def test_a_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="there is no standard input"), PromptSource("-", GenerationRequest()):
        pass


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for descriptor in (read, write):
        with suppress(OSError):  # the test has closed it
            os.close(descriptor)


def test_the_head_of_a_pipe_that_has_ended_is_all_of_it(pipe) -> None:
    read, write = pipe
    os.write(write, b"all of it")
    os.close(write)
    assert read_head(read) == (b"all of it", True)


def test_an_open_pipe_gives_its_head_and_then_the_rest_line_by_line(pipe) -> None:
    read, write = pipe
    os.write(write, b'{"prompt": "a"}\n{"pro')
    head, ended = read_head(read, 0.01)
    assert (head, ended) == (b'{"prompt": "a"}\n{"pro', False)
    stream = live_stream(head, read)
    assert stream.readline() == b'{"prompt": "a"}\n'
    os.write(write, b'mpt": "b"}\n')
    assert stream.readline() == b'{"prompt": "b"}\n'
    os.close(write)
    assert stream.read() == b""


def test_rows_of_a_live_source_come_before_the_next_is_written(pipe) -> None:
    read, write = pipe
    os.write(write, b'{"prompt": "a"}\n')
    with os.fdopen(read, "rb") as stdin, PromptSource("-", GenerationRequest(), stdin, streaming=True) as source:
        assert source.live
        rows = source.rows()
        for text in ("a", "b"):
            row = next(rows)
            assert isinstance(row, LocatedRequest)
            assert row.request.prompt == text
            os.write(write, b'{"prompt": "b"}\n')
        os.close(write)


def test_a_pipe_that_has_ended_and_a_redirected_file_are_not_live(tmp_path: Path, pipe) -> None:
    read, write = pipe
    os.write(write, b'{"prompt": "a"}\n')
    os.close(write)
    with os.fdopen(read, "rb") as stdin, PromptSource("-", GenerationRequest(), stdin, streaming=True) as source:
        assert not source.live
        assert len(list(source.rows())) == len(list(source.rows())) == 1
    plain = tmp_path / "p.jsonl"
    plain.write_bytes(b'{"prompt": "a"}\n')
    with plain.open("rb") as stdin, PromptSource("-", GenerationRequest(), stdin, streaming=True) as source:
        assert not source.live
        assert len(list(source.rows())) == len(list(source.rows())) == 1
