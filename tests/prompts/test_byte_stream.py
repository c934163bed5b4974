"""Files of any length are read in little memory, and rows come as soon as they are there."""

import io
import tracemalloc
from itertools import chain, islice, repeat

import pytest

from omni_cli.prompts import LocatedRequest, read
from omni_cli.prompts.byte_stream import ByteStream
from omni_cli.prompts.reader import ReadOptions

ROW = b'{"prompt": "a red circle", "seed": 7}'
COUNT = 100_000
TRACED = 10_000


class Pipe(io.RawIOBase):
    """A pipe that hands over one piece at a time and counts them."""

    def __init__(self, pieces):
        self.pieces = iter(pieces)
        self.taken = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = next(self.pieces, b"")
        self.taken += bool(piece)
        buffer[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize(
    ("kind", "count", "pieces"),
    [
        ("jsonl", COUNT, repeat((ROW + b"\n") * 1000, COUNT // 1000)),
        ("json", COUNT + 1, chain([b"["], repeat((ROW + b",\n") * 1000, COUNT // 1000), [ROW + b"]"])),
        ("csv", 20_000, chain([b"prompt,seed\n"], repeat(b"a red circle,7\n" * 1000, 20))),
    ],
)
def test_a_hundred_thousand_rows_need_the_memory_of_a_few(kind, count, pieces):
    """Only the last rows are traced, for speed: if rows were kept, these alone would take several times the bound."""
    rows = read("-", binary=Pipe(pieces), options=ReadOptions(format=kind))
    before = sum(isinstance(row, LocatedRequest) for row in islice(rows, count - TRACED))
    tracemalloc.start()
    try:
        traced = sum(isinstance(row, LocatedRequest) for row in rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert before + traced == count
    assert peak < 1_000_000


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    ("before", "row", "after"),
    [(b"", ROW + b"\n", b""), (b"[", ROW + b",", b"{}]"), (b"", b"a cat\n", b"")],
    ids=["jsonl", "array", "txt"],
)
def test_a_row_is_yielded_before_the_next_one_arrives(buffered, before, row, after):
    pipe = Pipe([before + row, row, row, after])
    rows = read("-", binary=io.BufferedReader(pipe) if buffered else pipe)
    for taken in (1, 2, 3):
        assert isinstance(next(rows), LocatedRequest)
        assert pipe.taken == taken


def test_a_file_is_not_opened_before_it_is_read_and_closed_when_left(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes((ROW + b"\n") * 3)
    unread = read(path)
    rows = read(path)
    next(rows)
    rows.close()
    assert list(rows) == []
    assert len(list(unread)) == 3


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_lines_are_cut_at_line_feeds_whatever_the_chunks(chunk):
    content = b"\xef\xbb\xbfa\r\n\nbc\n\xff"
    pieces = (content[at : at + chunk] for at in range(0, len(content), chunk))
    lines = ByteStream(Pipe(pieces), "x").lines()
    assert [(line.line, line.raw) for line in lines] == [(1, b"a\r"), (2, b""), (3, b"bc"), (4, b"\xff")]


def test_the_first_character_is_inspected_without_reading_it():
    stream = ByteStream(io.BytesIO(b" \n\t{}"), "x")
    assert stream.first() == b"{"
    assert stream.chunks(100) == b" \n\t{}"
    assert ByteStream(io.BytesIO(b" \n"), "x").first() == b""


@pytest.mark.parametrize("chunk", [3, 1000])
def test_returns_alone_end_lines_only_where_nothing_else_does(chunk):
    def lines(content):
        pieces = (content[at : at + chunk] for at in range(0, len(content), chunk))
        return [line.raw for line in ByteStream(Pipe(pieces), "x").lines()]

    assert lines(b"abc\rd\re")[-2:] == [b"d", b"e"]
    assert lines(b"abc\r\nd\re\r\n") == [b"abc\r", b"d\re\r"]


def test_the_first_lines_are_inspected_without_reading_them():
    stream = ByteStream(Pipe([b"\n ab", b"c\r\n\n", b"d\ne"]), "x")
    assert stream.first_lines(1) == [b"abc"]
    assert stream.first_lines(3) == [b"abc", b"d", b"e"]
    assert ByteStream(io.BytesIO(b" \n"), "x").first_lines(1) == [b""]
    assert stream.chunks(100) == b"\n abc\r\n\nd\ne"
