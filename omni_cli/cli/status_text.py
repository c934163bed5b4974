"""The status of an output folder as text for people."""

from collections.abc import Iterator

from omni_cli.api.folder_status import (
    AnyStatusLine,
    CancelledRequest,
    DamagedFile,
    FailedRequest,
    MissingRequest,
    ModelCounts,
    OrphanedFile,
    StatusTotals,
)
from omni_cli.text import byte_count

SHOWN_LINES = 10
"""Lines of each kind that are shown; --json gives all."""


class StatusText:
    """Keeps the first lines of each kind."""

    def __init__(self) -> None:
        """Start without lines."""
        self._shown: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def add(self, line: AnyStatusLine) -> None:
        """Keep `line` if it is one of the first of its kind."""
        match line:
            case FailedRequest(id=id_, kind=kind, message=message):
                self._keep("failed", f"{id_}: {kind}: {message}")
            case CancelledRequest(id=id_):
                self._keep("cancelled", id_)
            case DamagedFile(id=id_, path=path, fault=fault):
                self._keep("damaged", f"{id_}: {path} {fault}")
            case MissingRequest(id=id_, line=number):
                self._keep("missing", f"{id_} (line {number})" if number else id_)
            case OrphanedFile(path=path, bytes=size):
                self._keep("orphaned", f"{path}, {byte_count(size)}")
            case StatusTotals():
                pass

    def lines(self, totals: StatusTotals) -> Iterator[str]:
        """Yield the counts, those of each model, and the lines that were kept."""
        missing = "" if totals.missing is None else f", {totals.missing} missing of {totals.requests}"
        orphaned = f", {_files(totals.orphaned)} orphaned" if totals.orphaned else ""
        counts = ModelCounts(done=totals.done, failed=totals.failed, cancelled=totals.cancelled, damaged=totals.damaged)
        yield f"{totals.output_dir}: {_counts(counts)}{missing}{orphaned}"
        if totals.running is not None:
            owner = totals.running
            yield f"  a run is writing here: pid {owner.pid} on {owner.host}, started {owner.started.isoformat()}"
        for model, per_model in totals.models.items():
            yield f"  {model}: {_counts(per_model)}"
        for kind, kept in self._shown.items():
            yield f"{kind}:"
            yield from (f"  {line}" for line in kept)
            if (more := self._counts[kind] - len(kept)) > 0:
                yield f"  and {more} more (--json)"

    def _keep(self, kind: str, text: str) -> None:
        kept = self._shown.setdefault(kind, [])
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if len(kept) < SHOWN_LINES:
            kept.append(text)


def _counts(counts: ModelCounts) -> str:
    """Return the counts that are not 0; that of done requests always."""
    parts = {"failed": counts.failed, "cancelled": counts.cancelled, "damaged": counts.damaged}
    return ", ".join([f"{counts.done} done", *(f"{count} {name}" for name, count in parts.items() if count)])


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"
