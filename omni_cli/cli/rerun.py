"""The work of `replay` and `verify`: ordinary runs that render recorded samples again."""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from omni_cli.api.file_finder import FileFinder
from omni_cli.api.recorded import RecordedSample, group_by_run, read_samples
from omni_cli.api.rerender import (
    FAILED,
    Comparison,
    check_recorded_file,
    compare_all,
    draw_samples,
    rerun_config,
)
from omni_cli.cli.run_with_view import run_with_view
from omni_cli.config import ProgressMode, RunConfig
from omni_cli.errors import RunCutShort, UsageError
from omni_cli.prompts.object_source import ObjectSource

INTERRUPTED = 129
"""The lowest exit code of a run that a signal ended."""


def rerun(
    samples: Sequence[RecordedSample],
    base: RunConfig,
    model: str | None,
    output_dir: Path,
    progress: ProgressMode,
    data: Literal["paths", "json"] | None = None,
) -> int:
    """Render `samples` into `output_dir`, one run per model and settings; return the largest exit code.

    `model` is where the model is now (None: as recorded). An interrupted run is the last one. Raises RunCutShort if a
    run after the first cannot use its samples, and other kinds of OmniGenError. Problems of requests are placed at the
    outputs that record them.
    """
    code, rendered = 0, 0
    for group in group_by_run(samples):
        try:
            config = rerun_config(group, base, model, output_dir)
            source = ObjectSource(((str(sample.path), sample.request) for sample in group), config.defaults)
            code = max(code, run_with_view(source, config, progress, data))
        except UsageError as error:
            if not rendered:
                raise
            counts = f"{rendered} of {len(samples)} samples were rendered before, into {str(output_dir)!r}"
            raise RunCutShort(f"{error}\n{counts}") from error
        rendered += len(group)
        if code >= INTERRUPTED:
            break
    return code


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of `verify`: how many files are recorded, those missing or changed, and the second renderings."""

    recorded: int
    damaged: list[Comparison]
    compared: list[Comparison]
    exit_code: int

    @property
    def summary(self) -> str:
        """One line for people."""
        same = sum(comparison.same for comparison in self.compared)
        return (
            f"{self.recorded} files, {len(self.damaged)} missing or changed;"
            f" {same} of {len(self.compared)} rendered again are the same"
        )


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Make a folder that is removed after the block. Raises UsageError if there is no place for it."""
    try:
        temporary = tempfile.TemporaryDirectory(prefix="omni-gen-verify-")
    except OSError as error:
        reason = error.strerror or error
        advice = "name one with --keep, or set TMPDIR"
        raise UsageError(f"there is no folder for the second renderings: {reason}; {advice}") from error
    with temporary as name:
        yield Path(name)


def verify_outputs(
    outputs: Path,
    ids: Collection[str],
    count: int | None,
    seed: int,
    base: RunConfig,
    model: str | None,
    keep: Path | None,
    progress: ProgressMode,
    input_dirs: Sequence[Path] = (),
) -> Verification:
    """Check the files of a manifest, render `count` of the intact ones again, and compare pixels.

    `seed` chooses the sample, `keep` is the folder of the second renderings (None: a temporary one). Inputs that have
    moved are searched in `input_dirs`, too. The exit code is 1 if a file is damaged, cannot be rendered for want of an
    input or is rendered differently, or that of the signal that interrupted the run. Raises OmniGenError.
    """
    samples = read_samples(outputs, ids)
    checked = [(sample, check_recorded_file(sample)) for sample in samples]
    damaged = [problem for _, problem in checked if problem is not None]
    chosen = draw_samples([sample for sample, problem in checked if problem is None], count, seed)
    with _temporary_folder() if keep is None else nullcontext(keep) as folder:
        finder = FileFinder(input_dirs)
        located = [finder.locate(sample, model=model is None) for sample in chosen]
        complete = [sample for sample, problems in located if not problems]
        code = rerun(complete, base, model, folder, progress) if complete else 0
        if code >= INTERRUPTED:
            return Verification(len(samples), damaged, [], code)
        compared = [
            Comparison(sample.name, FAILED, "; ".join(str(replace(problem, source="")) for problem in problems))
            for sample, problems in located
            if problems
        ]
        compared += compare_all(complete, folder)
    same = not damaged and all(comparison.same for comparison in compared)
    return Verification(len(samples), damaged, compared, 0 if same else 1)
