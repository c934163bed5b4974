"""The index of a manifest."""

import io
import tracemalloc

from omni_cli.journal.row_index import read_index


def test_index_has_the_last_row_of_each_id_and_the_rows_it_replaced():
    first = b'{"id":"a","status":"failed","fingerprint":"f","files":[]}\n'
    second = b'{"id":"b","status":"done","fingerprint":"f","files":[]}\n'
    index = read_index(io.BytesIO(first + second + b"\n" + first))
    assert index.find("a") == (len(first) + len(second) + 1, len(first))
    assert index.find("b") == (len(first), len(second))
    assert index.find("c") is None
    assert index.replaced == {0}
    assert index.unreadable == 0


def test_index_of_many_long_rows_stays_small():
    body = b'","status":"done","fingerprint":"f","files":[],"request":{"prompt":"' + b"x" * 900 + b'"}}\n'
    rows = [b'{"id":"%06d' % number + body for number in range(20_000)]
    stream = io.BytesIO(b"".join(rows))
    del rows
    tracemalloc.start()
    try:
        index = read_index(stream)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert index.find("019999") is not None
    assert held < 20_000 * 210
