"""Finished outputs as requests that render them again, read from a file's metadata or from rows of a manifest.

an output file ── embedded document ──┐
               └─ its manifest's row ─┼──> RecordedSample: one sample with its seed ──> group_by_run ──> prompt lines
a manifest or its folder ── rows ─────┘
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from omni_cli.errors import UsageError
from omni_cli.journal import MANIFEST_NAME, has_manifest, read_rows
from omni_cli.planner.sanitize import split_extension
from omni_cli.request import GenerationRequest, InputRecord, ModelInfo, OutputFile, Provenance, Result
from omni_cli.text import quote
from omni_cli.writers.formats import ARRAYS, resolve_format
from omni_cli.writers.readback import read_document


@dataclass(frozen=True, slots=True)
class RecordedSample:
    """One sample of a finished request. `request` is complete: an explicit seed, one output, and its own `output` name.

    `name` is the path of its file as the manifest or the user writes it, `path` where the file is now. `file` is the
    row's description of the file; None if the sample comes from the file's own metadata. `inputs` are the records of
    its input files, empty in records of 0.1.0. With `has_local_model`, the id of `model` is only the base name of a
    folder or file.
    """

    request: GenerationRequest
    model: ModelInfo
    made: Provenance | None
    name: str
    path: Path
    file: OutputFile | None = None
    inputs: tuple[InputRecord, ...] = ()
    has_local_model: bool = False

    @property
    def model_location(self) -> str:
        """Where the model was loaded from: an absolute path, "demo", a hub id, or as the user spelled it."""
        return (self.made.model if self.made else "") or self.model.id

    @property
    def model_key(self) -> tuple[str, str | None, str, str, bytes, int | None]:
        """A key that is equal for samples of one model with the same tuning, computed by as many threads."""
        tuning = msgspec.json.encode(self.made.tuning if self.made else {}, order="deterministic")
        model = self.model
        return self.model_location, model.revision, model.pipeline, model.dtype, tuning, self.threads

    @property
    def threads(self) -> int | None:
        """The intra-op threads that computed it, None if it was an accelerator or is not recorded."""
        return self.made.threads if self.made else None

    @property
    def encoding(self) -> dict[str, Any]:
        """The settings of its encoder that change pixels; empty if it had none."""
        encoding = self.made.encoding if self.made else {}
        return {"float_arrays": False, **encoding} if self.request.format in ARRAYS else encoding


class _EmbeddedModel(ModelInfo, frozen=True, kw_only=True):
    """The model of an embedded document. If it is `local`, its id is a base name."""

    local: bool = False


class _Document(msgspec.Struct):
    """The fields of an embedded document that a second rendering needs."""

    request: GenerationRequest
    model: _EmbeddedModel
    made: Provenance | None = None
    inputs: tuple[InputRecord, ...] = ()


def read_samples(path: Path, ids: Collection[str] = ()) -> list[RecordedSample]:
    """Read the samples that `path` records: an output (file or folder of frames), a manifest, or a folder with one.

    With `ids`, only those rows of a manifest. Raises UsageError, naming what is missing, if there is nothing to render
    again.
    """
    if has_manifest(path):
        return _from_manifest(path / MANIFEST_NAME, ids)
    if not path.exists():
        raise UsageError(f"{quote(str(path))}: no such file")
    if path.suffix == ".jsonl":
        return _from_manifest(path, ids)
    if ids:
        raise UsageError(f"--id: selects rows of a manifest, and {quote(str(path))} is an output; leave it out")
    return [_from_output(path)]


def _from_manifest(path: Path, ids: Collection[str]) -> list[RecordedSample]:
    missing = dict.fromkeys(ids)
    samples: list[RecordedSample] = []
    for row in read_rows(path):
        if ids and row.id not in missing:
            continue
        missing.pop(row.id, None)
        samples += _samples_of(row, path.parent)
    if missing:
        raise UsageError(f"{quote(str(path))} has no row of {', '.join(quote(name) for name in missing)}")
    if not samples:
        raise UsageError(f"{quote(str(path))} has no finished request")
    return samples


def _samples_of(row: Result, folder: Path) -> Iterator[RecordedSample]:
    """Yield each sample of a finished row as a request of its own; nothing for any other row."""
    if row.status != "done":
        return
    for number, (seed, file) in enumerate(zip(row.seeds, row.files, strict=False)):
        request = structs.replace(
            row.request, id=row.sample_id(number), model=None, seed=seed, num_outputs=1, output=file.path
        )
        yield RecordedSample(request, row.model, row.made, file.path, folder / file.path, file, row.inputs)


def _from_output(path: Path) -> RecordedSample:
    """Read the document that the file carries, or else the row of a manifest in one of the folders above it."""
    try:
        document = read_document(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{quote(str(path))} cannot be read: {error}") from error
    if document is not None:
        try:
            recorded = msgspec.convert(document, _Document, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"{quote(str(path))}: its document is not one of this version: {error}") from error
        request = structs.replace(
            recorded.request,
            id=recorded.request.id or path.stem,
            model=None,
            num_outputs=1,
            output=_output_name(path, recorded.request.format),
        )
        info = ModelInfo(**{name: getattr(recorded.model, name) for name in ModelInfo.__struct_fields__})
        return RecordedSample(
            request, info, recorded.made, path.name, path, inputs=recorded.inputs, has_local_model=recorded.model.local
        )
    for folder in path.absolute().parents:
        name = path.absolute().relative_to(folder).as_posix()
        rows = read_rows(folder / MANIFEST_NAME) if has_manifest(folder) else ()
        for sample in (sample for row in rows for sample in _samples_of(row, folder) if sample.name == name):
            request = structs.replace(sample.request, output=path.name)
            return replace(sample, request=request, name=path.name)
    raise UsageError(
        f"{quote(str(path))}: carries no document of omni-gen (only PNG, GIF and video do; --no-metadata omits it),"
        f" and no {MANIFEST_NAME} in the folders above has a row for it"
    )


def _output_name(path: Path, form: str | None) -> str:
    """Return the file's name, with the extension of its format `form` if it was put into another container since."""
    try:
        recorded = resolve_format(form or "")
        current = split_extension(path.name)[1]
        if not current or resolve_format(current).extension == recorded.extension:
            return path.name
    except UsageError:  # a format that is not known here: the check of the request names it
        return path.name
    return path.stem + recorded.extension


def group_by_run(samples: Iterable[RecordedSample]) -> list[list[RecordedSample]]:
    """Split `samples` into groups that one run each can render: one `model_key`, and one value per encoder setting."""
    by_model: dict[Any, list[list[RecordedSample]]] = {}
    for sample in samples:
        groups = by_model.setdefault(sample.model_key, [])
        for group in groups:
            merged = merged_encoding(group)
            if all(merged.get(name, value) == value for name, value in sample.encoding.items()):
                group.append(sample)
                break
        else:
            groups.append([sample])
    return [group for groups in by_model.values() for group in groups]


def merged_encoding(group: Iterable[RecordedSample]) -> dict[str, Any]:
    """Return the encoder settings of a group of `group_by_run`, whose samples agree on each."""
    return {name: value for sample in group for name, value in sample.encoding.items()}
