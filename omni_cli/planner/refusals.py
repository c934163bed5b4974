"""The message that refuses to touch finished work: which requests, what has changed, and the ways out."""

from collections.abc import Callable

from omni_cli.errors import UsageError
from omni_cli.journal import RequestStatus
from omni_cli.planner.finished_work import Decision
from omni_cli.text import quote

SHOWN_GROUPS = 10
SHOWN_IDS = 3

CHANGED_REMEDY = (
    "--keep-old leaves them out and keeps their files, --replace-changed renders them again in place of their files,"
    " --overwrite renders every request again, and another --output-dir keeps both"
)
CONFLICT_REMEDY = (
    "give them other names with id, output or --name-template, or another --output-dir;"
    " --keep-old leaves them out, --overwrite replaces the files"
)


class Refusals:
    """The refused requests of a run, grouped by what is wrong."""

    def __init__(self) -> None:
        """Start with none."""
        self._changed = _Groups()
        self._conflicts = _Groups()

    def add(self, request_id: str, decision: Decision) -> None:
        """Add a request that `decision` refuses."""
        if decision.status is RequestStatus.CONFLICT:
            self._conflicts.add(("",), request_id, decision.details)
        else:
            fields = tuple(detail.partition(":")[0] for detail in decision.details)
            self._changed.add(fields, request_id, decision.details)

    def __bool__(self) -> bool:
        """Return True if a request was refused."""
        return bool(self._changed.count or self._conflicts.count)

    def error(self, output_dir: str) -> UsageError:
        """Return the error of the run into `output_dir`."""
        parts = []
        if self._changed.count:
            lines = self._changed.lines(lambda ids, details: f"{ids}: {'; '.join(details)}")
            count, verb = _counted(self._changed.count, "is", "are")
            parts.append(
                "\n  ".join([f"{count} {verb} finished in {quote(output_dir, 200)}, and changed since:", *lines])
            )
            parts.append(f"nothing was rendered; {CHANGED_REMEDY}")
        if self._conflicts.count:
            lines = self._conflicts.lines(lambda ids, details: f"{ids}: {'; '.join(details)}")
            count, verb = _counted(self._conflicts.count, "would replace a", "would replace")
            noun = "file" if self._conflicts.count == 1 else "files"
            parts.append("\n  ".join([f"{count} {verb} finished {noun} of other requests:", *lines]))
            parts.append(f"nothing was rendered; {CONFLICT_REMEDY}")
        return UsageError("\n".join(parts))


def refusal(decision: Decision) -> str:
    """Return why the one request that `decision` refuses is not rendered, and what to do."""
    details = "; ".join(decision.details)
    if decision.status is RequestStatus.CONFLICT:
        return f"is not rendered: {details}; give it another name, or run with --overwrite"
    return (
        f"is finished, and changed since ({details}): its files are kept;"
        " give it another id, or run with --replace-changed"
    )


class _Groups:
    """Requests by the names of what is wrong with them: how many, the first ids, and the details of the first."""

    def __init__(self) -> None:
        self.count = 0
        self._groups: dict[tuple[str, ...], tuple[list[str], tuple[str, ...]]] = {}
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, key: tuple[str, ...], request_id: str, details: tuple[str, ...]) -> None:
        self.count += 1
        ids, _ = self._groups.setdefault(key, ([], details))
        self._counts[key] = self._counts.get(key, 0) + 1
        if len(ids) < SHOWN_IDS:
            ids.append(quote(request_id))

    def lines(self, line: Callable[[str, tuple[str, ...]], str]) -> list[str]:
        shown = []
        for key, (ids, details) in list(self._groups.items())[:SHOWN_GROUPS]:
            more = self._counts[key] - len(ids)
            shown.append(line(", ".join(ids) + (f" and {more} more" if more else ""), details))
        if len(self._groups) > SHOWN_GROUPS:
            shown.append(f"and {len(self._groups) - SHOWN_GROUPS} more kinds of change (--dry-run shows all)")
        return shown


def _counted(count: int, one: str, many: str) -> tuple[str, str]:
    return (f"{count} request", one) if count == 1 else (f"{count} requests", many)
