"""A prompt file is read as it was checked, whatever happens to it meanwhile."""

import io
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from omni_cli.errors import UsageError
from omni_cli.prompts import LocatedRequest
from omni_cli.prompts.file_snapshot import CheckedStream
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.request import GenerationRequest

ROWS = 400
PADDING = "x" * 500
"""Makes files longer than what is read ahead."""
LINES = {
    "jsonl": ("", '{{"prompt": "{}"}}\n', ""),
    "json": ("[", '{{"prompt": "{}"}},\n', '{"prompt": "last"}]'),
    "csv": ("prompt\n", "{}\n", ""),
    "tsv": ("prompt\n", "{}\n", ""),
    "txt": ("", "{}\n", ""),
}


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write('{"prompt": "new"}\nnew\n')


def truncate(path: Path) -> None:
    with path.open("r+") as file:
        file.truncate(path.stat().st_size // 2)


def edit(path: Path) -> None:
    """Change one row near the end in place, without changing the size or, as far as possible, the times."""
    with path.open("r+b") as file:
        content = file.read()
        file.seek(content.rindex(b"row"))
        file.write(b"ROW")


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("another file\n")
    other.replace(path)


def delete(path: Path) -> None:
    path.unlink()


CHANGES = [append, truncate, edit, replace, delete]
SEEN_IN_LONG_FILES = {truncate: "was cut short", edit: "was changed"}


@pytest.fixture(params=["short", "long"])
def is_long(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Make the files of a test long ones, which are not kept in memory, or leave them short."""
    if request.param == "long":
        monkeypatch.setattr("omni_cli.prompts.file_snapshot.MEMORY_BYTES", 100)
        monkeypatch.setattr("omni_cli.prompts.file_snapshot.BLOCK_BYTES", 1000)
    return bool(request.param == "long")


def write(path: Path) -> None:
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table({"prompt": [f"row {n}" for n in range(ROWS)]})
        pyarrow.parquet.write_table(table, path, compression="none", use_dictionary=False, row_group_size=50)
    else:
        head, line, tail = LINES[path.suffix[1:]]
        path.write_text(head + "".join(line.format(f"row {n} {PADDING}") for n in range(ROWS)) + tail)


def texts(source: PromptSource) -> Iterator[str | None]:
    for row in source.rows():
        assert isinstance(row, LocatedRequest), row
        yield row.request.prompt


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [*LINES, "parquet"])
def test_a_changed_file_is_read_as_it_was_or_the_change_is_reported(
    kind: str, change: Callable[[Path], None], is_long: bool, tmp_path: Path
) -> None:
    if kind == "parquet" and find_spec("pyarrow") is None:
        pytest.skip("needs pyarrow")
    path = tmp_path / f"prompts.{kind}"
    write(path)
    with PromptSource(str(path), GenerationRequest()) as source:
        checked = list(texts(source))
        assert len(checked) >= ROWS
        again = texts(source)
        seen = [] if kind == "parquet" else [next(again)]  # pyarrow may read ahead
        change(path)
        reason = SEEN_IN_LONG_FILES.get(change) if is_long else None
        if reason is None:
            assert [*seen, *again] == checked
            return
        with pytest.raises(UsageError, match=f"prompts.{kind} {reason} after this run began to read it"):
            seen.extend(again)
        assert seen == checked[: len(seen)], "rows before the change are those that were checked"
        assert kind == "parquet" or seen


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_redirected_to_standard_input_is_read_as_it_was(change: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    write(path)
    with path.open("rb") as stdin, PromptSource("-", GenerationRequest(), stdin, streaming=True) as source:
        rows = texts(source)
        seen = [next(rows)]
        change(path)
        seen.extend(rows)
        assert seen == list(texts(source))
        assert len(seen) == ROWS


def test_a_file_that_was_changed_and_changed_back_is_read_on(is_long: bool, tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    write(path)
    content = path.read_bytes()
    with PromptSource(str(path), GenerationRequest()) as source:
        checked = list(texts(source))
        edit(path)
        with path.open("r+b") as file:
            file.write(content)
        assert list(texts(source)) == checked


def test_a_checked_stream_is_a_seekable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omni_cli.prompts.file_snapshot.BLOCK_BYTES", 7)
    content = bytes(range(100))
    (tmp_path / "file").write_bytes(content + b"appended later")
    with (tmp_path / "file").open("rb") as file:
        stream = CheckedStream(file.fileno(), len(content), {}, "file")
        assert stream.read(30) == content[:30], "across blocks"
        assert stream.tell() == 30
        assert stream.seek(-10, io.SEEK_END) == 90
        assert stream.read() == content[90:]
        assert stream.read(5) == b""
        assert stream.seek(3) == 3
        assert stream.seek(2, io.SEEK_CUR) == 5
        assert stream.read() == content[5:]
