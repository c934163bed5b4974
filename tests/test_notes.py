"""Notes of rows: their text, their kinds, and which of them are news."""

import pytest

from omni_cli.notes import MAX_KINDS, MAX_NOTE_CHARACTERS, STANDING, NoteCounts, NoteFilter, note_kind, note_text


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[2J", "a\u202eb", "\ud800", "x" * 100_000, "\t", "\u2028" * 3000])
def test_a_note_is_one_printable_line_of_bounded_length(text: str) -> None:
    note = note_text(text)
    assert note.isprintable()
    assert len(note.encode()) <= MAX_NOTE_CHARACTERS + 2
    assert note_text("guidance 3.5 is unused") == "guidance 3.5 is unused"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("77 of 90 tokens", "77 of 1500 tokens", True),
        ("scale is 3.5", "scale is 12", True),
        ('cut: "a cat"', 'cut: "a \\"dog\\" 7"', True),
        ("part ['a', 'b']", "part ['c', 'd']", True),
        ("out of memory: halved", f"{STANDING}out of memory: halved", True),
        ("out of memory: halved", "out of memory: tiled", False),
        ("text_encoder cut", "text_encoder_2 cut", False),
    ],
)
def test_numbers_and_quotations_make_no_other_kind(one: str, other: str, is_same: bool) -> None:
    assert (note_kind(one) == note_kind(other)) is is_same


def test_each_kind_is_news_once() -> None:
    notes = NoteFilter()
    assert list(notes.news(["cut at 1", f"{STANDING}tiled", "dark"])) == ["cut at 1", "dark"]
    assert list(notes.news(["cut at 2", "dark", "tiled"])) == ["tiled"]


def test_kinds_beyond_the_limit_are_neither_shown_nor_counted() -> None:
    texts = ["x" * length for length in range(1, MAX_KINDS + 20)]
    assert list(NoteFilter().news(texts)) == texts[:MAX_KINDS]
    counts = NoteCounts()
    counts.add(texts)
    assert len(counts.most_frequent(1000)) == MAX_KINDS


def test_rows_are_counted_by_kind_with_the_first_note_as_example() -> None:
    counts = NoteCounts()
    for row in (["dark", "cut at 1"], ["cut at 2", "cut at 3"], [f"{STANDING}cut at 4"]):
        counts.add(row)
    assert counts.most_frequent(5) == ((3, "cut at 1"), (1, "dark"))
    assert counts.most_frequent(1) == ((3, "cut at 1"),)
