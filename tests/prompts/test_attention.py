"""Weights in prompts as A1111 writes them, and what of its syntax is a mistake."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.errors import DiagnosticError
from omni_cli.prompts.attention import parse_weights


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a red circle", [("a red circle", 1)]),
        ("a (red:1.3) circle", [("a ", 1), ("red", 1.3), (" circle", 1)]),
        ("((a) b)", [("a", 1.21), (" b", 1.1)]),
        ("[a]", [("a", 1 / 1.1)]),
        ("((a:1.5):2)", [("a", 3)]),
        ("(a [b]:1.1)", [("a ", 1.1), ("b", 1)]),
        (r"a \(b\) \[c\] c:\\d", [("a (b) [c] c:\\d", 1)]),
        ("(a:b:1.2), 16:9 a|b ANDROID", [("a:b", 1.2), (", 16:9 a|b ANDROID", 1)]),
        ("(red:1)", [("red", 1)]),
        ("", []),
    ],
)
def test_brackets_give_weights_that_multiply(text: str, parts: list[tuple[str, float]]) -> None:
    found = parse_weights(text)
    assert [part.text for part in found] == [text for text, _ in parts]
    assert [part.weight for part in found] == pytest.approx([weight for _, weight in parts])


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("a (b", 2, "that is not closed"),
        ("a b)", 3, "without its bracket"),
        ("a [b:0.5)", 8, "without its bracket"),
        ("a [c:d:0.5]", 2, r"\[c:d:0.5\].* changes the prompt between steps"),
        ("a [c|d]", 2, "changes the prompt between steps"),
        ("a BREAK b", 2, "BREAK is not read"),
        ("a AND b", 2, "AND is not read"),
        ("a (b:1.2.3)", 4, "is no weight"),
        ("(" * 65, 64, "nested deeper"),
    ],
)
def test_what_is_not_read_is_told_at_its_character(text: str, offset: int, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as caught:
        parse_weights(text)
    assert caught.value.diagnostic.offset == offset


@given(st.text(alphabet="ab()[]:|\\1.3 AND", max_size=20))
def test_any_text_has_weights_or_a_mistake_within_it(text: str) -> None:
    try:
        parts = parse_weights(text)
    except DiagnosticError as error:
        assert 0 <= error.diagnostic.offset < len(text)  # noqa: PT017 - a text is either
        return
    assert sum(len(part.text) for part in parts) <= len(text)
    assert all(first.weight != second.weight for first, second in pairwise(parts))
