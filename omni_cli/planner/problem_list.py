"""Collect the problems of many rows in bounded memory: equal ones are one, with a count of rows.

Two problems are equal if their field, cause and remedy are: one wrong column of 20,000 rows is one line.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from omni_cli.errors import Diagnostic, PromptFileError

MAX_PROBLEMS = 1000
"""Different problems that are listed; further ones are counted."""

MAX_LINES = 4
"""Lines that are listed beside the first one of a problem; of more rows, only the number is given."""


class ProblemList:
    """The problems of a source so far, each kept at the first place where it is found."""

    def __init__(self) -> None:
        """Start empty."""
        self._groups: dict[tuple[str, str, str], _Group] = {}
        self._unlisted = 0

    def __bool__(self) -> bool:
        """Whether there is a problem."""
        return bool(self._groups)

    def add(self, problems: Iterable[Diagnostic]) -> None:
        """Add `problems`. One without a source is of a flag, not of a row: it counts once, however often it is met."""
        for problem in problems:
            key = (problem.field, problem.cause, problem.remedy)
            group = self._groups.get(key)
            if group is not None:
                group.add(problem)
            elif len(self._groups) < MAX_PROBLEMS:
                self._groups[key] = _Group(problem)
            else:
                self._unlisted += 1

    def raise_if_any(self) -> None:
        """Raise PromptFileError with every problem in the order of its first place, unless there is none."""
        if not self._groups:
            return
        groups = list(self._groups.values())
        problems = [group.problem() for group in groups]
        if self._unlisted:
            plural = "" if self._unlisted == 1 else "s"
            cause = f"and {self._unlisted:,} more problem{plural}"
            problems.append(Diagnostic(cause, source=problems[-1].source))
        raise PromptFileError(problems, sum(group.rows for group in groups) + self._unlisted)


class _Group:
    """Equal problems: the first of them, the number of rows that have it, and the lines of the first few others."""

    __slots__ = ("_also", "_first", "_place", "rows")

    def __init__(self, first: Diagnostic) -> None:
        self._first, self.rows = first, 1
        self._also: list[int] = []
        self._place = _place_of(first)

    def add(self, problem: Diagnostic) -> None:
        """Count a problem that equals the first; a row that has it twice at one place is one row."""
        place = _place_of(problem)
        if place == self._place:
            return
        self._place = place
        self.rows += 1
        if len(self._also) <= MAX_LINES:
            self._also.append(problem.line)

    def problem(self) -> Diagnostic:
        """Return the first problem with the number of rows."""
        lines = {self._first.line, *self._also}
        are_few = len(self._also) <= MAX_LINES and len(lines) == self.rows
        return replace(self._first, rows=self.rows, also=tuple(self._also) if are_few else ())


def _place_of(problem: Diagnostic) -> tuple[str, int, int]:
    return problem.source, problem.line, problem.column
