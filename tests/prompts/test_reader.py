"""The format and the source of a prompt file."""

import os
import sys
import threading

import pytest

from omni_cli.errors import UsageError
from omni_cli.prompts import read
from omni_cli.prompts.reader import ReadOptions
from omni_cli.request import GenerationRequest


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"prompt": "x"}'),
        ("a.ndjson", '{"prompt": "x"}'),
        ("a.json", '[{"prompt": "x"}]'),
        ("a.csv", "prompt\nx"),
        ("a.TSV", "prompt\nx"),
        ("a.txt", "x"),
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_the_extension_decides_the_format_and_a_byte_order_mark_is_dropped(tmp_path, name, content, mark):
    path = tmp_path / name
    path.write_bytes(mark + content.encode())
    (row,) = read(path)
    assert (row.request, row.source) == (GenerationRequest(prompt="x"), str(path))


@pytest.mark.parametrize(
    ("content", "prompts"),
    [
        (' \n{"prompt": "a"}\n{"prompt": "b"}', ["a", "b"]),
        (' \n[{"prompt": "a"}]', ["a"]),
        (" \n# {\na\n", ["a"]),
    ],
)
def test_the_format_of_standard_input_follows_from_its_first_character(requests, content, prompts):
    assert [one.prompt for one in requests(content)] == prompts


def test_an_explicit_format_overrides_the_extension(requests, tmp_path):
    assert requests("prompt\nx", "csv") == requests("x", "txt") == [GenerationRequest(prompt="x")]
    path = tmp_path / "list.prompts"
    path.write_text("x")
    assert [row.request.prompt for row in read(path, options=ReadOptions(format="txt"))] == ["x"]


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xef\xbb\xbf", b"[]", b"[ ]\n"])
def test_an_empty_source_is_one_problem(problems, content):
    assert problems(content) == ["1:1: no requests; give at least one"]


def test_a_source_that_cannot_be_read_is_refused_before_reading(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "missing.jsonl")
    with pytest.raises(UsageError, match="it is a folder"):
        read(tmp_path)
    with pytest.raises(UsageError, match="cannot read"):
        read("a\0b.jsonl")
    (tmp_path / "a.xlsx").touch()
    with pytest.raises(UsageError, match=r'"[^"]*a\.xlsx" is a spreadsheet; save it as CSV'):
        read(tmp_path / "a.xlsx")
    (tmp_path / "a.doc").touch()
    with pytest.raises(UsageError, match=r'"[^"]*a\.doc" is not known; prompt files are \.jsonl, .*--input-format'):
        read(tmp_path / "a.doc")
    with pytest.raises(UsageError, match='the format "xml" is not known'):
        read("-", options=ReadOptions(format="xml"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_an_unreadable_file_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.touch(0o000)
    with pytest.raises(UsageError, match="Permission denied"):
        list(read(path))


def test_the_name_of_a_source_is_escaped_in_messages(tmp_path):
    path = tmp_path / "a\x1b[2J\u202eb.jsonl"
    path.write_text("x")
    (problem,) = read(path)
    assert problem.source.endswith("a\\x1b[2J\\u202eb.jsonl")
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "\x1b.jsonl")
    assert str(caught.value).isprintable()


def test_hostile_values_are_cut_and_escaped_in_messages(problems):
    (found,) = problems('{"prompt": "x", "\\u001b[31m\\u202e' + "y" * 1000 + '": 1}')
    assert found.isprintable()
    assert f'unknown field "\\x1b[31m\\u202e{"y" * 54}…"' in found


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
def test_a_named_pipe_is_read_like_standard_input(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"prompt": "x"}\n',))
    writer.start()
    assert [row.request.prompt for row in read(pipe)] == ["x"]
    writer.join()


def test_an_input_among_the_defaults_makes_up_for_rows_without_one(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"seed": 1}')
    (row,) = read(path, defaults=GenerationRequest(image="a.png"))
    assert row.request == GenerationRequest(seed=1)
