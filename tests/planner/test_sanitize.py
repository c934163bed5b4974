"""Safe file names from hostile text."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.errors import DiagnosticError
from omni_cli.planner.sanitize import clean, shorten, split_extension

TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a cat, asleep", "a cat, asleep"),
        ("日本語 Ελλάδα नमस्ते \U0001f431", "日本語 Ελλάδα नमस्ते \U0001f431"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("e\u0301t\u00e9", "été"),
        ("a/b\\c:d*e?f", "a_b_c_d_e_f"),
        ("..", "__"),
        (".hidden", "_hidden"),
        ("--rm -rf", "__rm -rf"),
        ("name. .", "name___"),
        ("tab\there\x00\x1b[31m", "tab_here__[31m"),
        ("evil\u202egnp.exe", "evil_gnp.exe"),
        ("half \ud800", "half _"),
        ("con", "_con"),
        ("NUL.tar.gz", "_NUL.tar.gz"),
        ("com\u00b9", "_com\u00b9"),
        ("console", "console"),
        ("", "_"),
    ],
)
def test_clean_keeps_scripts_and_replaces_unsafe_characters(text, part):
    assert clean(text) == part


@given(TEXT)
def test_a_clean_part_is_one_safe_utf8_name_and_cleaning_again_changes_nothing(text):
    part = clean(text)
    assert part
    assert "/" not in part
    assert part[0] not in ".- "
    assert part[-1] not in ". "
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in part)
    assert part.encode().decode() == part == unicodedata.normalize("NFC", part) == clean(part)


@given(TEXT.map(clean), st.integers(10, 300))
def test_shortened_part_is_whole_or_a_beginning_with_a_hash(part, room):
    fitted = shorten(part, room)
    assert len(fitted.encode()) <= room
    if len(part.encode()) <= room:
        assert fitted == part
    else:
        assert part.startswith(fitted[:-9])
        assert room - len(fitted.encode()) < 4


def test_long_names_with_the_same_beginning_stay_distinct():
    one, other = shorten("x" * 500 + "1", 100), shorten("x" * 500 + "2", 100)
    assert one != other
    assert one[:91] == other[:91] == "x" * 91


def test_only_extensions_of_our_formats_are_split():
    assert split_extension("a.b.PNG") == ("a.b", "PNG")
    assert split_extension("a.jpeg") == ("a", "jpeg")
    assert split_extension("shot.v2") == ("shot.v2", "")
    assert split_extension(".png") == (".png", "")
    with pytest.raises(DiagnosticError, match=r"\.ogg cannot be written"):
        split_extension("clip.ogg")
