"""Two folders side by side: which output of one is which of the other, and how their pixels and times differ.

Outputs of two runs of one list have equal ids. Where the list or its ids have changed, what the request says decides:
prompt and seed, then the prompt alone, in the order of the rows.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import msgspec

from omni_cli.cores import usable_cores
from omni_cli.journal import is_intact
from omni_cli.log import logger
from omni_cli.report.reported_outputs import ReportedFolder, ReportedOutput
from omni_cli.report.thumbnails import OnProgress
from omni_cli.request import OutputFile
from omni_cli.writers.readback import Difference, difference

MatchedBy = Literal["id", "prompt and seed", "prompt"]


class OutputPair(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An output of the first folder and one of the second, by their indexes; None if there is no counterpart.

    `levels` is the largest difference of decoded values (0..255, 256 for another shape), `mean` the mean one; None if
    they cannot be compared, for the reason `fault`. `ratio` is the forward of the second over that of the first.
    """

    first: int | None
    second: int | None
    by: MatchedBy | None = None
    levels: int | None = None
    mean: float | None = None
    fault: str = ""
    ratio: float | None = None


def pair_outputs(first: Sequence[ReportedOutput], second: Sequence[ReportedOutput]) -> list[OutputPair]:
    """Match the outputs of two folders one to one; those without a counterpart come last."""
    left, right = list(range(len(first))), list(range(len(second)))
    pairs: list[OutputPair] = []
    rules: tuple[tuple[MatchedBy, Callable[[ReportedOutput], Hashable]], ...] = (
        ("id", lambda output: output.id),
        ("prompt and seed", lambda output: (output.prompt, output.seed) if output.prompt else None),
        ("prompt", lambda output: output.prompt or None),
    )
    for by, key_of in rules:
        waiting: dict[Hashable, list[int]] = {}
        for number in reversed(right):
            waiting.setdefault(key_of(second[number]), []).append(number)
        waiting.pop(None, None)
        found: dict[int, int] = {}
        for number in left:
            if candidates := waiting.get(key_of(first[number])):
                found[number] = candidates.pop()
        pairs += [OutputPair(first=one, second=other, by=by) for one, other in found.items()]
        taken = set(found.values())
        left = [number for number in left if number not in found]
        right = [number for number in right if number not in taken]
    pairs.sort(key=lambda pair: pair.first or 0)
    for pair in pairs:
        assert pair.first is not None
        assert pair.second is not None
        one, other = first[pair.first].forward, second[pair.second].forward
        pair.ratio = round(other / one, 4) if one > 0 and other > 0 else None
    pairs += [OutputPair(first=number, second=None) for number in left]
    return pairs + [OutputPair(first=None, second=number) for number in right]


def compare_pixels(
    pairs: Sequence[OutputPair], first: ReportedFolder, second: ReportedFolder, on_progress: OnProgress
) -> None:
    """Fill in `levels` and `mean`, or `fault`, of each of `pairs`, from the decoded files."""

    def compare(pair: OutputPair) -> None:
        assert pair.first is not None
        assert pair.second is not None
        one, other = first.files[pair.first], second.files[pair.second]
        statuses = {first.outputs[pair.first].status, second.outputs[pair.second].status}
        if one is None or other is None or statuses != {"done"}:
            pair.fault = f"not both are done: {', '.join(sorted(statuses - {'done'}))}"
            return
        try:
            result = _difference(first, one, second, other)
        except (
            Exception
        ) as error:  # decoders raise anything for a foreign file; the page shows the pair without figures
            logger.info("%s and %s: %s: %s", one.path, other.path, type(error).__name__, error)
            pair.fault = f"cannot be decoded: {error}"[:200]
            return
        if result.frames:
            pair.levels, pair.mean = result.levels, round(result.mean, 3)
        else:
            pair.fault = "nothing to compare"

    both = [pair for pair in pairs if pair.first is not None and pair.second is not None]
    with ThreadPoolExecutor(usable_cores(), "compare") as threads:
        for number, _ in enumerate(threads.map(compare, both), 1):
            on_progress(number, len(both))


def _difference(first: ReportedFolder, one: OutputFile, second: ReportedFolder, other: OutputFile) -> Difference:
    """Return how the decoded values of two files differ; equal bytes are not decoded."""
    if one.sha256 == other.sha256 and is_intact(first.root, one) and is_intact(second.root, other):
        return Difference(frames=1)
    return difference(first.root / one.path, second.root / other.path)
