"""Rendering again what is recorded, and saying how the second result relates to the first.

samples ── by_run ──> settings + prompt lines ── an ordinary run ──> files and rows ── compared ──> Verdict
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import structs

from omni_cli.api.recorded import Recorded, encoding_of
from omni_cli.config import OutputConfig, RunConfig, Tuning
from omni_cli.errors import UsageError
from omni_cli.journal import is_intact
from omni_cli.models.registry import DEMO
from omni_cli.request import Made, Result
from omni_cli.writers.readback import difference

EXACT, CLOSE, DIFFERENT, CHANGED, MISSING, FAILED = (
    "bit-exact",
    "within one level",
    "different",
    "changed since",
    "missing",
    "not rendered",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a second rendering of one sample came out. `why` names what differs between then and now, if anything does."""

    name: str
    word: str
    detail: str = ""
    why: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """True if the pixels are those of the first rendering, or at most one level away."""
        return self.word in (EXACT, CLOSE)


def settings(samples: Sequence[Recorded], base: RunConfig, model: str | None, output_dir: Path) -> RunConfig:
    """The settings of a run that renders `samples`, a group of `by_run`; `model` is where it is now, if elsewhere.

    `base` says how it is run (device, workers). Raises UsageError if the record holds settings that this version does not know.
    """
    first = samples[0]
    made = first.made or Made()
    try:
        tuning = msgspec.convert(made.tuning, Tuning)
        output = msgspec.convert({**msgspec.to_builtins(base.output), **encoding_of(samples)}, OutputConfig)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{first.name}: was rendered with settings that this version does not know: {error}"
        ) from error
    named = model or made.model or first.model.id
    on_hub = named != DEMO and not Path(named).expanduser().exists()
    return structs.replace(
        base,
        model=structs.replace(
            base.model,
            model=named,
            revision=first.model.revision if on_hub else None,
            dtype=first.model.dtype if base.model.dtype == "auto" else base.model.dtype,
            tuning=structs.replace(tuning, offload=base.model.tuning.offload),
        ),
        output=structs.replace(output, output_dir=str(output_dir)),
    )


def prompt_lines(samples: Sequence[Recorded]) -> bytes:
    """`samples` as a JSONL prompt file."""
    return b"".join(msgspec.json.encode(sample.request) + b"\n" for sample in samples)


def verdicts(samples: Sequence[Recorded], rows: Mapping[str, Result], folder: Path) -> Iterator[Verdict]:
    """The verdict on each sample, from the `rows` by file name and the files in `folder` of its second rendering."""
    for sample in samples:
        row = rows.get(str(sample.request.output))
        if row is None or row.status != "done":
            reason = row.error.message if row and row.error else "the run ended before it"
            yield Verdict(sample.name, FAILED, reason)
        else:
            yield compared(sample, row, folder / row.files[0].path)


def intact(sample: Recorded) -> Verdict | None:
    """None if the file is what its row says, else what is wrong with it."""
    if not sample.path.exists():
        return Verdict(sample.name, MISSING, f"{sample.path} is not there")
    if sample.file is not None and not is_intact(
        sample.path.parent, structs.replace(sample.file, path=sample.path.name)
    ):
        return Verdict(sample.name, CHANGED, "the file is not the one that the manifest describes (size or SHA-256)")
    return None


def compared(sample: Recorded, row: Result, path: Path) -> Verdict:
    """The pixels of `sample`'s file against those in `path`, the second rendering, which `row` describes."""
    why = tuple(differences(sample, row))
    found = difference(sample.path, path)
    if found.levels == 0:
        return Verdict(sample.name, EXACT, _frames(found.frames), why)
    if found.levels > 255:
        return Verdict(sample.name, DIFFERENT, "another size or number of frames", why)
    word = CLOSE if found.levels == 1 else DIFFERENT
    return Verdict(sample.name, word, f"at most {found.levels} of 255 levels apart, {_frames(found.frames)}", why)


def differences(sample: Recorded, row: Result) -> Iterator[str]:
    """What was another then than now: model, dtype, device, packages."""
    model_then, model_now = structs.asdict(sample.model), structs.asdict(row.model)
    for name in model_then:
        yield from _changed(f"model {name}", model_then[name], model_now[name])
    then, now = sample.made, row.made
    if then is None or now is None:
        return
    yield from _changed("device", then.device, now.device)
    for package in sorted({*then.versions, *now.versions}):
        yield from _changed(package, then.versions.get(package), now.versions.get(package))


def _changed(what: str, then: str | None, now: str | None) -> Iterator[str]:
    if then != now:
        yield f"{what}: {then or 'none'} → {now or 'none'}"


def _frames(count: int) -> str:
    return f"{count} frame{'' if count == 1 else 's'}"
