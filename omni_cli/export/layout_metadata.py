"""The metadata files of a layout, from the rows of the manifest: written at the end of a run, as a whole."""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from omni_cli.config import LayoutName
from omni_cli.request import OutputFile, Result, with_exact_seeds
from omni_cli.storage.atomic import replace_file

METADATA = "metadata.jsonl"

_SPLIT = "train/"

_SAMPLE = re.compile(r"(?P<folder>[0-9]{5,})/samples/[0-9]{4,}\.png")

_MEDIA = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".mp4", ".mov", ".mkv"})
"""Extensions that ImageFolder or VideoFolder take for media."""


def write_metadata(layout: LayoutName, folder: Path, rows: Iterable[Result]) -> int:
    """Write the metadata of `layout` for the done `rows` of the manifest in `folder`; return the number of files.

    Files of other layouts, and those that are not there any more, are left out. Raises OSError.
    """
    done = (row for row in rows if row.status == "done")
    match layout:
        case "geneval":
            return _write_geneval(folder, done)
        case "hf-dataset":
            return _write_dataset(folder, list(done))
        case _:
            return 0  # VBench reads the prompts from its own list


def _write_geneval(folder: Path, rows: Iterable[Result]) -> int:
    """Write the row of the list beside the samples of each request, as a single JSON object."""
    count = 0
    for row in rows:
        match = _SAMPLE.fullmatch(row.files[0].path) if row.files else None
        if match is not None:
            content = {**(row.request.meta or {}), "prompt": row.request.prompt}
            _write_if_changed(folder / match["folder"] / METADATA, _line(content))
            count += 1
    return count


def _write_dataset(folder: Path, rows: list[Result]) -> int:
    """Write one line per file below the split, with the same columns in every line."""
    lines = [line for row in rows for line in _dataset_lines(folder, row)]
    if not lines:
        return 0
    columns = dict.fromkeys(column for line in lines for column in line)
    texts = {column for column in columns if len({_kind(line.get(column)) for line in lines} - {""}) > 1}
    with replace_file(folder / _SPLIT / METADATA) as file:
        for line in lines:
            file.write(_line({column: _as_text(line.get(column), column in texts) for column in columns}))
    return 1


def _dataset_lines(folder: Path, row: Result) -> Iterator[dict[str, Any]]:
    request = row.request
    for file, seed in zip(row.files, row.seeds, strict=True):
        if not file.path.startswith(_SPLIT) or not _is_media(folder, file):
            continue
        values = {
            "text": request.prompt,
            "negative_prompt": request.negative_prompt,
            "id": row.id,
            "seed": with_exact_seeds({"seed": seed})["seed"],
            "width": file.width,
            "height": file.height,
            "num_frames": file.frames,
            "fps": file.fps,
            "num_inference_steps": request.num_inference_steps,
            "guidance_scale": request.guidance_scale,
            "model": row.model.id,
        }
        extra = {_column(name): value for name, value in (request.meta or {}).items()}
        yield {"file_name": file.path.removeprefix(_SPLIT), **extra, **values}


def _is_media(folder: Path, file: OutputFile) -> bool:
    return posixpath.splitext(file.path)[1].lower() in _MEDIA and (folder / file.path).is_file()


def _column(name: str) -> str:
    """Return the column of a value of `meta`; a name that readers take for a file is changed."""
    if name in ("image", "video", "label"):
        return f"meta_{name}"
    return name.replace("file_name", "filename")


def _kind(value: Any) -> str:
    """Return what a column of a table can hold beside `value`: "" for all, "number", "text", ..."""
    match value:
        case None:
            return ""
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return f"{type(value).__name__} {json.dumps(_shape(value), sort_keys=True)}"


def _shape(value: Any) -> Any:
    """Return the names and kinds inside a nested value: a column holds values of one shape."""
    match value:
        case Mapping():
            return {key: _shape(item) for key, item in value.items()}
        case list():
            shapes = [_shape(item) for item in value]
            return [shape for at, shape in enumerate(shapes) if shape not in shapes[:at]]
        case _:
            return _kind(value)


def _as_text(value: Any, is_text: bool) -> Any:
    if not is_text or value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _write_if_changed(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        with replace_file(path) as file:
            file.write(content)
