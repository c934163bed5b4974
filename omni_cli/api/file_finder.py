"""Find the files of recorded samples again, wherever they are now: inputs by their SHA-256, models by their revision.

recorded path ─> beside the output ─> working folder ─> --input-dir ─> paths in manifests above the output ─┐
                                                          any other name, same size, in these folders <─────┘

A file of another content never counts. Records of 0.1.0 have paths without hashes: such a file is taken from its
recorded path, or by its base name from --input-dir alone.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import structs

from omni_cli.api.recorded import RecordedSample
from omni_cli.errors import Diagnostic, PromptFileError
from omni_cli.inputs import InputFile, InputKind, base_name, input_files, with_paths
from omni_cli.journal import MANIFEST_NAME, has_manifest, read_rows
from omni_cli.models.content_revision import content_revision
from omni_cli.models.model_files import CONFIG
from omni_cli.models.registry import INDEX
from omni_cli.request import InputRecord, Provenance
from omni_cli.storage.digest import InputDigests
from omni_cli.storage.user_path import expand_user
from omni_cli.text import escape, quote

_REMEDY = "give the folder that holds it with --input-dir"


@dataclass(frozen=True, slots=True)
class _ManifestPaths:
    """The paths that the rows of one manifest name: inputs by SHA-256 and by base name, models by base name."""

    by_hash: dict[str, list[str]] = field(default_factory=dict)
    by_name: dict[str, list[str]] = field(default_factory=dict)
    models: dict[str, list[str]] = field(default_factory=dict)


class FileFinder:
    """Finds files of any number of samples; each file is hashed once."""

    def __init__(self, input_dirs: Sequence[Path] = ()) -> None:
        """Search the user's `input_dirs`, folders in them included, besides the places that the samples suggest."""
        self._input_dirs = tuple(map(expand_user, input_dirs))
        self._digests = InputDigests()
        self._manifests: dict[Path, _ManifestPaths] = {}
        self._revisions: dict[Path, str] = {}

    def locate(self, sample: RecordedSample, *, model: bool = True) -> tuple[RecordedSample, list[Diagnostic]]:
        """Return `sample` with the paths where its files are now, and a problem for each that is not found.

        With `model=False`, its model is not searched.
        """
        problems: list[Diagnostic] = []
        files = input_files(sample.request)
        has_records = len(sample.inputs) == len(files)
        records = iter(sample.inputs if has_records else [None] * len(files))

        def locate_input(file: InputFile) -> str:
            path, problem = self._locate_input(sample, file, next(records))
            if problem is not None:
                problems.append(problem)
            return path

        sample = replace(sample, request=with_paths(sample.request, locate_input))
        made, model_problems = self._locate_model(sample) if model else (sample.made, [])
        return replace(sample, made=made), problems + model_problems

    def locate_all(self, samples: Sequence[RecordedSample], *, model: bool = True) -> list[RecordedSample]:
        """Return `samples` as `locate` does. Raises PromptFileError with every file that is not found."""
        located = [self.locate(sample, model=model) for sample in samples]
        problems = list(dict.fromkeys(problem for _, found in located for problem in found))
        if problems:
            raise PromptFileError(problems)
        return [sample for sample, _ in located]

    def _locate_input(
        self, sample: RecordedSample, file: InputFile, record: InputRecord | None
    ) -> tuple[str, Diagnostic | None]:
        """Return where `file` is now, and a problem if it is nowhere."""
        is_path = Path(file.path).is_absolute()
        if not is_path and file.kind is InputKind.LORA and (record is None or record.sha256 is None):
            return file.path, None  # an id on a hub
        if record is None or record.sha256 is None:
            named = [Path(file.path)] if is_path else []
            named += [folder / name for folder in self._input_dirs if (name := _safe_name(base_name(file.path)))]
            path = next((path for path in named if os.path.lexists(path)), None)
            if path is not None:
                return str(path.absolute()), None
            cause = f"{quote(file.path, 200)} is not there, and its hash is not recorded"
            remedy = "put it back, or give the folder of a file of that name with --input-dir"
            return file.path, _problem(sample, file.name, cause, remedy)
        for path in self._candidates(sample, file.path, record):
            if self._has_hash(path, record.sha256):
                return str(path.absolute()), None
        changed = "; the file at its recorded path is another one now" if is_path and Path(file.path).exists() else ""
        places = "beside the output, in the working folder, or where a manifest above names it"
        cause = f"{quote(record.name, 200)} (SHA-256 {escape(record.sha256[:64])}) is not found {places}{changed}"
        return file.path, _problem(sample, file.name, cause, _REMEDY)

    def _candidates(self, sample: RecordedSample, path: str, record: InputRecord) -> Iterator[Path]:
        """Yield the paths where the file of `record` may be, the likely and cheap ones first."""
        name, sha256 = _safe_name(record.name), record.sha256 or ""
        if Path(path).is_absolute():
            yield Path(path)
        folders = self._folders(sample)
        if name:
            yield from (folder / name for folder in folders)
        for manifest in self._manifests_above(sample.path):
            yield from map(Path, chain(manifest.by_hash.get(sha256, ()), manifest.by_name.get(record.name, ())))
        if record.bytes is not None:
            for folder in folders:
                yield from _files_of_size(folder, record.bytes, recursive=folder in self._input_dirs)

    def _has_hash(self, path: Path, sha256: str) -> bool:
        try:
            return (path.is_file() or path.is_dir()) and self._digests.digest(str(path.absolute())) == sha256
        except (OSError, ValueError):  # ValueError: a NUL in a name
            return False

    def _locate_model(self, sample: RecordedSample) -> tuple[Provenance | None, list[Diagnostic]]:
        """Return the provenance with the paths where model and component files are now, and what is not found."""
        made, problems = sample.made or Provenance(), []
        revision = sample.model.revision
        location = made.model or sample.model.id
        if (sample.has_local_model or Path(location).is_absolute()) and not _exists(location):
            path = self._find_model(sample, base_name(location), revision and revision.split("+")[0])
            if path is None:
                cause = f"{_named_model(location, revision)} is not found"
                problems.append(_problem(sample, "model", cause, "give its folder or file with --model"))
            else:
                made = structs.replace(made, model=str(path.absolute()))
        components: dict[str, Any] = dict(made.tuning.get("components", {}))
        revisions = (revision or "").split("+")[-len(components) :]
        for (name, file), part in zip(sorted(components.items()), revisions, strict=False):
            if not _exists(file):
                path = self._find_model(sample, base_name(file), part or None)
                if path is None:
                    problems.append(_problem(sample, name, f"{_named_model(file, part)} is not found", _REMEDY))
                else:
                    components[name] = str(path.absolute())
        if components:
            made = structs.replace(made, tuning={**made.tuning, "components": components})
        return (sample.made if made == Provenance() else made), problems

    def _find_model(self, sample: RecordedSample, name: str, revision: str | None) -> Path | None:
        """Return the folder or file called `name` that has this revision, if one is given; None if there is none."""
        manifests = self._manifests_above(sample.path)
        candidates = [Path(path) for manifest in manifests for path in manifest.models.get(name, ())]
        if safe := _safe_name(name):
            candidates += [folder / safe for folder in self._folders(sample)]
        for path in candidates:
            is_model = path.is_file() or (path / INDEX).is_file() or (path / CONFIG).is_file()
            if path.exists() if revision is None else is_model and self._revision(path) == revision:
                return path
        return None

    def _revision(self, path: Path) -> str:
        if path not in self._revisions:
            try:
                self._revisions[path] = content_revision(path.absolute())
            except OSError:
                return ""
        return self._revisions[path]

    def _folders(self, sample: RecordedSample) -> list[Path]:
        """Return the folders to search: that of the output, the working folder, and the user's."""
        return list(dict.fromkeys((sample.path.absolute().parent, Path.cwd(), *self._input_dirs)))

    def _manifests_above(self, path: Path) -> Iterator[_ManifestPaths]:
        """Yield the paths named by each manifest in a folder above `path`, the nearest first."""
        for folder in path.absolute().parents:
            if folder not in self._manifests:
                found = has_manifest(folder)
                self._manifests[folder] = _paths_of(folder / MANIFEST_NAME) if found else _ManifestPaths()
            yield self._manifests[folder]


