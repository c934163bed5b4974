"""Text cut to terminal cells, and numbers with units."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.events import RunStopping
from omni_cli.view.wording import cells, cut, cut_middle, describe_stop, duration, fit, percent, rate


@given(st.text(), st.integers(0, 40))
def test_cut_text_is_printable_and_within_its_cells(data: str, width: int) -> None:
    for shown in (cut(data, width), cut_middle(data, width)):
        assert cells(shown) <= width
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
def test_cut_counts_cells_and_ends_in_an_ellipsis(data: str, width: int, shown: str) -> None:
    assert cut(data, width) == shown


def test_cut_middle_keeps_the_number_at_the_end_of_an_id() -> None:
    assert cut_middle("portraits_of_everyone_000123", 15) == "portrai…_000123"


def test_a_letter_with_ten_thousand_marks_is_cut() -> None:
    assert len(cut("e" + "\u0301" * 10_000, 10)) < 100


def test_fit_pads_by_cells() -> None:
    assert fit("日本", 6) == "日本  "


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 ms"), (0.0034, "3 ms"), (4.21, "4.2 s"), (42.4, "42 s"), (200, "3 min 20 s"), (7510, "2 h 05 min")],
)
def test_duration(value: float, shown: str) -> None:
    assert duration(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(3.42, "3.4/s"), (0.2, "12/min"), (5 / 3600, "5.0/h"), (120.4, "120/s")])
def test_rate(value: float, shown: str) -> None:
    assert rate(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 %"), (1, "100 %"), (0.999, ">99 %"), (0.001, "<1 %"), (0.917, "92 %")]
)
def test_percent_is_0_or_100_only_when_exact(value: float, shown: str) -> None:
    assert percent(value) == shown


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (RunStopping(at=0, seconds=None), "stopping: finishes what runs; Ctrl-C again stops at once"),
        (RunStopping(at=0, seconds=0), "stopping: writes what is computed; Ctrl-C again stops at once"),
        (
            RunStopping(at=0, seconds=200),
            "stopping: finishes what runs, at most about 3 min 20 s; Ctrl-C again stops at once",
        ),
        (
            RunStopping(at=0, seconds=25, is_limit=True),
            "stopping: finishes what runs, at most 25 s; Ctrl-C again stops at once",
        ),
    ],
)
def test_a_stop_says_how_long_it_takes_at_most(event: RunStopping, text: str) -> None:
    assert describe_stop(event) == text
