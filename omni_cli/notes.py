"""Notes of rows: what a kind of note is, so that each kind is shown once however many rows have it.

worker ── notes of an output ──> executor ── NoteFilter: the first of each kind ──> terminal
                                    └── all of them ──> row ── NoteCounts ──> summary of the run
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from omni_cli.text import escape

STANDING = "still in force: "
"""Prefix of a note that repeats an earlier one: it is written to every row concerned, but displayed only once."""

MAX_NOTES = 20
"""Notes of a request that a row holds."""

MAX_NOTE_CHARACTERS = 400
MAX_KINDS = 100
"""Kinds of notes that a run tells apart; further kinds are only written to the rows."""

_VARIABLE = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|\d+(?:\.\d+)?')
"""The parts of a note that differ from row to row: quoted text and numbers."""

_KIND_CHARACTERS = 120


def note_text(text: str) -> str:
    """Return foreign `text` as a note: one line, escaped, at most MAX_NOTE_CHARACTERS characters."""
    line = escape(" ".join(text[: 4 * MAX_NOTE_CHARACTERS].split()))
    return line if len(line) <= MAX_NOTE_CHARACTERS else line[: MAX_NOTE_CHARACTERS - 1] + "…"


def note_kind(note: str) -> str:
    """Return what `note` has in common with notes on the same thing in other rows."""
    return _VARIABLE.sub("#", note.removeprefix(STANDING))[:_KIND_CHARACTERS]


class NoteFilter:
    """Selects the notes that are news. Not thread-safe."""

    def __init__(self) -> None:
        """Start with nothing shown."""
        self._shown: set[str] = set()

    def news(self, notes: Iterable[str]) -> Iterator[str]:
        """Yield the notes of a kind that has not been shown yet; standing notes have been."""
        for note in notes:
            kind = note_kind(note)
            if note.startswith(STANDING) or kind in self._shown or len(self._shown) >= MAX_KINDS:
                continue
            self._shown.add(kind)
            yield note


class NoteCount(NamedTuple):
    """The number of rows that have a note of one kind, and the first such note."""

    rows: int
    example: str


class NoteCounts:
    """Counts rows by the kinds of their notes. Not thread-safe."""

    def __init__(self) -> None:
        """Start without rows."""
        self._counts: dict[str, NoteCount] = {}

    def add(self, notes: Iterable[str]) -> None:
        """Count the notes of one row."""
        for kind, note in {note_kind(note): note for note in reversed(tuple(notes))}.items():
            if kind in self._counts or len(self._counts) < MAX_KINDS:
                rows, example = self._counts.get(kind, (0, note.removeprefix(STANDING)))
                self._counts[kind] = NoteCount(rows + 1, example)

    def most_frequent(self, limit: int) -> tuple[NoteCount, ...]:
        """Return the `limit` most frequent kinds, the most frequent one first."""
        return tuple(sorted(self._counts.values(), key=lambda count: -count.rows)[:limit])
