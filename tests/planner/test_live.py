"""Pipes: one that ends at once is a file, one that goes on is a stream."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from omni_cli.errors import Problem
from omni_cli.planner.live import going_on, head_of
from omni_cli.planner.source import Source
from omni_cli.request import GenerationRequest


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for descriptor in (read, write):
        with suppress(OSError):  # the test has closed it
            os.close(descriptor)


def test_a_pipe_that_has_ended_gives_all_of_it(pipe) -> None:
    read, write = pipe
    os.write(write, b"all of it")
    os.close(write)
    assert head_of(read) == (b"all of it", True)


def test_one_that_is_still_open_gives_what_is_there_and_then_the_rest_line_by_line(pipe) -> None:
    read, write = pipe
    os.write(write, b'{"prompt": "a"}\n{"pro')
    head, ended = head_of(read, 0.01)
    assert (head, ended) == (b'{"prompt": "a"}\n{"pro', False)
    stream = going_on(head, read)
    assert stream.readline() == b'{"prompt": "a"}\n'
    os.write(write, b'mpt": "b"}\n')
    assert stream.readline() == b'{"prompt": "b"}\n'
    os.close(write)
    assert stream.read() == b""


def test_rows_of_a_live_source_come_before_the_next_is_written(pipe) -> None:
    read, write = pipe
    os.write(write, b'{"prompt": "a"}\n')
    with os.fdopen(read, "rb") as stdin, Source("-", GenerationRequest(), stdin, streaming=True) as source:
        assert source.live
        rows = source.rows()
        for text in ("a", "b"):
            row = next(rows)
            assert not isinstance(row, Problem)
            assert row.request.prompt == text
            os.write(write, b'{"prompt": "b"}\n')
        os.close(write)


def test_without_streaming_or_with_an_end_in_sight_it_is_a_file(tmp_path: Path, pipe) -> None:
    read, write = pipe
    os.write(write, b'{"prompt": "a"}\n')
    os.close(write)
    with os.fdopen(read, "rb") as stdin, Source("-", GenerationRequest(), stdin, streaming=True) as source:
        assert not source.live
        assert len(list(source.rows())) == len(list(source.rows())) == 1
    plain = tmp_path / "p.jsonl"
    plain.write_bytes(b'{"prompt": "a"}\n')
    with plain.open("rb") as stdin, Source("-", GenerationRequest(), stdin, streaming=True) as source:
        assert not source.live
        assert len(list(source.rows())) == len(list(source.rows())) == 1
