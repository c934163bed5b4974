"""Measure every case and write the table of docs/pipelines.md: `python -m tests.pipelines.table`."""

import sys
import tempfile
from pathlib import Path

import diffusers
import torch
import transformers

from omni_cli.media import Kind
from tests import tiny
from tests.pipelines.cases import CASES, MORE, Case
from tests.pipelines.measure import Outcome, measure, write_inputs

DOCS = Path(__file__).parents[2] / "docs" / "pipelines.md"
BEGIN, END = "<!-- pipelines: python -m tests.pipelines.table -->", "<!-- /pipelines -->"
HEAD = ("| pipeline | model | makes | against diffusers | in a batch |", "|---|---|---|---|---|")

_MAKES = {Kind.IMAGE: "image", Kind.AUDIO: "sound"}


def row(case: Case, outcome: Outcome) -> str:
    """The case's line of the table."""
    clip = "clip" if outcome.track is None else "clip with sound"
    makes = _MAKES.get(outcome.kind) or f"{clip}, {outcome.fps:g} fps"
    batch = "one by one" if outcome.together is None else f"as alone, {_within(max(1.0, outcome.together))}"
    cells = (f"`{outcome.pipeline}`", case.of, makes, _alone(outcome), batch)
    return f"| {' | '.join(cells)} |"


def rows() -> list[str]:
    """The lines of the table as docs/pipelines.md has it, without its head."""
    text = DOCS.read_text(encoding="utf-8")
    return text.partition(BEGIN)[2].partition(END)[0].split("\n")[3:-1]


def write(lines: list[str]) -> None:
    """Put `lines` where the table stands."""
    before, _, rest = DOCS.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    DOCS.write_text("\n".join([before + BEGIN, *HEAD, *lines, END + after]), encoding="utf-8")


def _alone(outcome: Outcome) -> str:
    if outcome.alone == 0:
        return "samples equal" if outcome.kind is Kind.AUDIO else "bytes equal"
    return _within(outcome.alone)


def _within(levels: float) -> str:
    return "within one level" if levels <= 1 else f"within {levels:g} levels"


def main() -> None:
    """Measure every case and write the table."""
    torch.set_num_threads(1)
    for library in (diffusers, transformers):
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        for case in CASES + MORE:
            lines.append(row(case, measure(case, tiny.save(case.model, folder / case.model), folder)))
            sys.stderr.write(f"{lines[-1]}\n")
    write(lines)


if __name__ == "__main__":
    main()