def _paths_of(manifest: Path) -> _ManifestPaths:
    """Collect the paths of inputs and models of all rows."""
    paths = _ManifestPaths()
    for row in read_rows(manifest):
        if row.made is not None and Path(row.made.model).is_absolute():
            _add(paths.models, base_name(row.made.model), row.made.model)
        files = input_files(row.request)
        for file in files:
            if Path(file.path).is_absolute():
                _add(paths.by_name, base_name(file.path), file.path)
        for file, record in zip(files, row.inputs, strict=False):
            if record.sha256 is not None and Path(file.path).is_absolute():
                _add(paths.by_hash, record.sha256, file.path)
    return paths


def _add(paths: dict[str, list[str]], key: str, path: str) -> None:
    known = paths.setdefault(key, [])
    if path not in known:
        known.append(path)


def _files_of_size(folder: Path, size: int, *, recursive: bool) -> Iterator[Path]:
    """Yield the plain files of `size` bytes in `folder`, in the order of their names."""
    try:
        paths = sorted(folder.rglob("*") if recursive else folder.iterdir())
    except OSError:
        return
    for path in paths:
        try:
            if path.is_file() and path.stat().st_size == size:
                yield path
        except OSError:
            continue


def _exists(path: str) -> bool:
    """Return True if `path` is absolute and there."""
    return Path(path).is_absolute() and os.path.lexists(path)


def _safe_name(name: str) -> str:
    """Return `name` if it is one part of a path, else "": a record may come from anyone."""
    return name if Path(name).name == name and name not in ("", "..") and "\0" not in name else ""


def _named_model(location: str, revision: str | None) -> str:
    content = f" (revision {escape(revision)})" if revision else ""
    return f"{quote(location, 200)}{content}"


def _problem(sample: RecordedSample, place: str, cause: str, remedy: str) -> Diagnostic:
    return Diagnostic(cause, remedy, field=place, source=escape(str(sample.path)))
