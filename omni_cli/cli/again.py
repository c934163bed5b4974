"""What `replay` and `verify` share: ordinary runs over prompts that were rendered before."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from omni_cli.api.again import Verdict, intact, prompt_lines, settings, verdicts
from omni_cli.api.recorded import Recorded, by_run
from omni_cli.cli.perform import perform
from omni_cli.config import ProgressMode, RunConfig
from omni_cli.journal import MANIFEST_NAME, read_rows
from omni_cli.view.text import printable


def render_again(
    samples: Sequence[Recorded],
    base: RunConfig,
    model: str | None,
    output_dir: Path,
    progress: ProgressMode,
    data: Literal["paths", "json"] | None = None,
) -> int:
    """Render `samples` into `output_dir`, a run for each model and its settings; the largest exit code."""
    code = 0
    for group in by_run(samples):
        with tempfile.NamedTemporaryFile(prefix="omni-gen-replay-", suffix=".jsonl") as prompts:
            prompts.write(prompt_lines(group))
            prompts.flush()
            chosen = settings(group, base, model, output_dir)
            code = max(code, perform(prompts.name, chosen, progress, data, None, None))
        if code >= 130:  # interrupted: the groups behind are not begun
            break
    return code


def judge(samples: Sequence[Recorded], folder: Path) -> Iterator[Verdict]:
    """The verdicts on `samples`, whose second renderings are in `folder`."""
    manifest = folder / MANIFEST_NAME
    rows = (
        {row.files[0].path if row.files else str(row.request.output): row for row in read_rows(manifest)}
        if manifest.exists()
        else {}
    )
    yield from verdicts(samples, rows, folder)


def sampled(samples: Sequence[Recorded], count: int | None, seed: int) -> list[Recorded]:
    """`count` of `samples`, drawn by `seed`, in their own order; all of them without a count."""
    if count is None or count >= len(samples):
        return list(samples)
    chosen = random.Random(seed).sample(range(len(samples)), count)
    return [samples[number] for number in sorted(chosen)]


def faulty(samples: Sequence[Recorded]) -> dict[str, Verdict]:
    """The samples whose files are gone or changed, by name."""
    found = ((sample.name, intact(sample)) for sample in samples)
    return {name: verdict for name, verdict in found if verdict is not None}


def line_of(verdict: Verdict) -> str:
    """`verdict` on one line that is safe to show."""
    detail = f": {verdict.detail}" if verdict.detail else ""
    why = f" [{'; '.join(verdict.why)}]" if verdict.why else ""
    return printable(f"{verdict.name}: {verdict.word}{detail}{why}")
