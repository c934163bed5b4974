"""Files of any length are read in little memory, and rows come as soon as they are there."""

import io
import tracemalloc
from itertools import chain, islice, repeat

import pytest

from omni_cli.prompts import Located, read

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
    rows = read("-", stdin=Pipe(pieces), format=kind)
    before = sum(isinstance(row, Located) for row in islice(rows, count - TRACED))
    tracemalloc.start()
    try:
        traced = sum(isinstance(row, Located) for row in rows)
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
def test_a_row_comes_before_the_next_is_there(buffered, before, row, after):
    pipe = Pipe([before + row, row, row, after])
    rows = read("-", stdin=io.BufferedReader(pipe) if buffered else pipe)
    for taken in (1, 2, 3):
        assert isinstance(next(rows), Located)
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
