"""The manifests of an output folder: that of runs of all requests, and one for each shard that has written there.

    manifest.jsonl  manifest.0-of-4.jsonl ...  ── merged_lines ──> the row that counts of each id

A request may have rows in several: its shard changes with the number of shards. One that is done counts before one that
is not, and of two that are done the one of the later run.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import msgspec

from omni_cli.journal.row_index import MANIFEST_NAME, RowIndex, current_lines, read_index
from omni_cli.storage.filesystem import FileVersion, file_version
from omni_cli.storage.shards import Shard, shard_name

_MANIFEST = re.compile(r"manifest(?:\.\d+-of-\d+)?\.jsonl")


class _Starts(msgspec.Struct, frozen=True):
    run: float = 0.0


class _Rank(msgspec.Struct, frozen=True):
    """The fields of a row that say which of several counts."""

    status: str = ""
    starts: _Starts | None = None


_rank_decoder = msgspec.json.Decoder(_Rank)


def manifest_name(shard: Shard | None = None) -> str:
    """Return the name of the manifest that a run of `shard`, or of all requests, writes."""
    return f"manifest{shard_name(shard)}.jsonl"


def is_manifest_name(name: str) -> bool:
    """Return whether a file of that name in an output folder is a manifest."""
    return _MANIFEST.fullmatch(name) is not None


def manifest_paths(folder: Path) -> list[Path]:
    """Return the manifests in `folder`, that of runs of all requests first; none if the folder is not there."""
    try:
        found = sorted(path for path in folder.iterdir() if is_manifest_name(path.name) and path.is_file())
    except OSError:
        return []
    return sorted(found, key=lambda path: path.name != MANIFEST_NAME)


def has_manifest(folder: Path) -> bool:
    """Return whether a run has written a manifest into `folder`."""
    return bool(manifest_paths(folder))


def manifests_version(folder: Path) -> tuple[FileVersion, ...] | None:
    """Return a value that is equal while no row is added in `folder`; None without a manifest."""
    try:
        return tuple(map(file_version, manifest_paths(folder))) or None
    except OSError:  # merged meanwhile
        return ()


def rank(row: bytes) -> tuple[bool, float]:
    """Return the order of rows of one id in different manifests: the largest counts."""
    try:
        fields = _rank_decoder.decode(row)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False, -1.0
    return fields.status == "done", fields.starts.run if fields.starts is not None else 0.0


def open_manifests(paths: Sequence[Path], stack: ExitStack) -> list[tuple[BinaryIO, RowIndex]]:
    """Open each of `paths` until the end of `stack`, with the index of its lines; those merged meanwhile are left out.

    Raises OSError if one cannot be read.
    """
    opened: list[tuple[BinaryIO, RowIndex]] = []
    for path in paths:
        try:
            file = stack.enter_context(path.open("rb"))
        except FileNotFoundError:
            if len(paths) == 1:
                raise
            continue
        opened.append((file, read_index(file)))
    return opened


def merged_lines(manifests: Sequence[tuple[BinaryIO, RowIndex]]) -> Iterator[bytes]:
    """Yield the row that counts of each id in any of `manifests`, and lines that are no rows, manifest by manifest."""
    if len(manifests) > 1:
        _drop_outranked(manifests)
    for file, index in manifests:
        file.seek(0)
        yield from current_lines(file, index.replaced, index.end)


def _drop_outranked(manifests: Sequence[tuple[BinaryIO, RowIndex]]) -> None:
    """Count rows as replaced where another manifest has the row of that id that counts."""
    best: dict[bytes, tuple[tuple[bool, float], RowIndex]] = {}
    seen: dict[bytes, tuple[BinaryIO, RowIndex]] = {}
    for file, index in manifests:
        for key in list(index.keys()):
            if key not in seen:
                seen[key] = (file, index)
                continue
            first, holder = seen[key]
            held = best[key] if key in best else (rank(_line(first, holder, key)), holder)
            ranked = rank(_line(file, index, key))
            loser = held[1] if ranked > held[0] else index
            loser.drop_key(key)
            best[key] = (ranked, index) if ranked > held[0] else held
            if loser is holder:
                seen[key] = (file, index)


def _line(file: BinaryIO, index: RowIndex, key: bytes) -> bytes:
    offset, length = index.range_of(key)
    file.seek(offset)
    return file.read(length)
