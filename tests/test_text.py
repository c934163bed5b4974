"""Foreign text becomes harmless, misspelled names are guessed, bytes are counted in binary units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.text import byte_count, did_you_mean, encodable, escape, nearest, printable, quote


@given(st.text())
def test_escaped_and_quoted_text_prints(text):
    assert escape(text).isprintable()
    assert quote(text).isprintable()


def test_escape_keeps_what_it_is_asked_to_keep():
    assert escape("a\n\tb\x1b\u202e\udcff", keep="\n\t") == "a\n\tb\\x1b\\u202e\\udcff"


def test_a_quoted_value_is_cut_and_its_quotes_and_backslashes_are_escaped():
    assert quote('say "a\\b"') == r'"say \"a\\b\""'
    assert quote("x" * 61) == f'"{"x" * 60}…"'
    assert quote("abc", 2) == '"ab…"'


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
def test_printable_replaces_what_could_move_reorder_or_hide_and_keeps_every_script(hostile, shown):
    assert printable(hostile) == shown


@given(st.text(st.characters(codec=None)))
def test_encodable_text_can_be_written_as_utf8_and_sound_text_stays(text):
    assert len(encodable(text).encode("utf-8").decode("utf-8")) == len(text)
    assert encodable(encodable(text)) == encodable(text)


def test_the_nearest_name_is_suggested_without_regard_to_case():
    assert nearest("Sede", ("seed", "size")) == "seed"
    assert did_you_mean("promt", ("prompt", "seed")) == 'did you mean "prompt"?'
    assert nearest("zzz", ("prompt", "seed")) == ""
    assert did_you_mean("zzz", ("prompt", "seed"), "known: prompt, seed") == "known: prompt, seed"


def test_guessing_at_an_endless_name_is_cheap():
    assert nearest("x" * 10_000_000, ("prompt",)) == ""


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        *((0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (96 << 20, "96.0 MiB")),
        *((5 << 30, "5.0 GiB"), (3 << 40, "3.0 TiB"), (3 << 50, "3.0 PiB"), (3 << 60, "3072.0 PiB")),
    ],
)
def test_bytes_are_counted_in_binary_units(count, shown):
    assert byte_count(count) == shown
