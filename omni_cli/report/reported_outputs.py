"""The outputs of a folder as a page shows them: one entry per file, or per request that has none."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import quote as percent_encoded

import msgspec
from msgspec import structs

from omni_cli.errors import UsageError
from omni_cli.journal import MANIFEST_NAME, file_fault, manifest_folder, read_rows
from omni_cli.notes import STANDING, note_kind
from omni_cli.request import OutputFile, Result, Starts, Timings, to_json
from omni_cli.storage.file_types import SOUNDS, VIDEOS
from omni_cli.text import encodable, quote

MAX_ROW_CHARACTERS = 20_000
"""Longest JSONL row, and longest prompt, that a page holds; longer ones are in the manifest."""

MAX_FAULT_CHARACTERS = 2_000

OutputKind = Literal["", "picture", "animation", "clip", "frames", "sound", "data"]
"""How a browser shows a file: "animation" as a picture that moves, "frames" is a folder of pictures."""

GroupKind = Literal["failed", "damaged", "note"]


class ReportedOutput(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One output of a request, or a request without any.

    `row` is a JSONL row that renders the output alone, "" if it is too long; the page takes the prompt from it. `path`
    is that of the row, `url` the file's relative to the page, `thumb` the name of its thumbnail, "" without one.
    `model` and `run` are indexes in the lists of the page, `run` -1 if unknown. `spans` are start and length in seconds
    of forward, d2h, encode and write, from the start of the run. `fault` is how the file differs from its row, or why
    it failed.
    """

    id: str
    status: Literal["done", "damaged", "failed", "cancelled"]
    row: str = ""
    prompt: str = ""
    seed: str = ""
    kind: OutputKind = ""
    path: str = ""
    url: str = ""
    thumb: str = ""
    width: int = 0
    height: int = 0
    frames: int = 0
    fps: float | None = None
    bytes: int = 0
    model: int = 0
    run: int = -1
    worker: int = 0
    spans: tuple[float, ...] = ()
    forward: float = 0.0
    attempts: int = 1
    fault: str = ""
    notes: tuple[str, ...] = ()


class OutputGroup(msgspec.Struct, kw_only=True):
    """Outputs with a failure or note of one kind: `text` is that of the first, `outputs` are indexes."""

    kind: GroupKind
    text: str
    outputs: list[int]


@dataclass(slots=True)
class ReportedFolder:
    """A folder's rows, and what the page shows of them. `files` has the row's file of each output, None without."""

    root: Path
    rows: list[Result] = field(default_factory=list)
    outputs: list[ReportedOutput] = field(default_factory=list)
    files: list[OutputFile | None] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The folder's name for people."""
        return encodable_name(self.root)


def encodable_name(root: Path) -> str:
    """Return the name of the folder `root` for people."""
    return encodable(root.resolve().name or str(root))


def manifest_rows(outputs: Path) -> tuple[Path, list[Result]]:
    """Return the folder of `outputs` and its rows in the order of the prompt file: they are in that of their ends.

    Raises UsageError if there is no manifest or it cannot be read.
    """
    root = manifest_folder(outputs)
    try:
        return root, sorted(read_rows(root / MANIFEST_NAME), key=lambda row: row.index)
    except OSError as error:
        raise UsageError(
            f"{quote(str(root / MANIFEST_NAME), 200)} cannot be read: {error.strerror or error}"
        ) from error


def read_folder(outputs: Path, page_dir: Path) -> ReportedFolder:
    """Read the manifest of the folder `outputs` and look its files up, for a page in the folder `page_dir`.

    Raises UsageError if there is no manifest or it cannot be read.
    """
    root, rows = manifest_rows(outputs)
    folder = ReportedFolder(root, rows)
    folder.runs = sorted({row.starts.run for row in folder.rows if row.starts is not None})
    models: dict[str, int] = {}
    run_numbers = {run: number for number, run in enumerate(folder.runs)}
    base = url_of(os.path.relpath(root.resolve(), page_dir.resolve()))
    for row in folder.rows:
        model = models.setdefault(_model_name(row), len(models))
        shared = _shared(row, model, run_numbers)
        for output, file in _outputs_of(row, root, base, shared):
            folder.outputs.append(output)
            folder.files.append(file)
    folder.models = list(models)
    return folder


def url_of(path: str) -> str:
    """Return the relative POSIX `path` as a relative URL, percent-encoded."""
    return percent_encoded(os.fsencode(path))


