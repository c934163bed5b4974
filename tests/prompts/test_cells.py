"""Quoting of cells: RFC 4180, with places, and with mistakes reported."""

import pytest

from omni_cli.prompts.byte_stream import RawRow
from omni_cli.prompts.cells import COMMAS, TABS, records, split


def test_a_line_break_in_quotes_stays_and_lines_are_physical(rows):
    first, problem, last = rows('prompt,seed\n"a\n""b"",\n",1\n\n,,\n"c\nd",x\ne,2', "csv")
    assert (first.request.prompt, first.line, first.at("seed")) == ('a\n"b",\n', 2, (4, 3))
    assert (problem.line, problem.column, problem.field) == (8, 4, "seed")
    assert (last.request.prompt, last.line, last.index) == ("e", 9, 2)


def test_malformed_quotes_are_problems(problems):
    assert problems('prompt,seed\n"a"b,1\nc "d",1\n"e,1\nf,2\n', "csv") == [
        '2:4: text after the closing quote; write a quote in a cell as ""',
        '4:1: a quoted cell without its closing quote; write a quote in a cell as ""',
    ]


@pytest.mark.parametrize(
    ("dialect", "record", "cells"),
    [
        (COMMAS, ' a , "b,""c""" ,', [(1, "a"), (5, 'b,"c"'), (16, "")]),
        (TABS, 'a b\t"c\td"', [(0, "a b"), (4, "c\td")]),
        (COMMAS, "", [(0, "")]),
    ],
)
def test_a_record_is_split_into_cells_with_their_offsets(dialect, record, cells):
    assert split(record, dialect) == (cells, [])


def test_lines_are_joined_while_a_quote_is_open_and_empty_records_are_skipped():
    lines = [b'a,"b', b"", b'c"\r', b",,\r", b"d"]
    rows = records((RawRow(number, 1, raw) for number, raw in enumerate(lines, 1)), COMMAS)
    assert [(row.line, row.raw) for row in rows] == [(1, b'a,"b\n\nc"'), (5, b"d")]
