"""What was rendered before, as requests that render it again: from a file's own metadata, or from rows of a manifest.

a file of ours ── embedded document ──┐
               └─ its manifest's row ─┼──> Recorded: one sample, its seed said ──> prompt lines, grouped by model
a manifest or its folder ── rows ─────┘
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from omni_cli.errors import UsageError
from omni_cli.journal import MANIFEST_NAME, read_rows
from omni_cli.prompts.shown import quoted
from omni_cli.request import GenerationRequest, Made, ModelInfo, OutputFile, Result
from omni_cli.writers.readback import document_of


@dataclass(frozen=True, slots=True)
class Recorded:
    """One sample of a request that was done. `request` says everything: its seed, an `output` of its own, one output.

    `name` is the path of its file as the manifest or the user has it, `path` where that file is; `file` is the row's word on it,
    None where only the file itself spoke.
    """

    request: GenerationRequest
    model: ModelInfo
    made: Made | None
    name: str
    path: Path
    file: OutputFile | None = None

    @property
    def key(self) -> tuple[ModelInfo, bytes]:
        """Equal for samples of one model, loaded the same way."""
        tuning = self.made.tuning if self.made else {}
        return self.model, msgspec.json.encode(tuning, order="deterministic")

    @property
    def encoding(self) -> dict[str, Any]:
        """The settings of its lossy encoder, if it had one."""
        return self.made.encoding if self.made else {}


class _Document(msgspec.Struct):
    """What of an embedded document is used."""

    request: GenerationRequest
    model: ModelInfo
    made: Made | None = None


def recorded(path: Path, ids: Collection[str] = ()) -> list[Recorded]:
    """Everything that `path` records: an output (file or folder of frames), a manifest, or a folder with one; only `ids` of it, if any.

    Raises UsageError if there is nothing that can be rendered again, naming what is missing.
    """
    if (path / MANIFEST_NAME).is_file():
        path = path / MANIFEST_NAME
    if not path.exists():
        raise UsageError(f"{quoted(str(path))}: no such file")
    if path.suffix == ".jsonl":
        return _of_manifest(path, ids)
    if ids:
        raise UsageError("--id: picks rows of a manifest; a file is one sample")
    return [_of_file(path)]


def _of_manifest(path: Path, ids: Collection[str]) -> list[Recorded]:
    missing = dict.fromkeys(ids)
    found: list[Recorded] = []
    for row in read_rows(path):
        if ids and row.id not in missing:
            continue
        missing.pop(row.id, None)
        found += samples_of(row, path.parent)
    if missing:
        raise UsageError(f"{quoted(str(path))} has no row of {', '.join(quoted(name) for name in missing)}")
    if not found:
        raise UsageError(f"{quoted(str(path))} has no request that was done")
    return found


def samples_of(row: Result, folder: Path) -> Iterator[Recorded]:
    """The samples of a row, each a request of its own; none if it was not done."""
    if row.status != "done":
        return
    for number, (seed, file) in enumerate(zip(row.seeds, row.files, strict=False)):
        name = row.id if len(row.files) == 1 else f"{row.id}-{number}"
        request = structs.replace(row.request, id=name, model=None, seed=seed, num_outputs=1, output=file.path)
        yield Recorded(request, row.model, row.made, file.path, folder / file.path, file)


def _of_file(path: Path) -> Recorded:
    """By the document that the file carries, else by the row of a manifest in one of the folders above it."""
    try:
        document = document_of(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{quoted(str(path))} cannot be read: {error}") from error
    if document is not None:
        return _of_document(path, document)
    for folder in path.absolute().parents:
        if (folder / MANIFEST_NAME).is_file():
            name = path.absolute().relative_to(folder).as_posix()
            for row in read_rows(folder / MANIFEST_NAME):
                for sample in samples_of(row, folder):
                    if sample.name == name:
                        request = structs.replace(sample.request, output=path.name)
                        return replace(sample, request=request, name=path.name)
    raise UsageError(
        f"{quoted(str(path))}: carries no document of omni-gen (only PNG, GIF and video do; --no-metadata leaves it out), "
        f"and no {MANIFEST_NAME} in the folders above has a row for it"
    )


def _of_document(path: Path, document: dict[str, Any]) -> Recorded:
    try:
        found = msgspec.convert(document, _Document)
    except msgspec.ValidationError as error:
        raise UsageError(f"{quoted(str(path))}: the document in it is not one of this version: {error}") from error
    request = structs.replace(found.request, model=None, num_outputs=1, output=path.name)
    return Recorded(request, found.model, found.made, path.name, path)


def by_run(samples: Iterable[Recorded]) -> list[list[Recorded]]:
    """`samples` in groups that one run each can render: one model, and no two values for a setting of an encoder."""
    groups: dict[tuple[ModelInfo, bytes], list[list[Recorded]]] = {}
    for sample in samples:
        alike = groups.setdefault(sample.key, [])
        fitting = next((group for group in alike if _agree(encoding_of(group), sample.encoding)), None)
        if fitting is None:
            alike.append([sample])
        else:
            fitting.append(sample)
    return [group for alike in groups.values() for group in alike]


def encoding_of(group: Iterable[Recorded]) -> dict[str, Any]:
    """The settings of the encoders of a group that `by_run` made."""
    return {name: value for sample in group for name, value in sample.encoding.items()}


def _agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[name] == value for name, value in other.items() if name in one)