def group_outputs(outputs: Iterable[ReportedOutput]) -> list[OutputGroup]:
    """Return the failures, damages and notes of `outputs` by their kind, the most frequent first in each."""
    groups: dict[tuple[GroupKind, str], OutputGroup] = {}
    for number, output in enumerate(outputs):
        texts: list[tuple[GroupKind, str]] = [("note", note.removeprefix(STANDING)) for note in output.notes]
        if output.status in ("failed", "damaged"):
            texts.insert(0, ("failed" if output.status == "failed" else "damaged", output.fault))
        for kind, text in {(kind, note_kind(text)): (kind, text) for kind, text in reversed(texts)}.values():
            group = groups.setdefault((kind, note_kind(text)), OutputGroup(kind=kind, text=text, outputs=[]))
            group.outputs.append(number)
    order: tuple[GroupKind, ...] = ("failed", "damaged", "note")
    return sorted(groups.values(), key=lambda group: (order.index(group.kind), -len(group.outputs)))


def _model_name(row: Result) -> str:
    """Return the name of the row's model for people: where it was loaded from, its revision and dtype."""
    revision = f" @ {row.model.revision[:12]}" if row.model.revision else ""
    return f"{row.model.id}{revision} · {row.model.pipeline} · {row.model.dtype}"


def _shared(row: Result, model: int, run_numbers: dict[float, int]) -> ReportedOutput:
    """Return what all outputs of `row` have in common."""
    output = ReportedOutput(
        id=row.id,
        status=row.status,
        prompt=(row.request.prompt or "")[:MAX_ROW_CHARACTERS],
        model=model,
        forward=round(row.timings.forward, 4),
        attempts=row.attempts,
        notes=row.notes,
    )
    if row.error is not None:
        output.fault = f"{row.error.kind}: {row.error.message}"[:MAX_FAULT_CHARACTERS]
    if row.starts is not None:
        output.run, output.worker = run_numbers[row.starts.run], row.starts.worker or 0
        output.spans = tuple(_spans(row.starts, row.timings))
    return output


def _spans(starts: Starts, timings: Timings) -> Iterator[float]:
    phases = (
        (starts.forward, timings.forward),
        (starts.d2h, timings.d2h),
        (starts.encode, timings.encode),
        (starts.write, timings.write),
    )
    for start, length in phases:
        if start is not None:
            yield round(start - starts.run, 4)
            yield round(length, 4)


def _outputs_of(
    row: Result, root: Path, base: str, shared: ReportedOutput
) -> Iterator[tuple[ReportedOutput, OutputFile | None]]:
    """Yield an entry per file of `row`, or one for a request without files."""
    if not row.files:
        yield structs.replace(shared, seed=_seed(row, 0), row=prompt_row(row, None)), None
    for number, file in enumerate(row.files):
        output = structs.replace(
            shared,
            id=row.sample_id(number),
            seed=_seed(row, number),
            row=prompt_row(row, number),
            kind=_kind(file, row.request.format),
            path=file.path,
            url=f"{base}/{url_of(file.path)}",
            width=file.width,
            height=file.height,
            frames=file.frames,
            fps=file.fps,
            bytes=file.bytes,
        )
        fault = "leads out of the folder" if is_outside(file.path) else file_fault(root, file)
        if fault:
            output = structs.replace(output, fault=f"file {fault}", url="")
            output.status = "damaged" if row.status == "done" else row.status
        yield output, file


def is_outside(path: str) -> bool:
    """Return True if the POSIX `path` of a row is not one inside the output folder."""
    return path.startswith("/") or "\0" in path or ".." in PurePosixPath(path).parts


def _seed(row: Result, number: int) -> str:
    """Return the seed as text, as JavaScript rounds those above 2^53; "" without one."""
    return str(row.seeds[number]) if number < len(row.seeds) else ""


def prompt_row(row: Result, number: int | None) -> str:
    """Return a prompt file's row for output `number` alone, or for the whole request; "" if it is too long.

    It is one line, and every character of it prints.
    """
    request = row.request
    if number is not None:
        seed = row.seeds[number] if number < len(row.seeds) else request.seed
        request = structs.replace(request, id=row.sample_id(number), seed=seed, num_outputs=None, output=None)
    try:
        text = to_json(request).decode()
    except UnicodeEncodeError:
        return ""
    if len(text) > MAX_ROW_CHARACTERS:
        return ""
    return text if text.isprintable() else "".join(map(_visible_in_json, text))


def _visible_in_json(character: str) -> str:
    """Return a character of a JSON text, escaped if it does not print: what reorders text would hide what is copied."""
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _kind(file: OutputFile, format_name: str | None) -> OutputKind:
    if format_name == "frames":
        return "frames"
    suffix = PurePosixPath(file.path).suffix.lower()
    if suffix in VIDEOS:
        return "clip"
    if suffix in SOUNDS:
        return "sound"
    if suffix in (".png", ".jpg", ".jpeg", ".webp", ".avif", ".gif"):
        return "animation" if file.frames > 1 else "picture"
    return "data"
