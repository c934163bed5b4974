"""The result file of OpenAI's batch API: one line per request, `{"id", "custom_id", "response", "error"}`.

A picture's response is the body of images/generations, a clip's that of a finished video job with its files in `data`,
as pictures have them. Source: OpenAI's API reference, BatchRequestOutput.
"""

import base64
import json
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from omni_cli.request import OutputFile, Result
from omni_cli.storage.atomic import replace_file
from omni_cli.storage.shards import Shard, shard_name


def results_name(shard: Shard | None) -> str:
    """Return the name of the result file of a run, in its output folder."""
    return f"results{shard_name(shard)}.jsonl"


def write_results(path: Path, rows: Iterable[Result], *, inline: bool) -> tuple[int, int]:
    """Write the results of `rows`, in their order, to `path`; return the numbers of responses and of errors.

    With `inline`, files are in their lines as base64; else lines have their paths, relative to the folder of `path`, as
    do folders of frames. Cancelled requests have no line. Raises OSError, also for a file that is not there.
    """
    folder, responses, errors = path.parent, 0, 0
    with replace_file(path) as file:
        for row in rows:
            if row.status == "cancelled":
                continue
            file.write(_encoded(_line(row, folder if inline else None)) + b"\n")
            responses, errors = responses + (row.status == "done"), errors + (row.status == "failed")
    return responses, errors


def _encoded(line: dict[str, Any]) -> bytes:
    """Return `line` as JSON; lone surrogates, which UTF-8 does not have, as escapes."""
    try:
        return msgspec.json.encode(line)
    except UnicodeEncodeError:
        return json.dumps(line).encode()


def _line(row: Result, folder: Path | None) -> dict[str, Any]:
    key = blake2b(row.id.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    response, error = None, None
    if row.status == "done":
        response = {"status_code": 200, "request_id": f"req_{row.fingerprint[:24]}", "body": _body(row, key, folder)}
    elif row.error is not None:
        error = {"code": row.error.kind, "message": row.error.message}
    return {"id": f"batch_req_{key}", "custom_id": row.id, "response": response, "error": error}


def _body(row: Result, key: str, folder: Path | None) -> dict[str, Any]:
    data = [_datum(file, folder) for file in row.files]
    created = int(row.starts.run) if row.starts is not None else 0
    first = row.files[0] if row.files else None
    size = f"{first.width}x{first.height}" if first is not None else ""
    if first is None or first.fps is None:
        return {"created": created, "data": data, "size": size, "output_format": row.request.format}
    return {
        "id": f"video_{key}",
        "object": "video",
        "created_at": created,
        "status": "completed",
        "progress": 100,
        "model": row.model.id,
        "seconds": f"{first.frames / first.fps:.3f}".rstrip("0").rstrip("."),
        "size": size,
        "data": data,
    }


def _datum(file: OutputFile, folder: Path | None) -> dict[str, str]:
    if folder is None or (folder / file.path).is_dir():
        return {"url": file.path}
    return {"b64_json": base64.b64encode((folder / file.path).read_bytes()).decode("ascii")}
