"""Rendering recorded samples again, and comparing the second result with the first.

samples ── group_by_run ──> rerun_config + requests ── an ordinary run ──> files and rows ── compare ──> Comparison
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from omni_cli.api.recorded import RecordedSample, merged_encoding
from omni_cli.config import OutputConfig, RunConfig, Tuning
from omni_cli.errors import UsageError
from omni_cli.journal import MANIFEST_NAME, is_intact, read_rows
from omni_cli.models.registry import DEMO
from omni_cli.request import Provenance, Result
from omni_cli.storage.user_path import expand_user
from omni_cli.writers.readback import difference

EXACT = "bit-exact"
CLOSE = "within one level"
DIFFERENT = "different"
CHANGED = "changed since"
MISSING = "missing"
FAILED = "not rendered"


class Comparison(msgspec.Struct, frozen=True, rename={"outcome": "word", "changes": "why"}):
    """The outcome of rendering one sample again; `changes` are the differences between the two environments."""

    name: str
    outcome: str
    detail: str = ""
    changes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the pixels equal those of the first rendering, or differ by at most one level."""
        return self.outcome in (EXACT, CLOSE)

    def __str__(self) -> str:
        """Return one line for people."""
        detail = f": {self.detail}" if self.detail else ""
        changes = f" [{'; '.join(self.changes)}]" if self.changes else ""
        return f"{self.name}: {self.outcome}{detail}{changes}"


def draw_samples(samples: Sequence[RecordedSample], count: int | None, seed: int) -> list[RecordedSample]:
    """Choose `count` of `samples` with `seed`, in their original order; all of them if `count` is None or larger."""
    if count is None or count >= len(samples):
        return list(samples)
    chosen = random.Random(seed).sample(range(len(samples)), count)
    return [samples[number] for number in sorted(chosen)]


def rerun_config(samples: Sequence[RecordedSample], base: RunConfig, model: str | None, output_dir: Path) -> RunConfig:
    """Return the settings of a run that renders `samples`, a group of `group_by_run`, again.

    `model` is where the model is now (None: as recorded). `base` holds the other settings: device, workers. Raises
    UsageError if the record holds settings that this version does not know.
    """
    first = samples[0]
    made = first.made or Provenance()
    try:
        tuning = msgspec.convert(made.tuning, Tuning)
        output = msgspec.convert({**msgspec.to_builtins(base.output), **merged_encoding(samples)}, OutputConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{first.name}: recorded with settings that this version does not know: {error}") from error
    name = model or first.model_location
    on_hub = name != DEMO and not expand_user(name).exists()
    threads = base.engine.threads or first.threads
    return structs.replace(
        base,
        engine=structs.replace(base.engine, threads=threads),
        model=structs.replace(
            base.model,
            model=name,
            revision=first.model.revision if on_hub else None,
            dtype=first.model.dtype if base.model.dtype == "auto" else base.model.dtype,
            tuning=structs.replace(tuning, offload=base.model.tuning.offload),
        ),
        output=structs.replace(output, output_dir=str(output_dir)),
    )


def check_recorded_file(sample: RecordedSample) -> Comparison | None:
    """Return None if the sample's file is intact, or how it is not: missing, or changed since it was recorded."""
    if not sample.path.exists():
        return Comparison(sample.name, MISSING, f"{sample.path} does not exist")
    if sample.file is not None and not is_intact(
        sample.path.parent, structs.replace(sample.file, path=sample.path.name)
    ):
        return Comparison(sample.name, CHANGED, "its size or SHA-256 is not that of the manifest")
    return None


def compare_all(samples: Sequence[RecordedSample], folder: Path) -> Iterator[Comparison]:
    """Compare each of `samples` with its second rendering in `folder`, found by the rows of the manifest there."""
    manifest = folder / MANIFEST_NAME
    rows: dict[str, Result] = {}
    if manifest.exists():
        rows = {str(row.request.output): row for row in read_rows(manifest)}
    for sample in samples:
        row = rows.get(str(sample.request.output))
        if row is None or row.status != "done":
            reason = row.error.message if row and row.error else "the run ended before it"
            yield Comparison(sample.name, FAILED, reason)
        else:
            yield compare(sample, row, folder / row.files[0].path)


def compare(sample: RecordedSample, row: Result, path: Path) -> Comparison:
    """Compare the pixels of `sample`'s file with those in `path`, its second rendering, which `row` describes."""
    changes = tuple(environment_changes(sample, row))
    measured = difference(sample.path, path)
    frames = f"{measured.frames} frame{'' if measured.frames == 1 else 's'}"
    if measured.levels == 0:
        return Comparison(sample.name, EXACT, frames, changes)
    if measured.levels > 255:
        return Comparison(sample.name, DIFFERENT, "another size or number of frames", changes)
    outcome = CLOSE if measured.levels == 1 else DIFFERENT
    return Comparison(sample.name, outcome, f"at most {measured.levels} of 255 levels apart, {frames}", changes)


def environment_changes(sample: RecordedSample, row: Result) -> Iterator[str]:
    """Yield the differences between the recorded and the current environment: model, dtype, device, packages."""
    then, now = structs.asdict(sample.model), structs.asdict(row.model)
    is_same_content = sample.model.revision is not None and sample.model.revision == row.model.revision
    pairs = [(f"model {name}", then[name], now[name]) for name in then if not (name == "id" and is_same_content)]
    if sample.made is not None and row.made is not None:
        old, new = sample.made.versions, row.made.versions
        pairs.append(("device", sample.made.device, row.made.device))
        if sample.threads and row.made.threads:
            pairs.append(("threads", sample.threads, row.made.threads))
        pairs += [(package, old.get(package), new.get(package)) for package in sorted({*old, *new})]
    for name, recorded, current in pairs:
        if recorded != current:
            yield f"{name}: {recorded or 'none'} → {current or 'none'}"
