"""Hostile text becomes visible and harmless; cuts never exceed their cells."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.view import text


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[31mred\nb\tc\x00", "a␛[31mred␊b␉c␀"),
        ("\x7f\x9b2J", "␡<U+009B>2J"),
        ("evil\u202egnp.exe\u2069", "evil<U+202E>gnp.exe<U+2069>"),
        ("a\u200bb\ufeffc\U000e0041", "a<U+200B>b<U+FEFF>c<U+E0041>"),
        ("line\u2028two\udcff", "line<U+2028>two<U+DCFF>"),
        ("日本 שלום 👩‍👩‍👧 ❤️ é [bold]x[/]", "日本 שלום 👩‍👩‍👧 ❤️ é [bold]x[/]"),
    ],
)
def test_printable_replaces_what_could_move_reorder_or_hide_and_keeps_every_script(hostile: str, shown: str) -> None:
    assert text.printable(hostile) == shown


@given(st.text(), st.integers(0, 40))
def test_cut_text_is_printable_and_within_its_cells(data: str, width: int) -> None:
    for shown in (text.cut(data, width), text.cut_middle(data, width)):
        assert text.cells(shown) <= width
        assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)


@pytest.mark.parametrize(
    ("data", "width", "shown"),
    [
        ("short", 5, "short"),
        ("too long", 5, "too…"),
        ("日本語の猫", 6, "日本…"),
        ("日本語の猫", 10, "日本語の猫"),
        ("abc", 0, ""),
        ("a\n" * 9, 4, "a␊a…"),
    ],
)
def test_cut_counts_cells_and_shows_that_something_is_missing(data: str, width: int, shown: str) -> None:
    assert text.cut(data, width) == shown


def test_cut_middle_keeps_the_number_at_the_end_of_an_id() -> None:
    assert text.cut_middle("portraits_of_everyone_000123", 15) == "portrai…_000123"


def test_a_letter_under_ten_thousand_marks_is_cut_although_it_is_one_cell_wide() -> None:
    assert len(text.cut("e" + "\u0301" * 10_000, 10)) < 100


def test_fit_pads_by_cells() -> None:
    assert text.fit("日本", 6) == "日本  "


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 ms"), (0.0034, "3 ms"), (4.21, "4.2 s"), (42.4, "42 s"), (200, "3 min 20 s"), (7510, "2 h 05 min")],
)
def test_seconds(value: float, shown: str) -> None:
    assert text.seconds(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(3.42, "3.4/s"), (0.2, "12/min"), (5 / 3600, "5.0/h"), (120.4, "120/s")])
def test_rate(value: float, shown: str) -> None:
    assert text.rate(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 %"), (1, "100 %"), (0.999, ">99 %"), (0.001, "<1 %"), (0.917, "92 %")]
)
def test_share_says_all_or_nothing_only_when_it_is(value: float, shown: str) -> None:
    assert text.share(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(812, "812 B"), (1536, "1.5 KiB"), (96 << 20, "96 MiB"), (3 << 40, "3.0 TiB")]
)
def test_size(value: int, shown: str) -> None:
    assert text.size(value) == shown
