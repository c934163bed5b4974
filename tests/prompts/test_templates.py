"""Alternatives in prompts: every combination, counted without making them, and mistakes with their places."""

from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_cli.errors import DiagnosticError
from omni_cli.prompts.templates import MANY, Template, count, draw, parse_template, texts

COLORS = ("red", "light {blue|green}", "red")


def wildcard(name: str, depth: int) -> Template:
    if name != "colors":
        raise DiagnosticError(f"no {name}")
    return parse_template(f"{{{'|'.join(COLORS)}}}", wildcard, depth)


def all_texts(text: str) -> list[str]:
    template = parse_template(text, wildcard)
    found = list(texts(template))
    assert count(template) == len(found)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a cat", ["a cat"]),
        ("a {red|blue} {cat|dog}", ["a red cat", "a red dog", "a blue cat", "a blue dog"]),
        ("a {{light|dark} blue|red} cat", ["a light blue cat", "a dark blue cat", "a red cat"]),
        ("a{, red| , blue |} cat", ["a, red cat", "a, blue cat", "a cat"]),
        ("{2$$a|b|c}", ["a,b", "a,c", "b,a", "b,c", "c,a", "c,b"]),
        ("{1-2$$ and $$a|b}", ["a", "b", "a and b", "b and a"]),
        ("{-1$$a|b}", ["a", "b"]),
        ("{0-1$$x}!", ["!", "x!"]),
        ("{2-$$$$a|b|c}", ["ab", "ac", "ba", "bc", "ca", "cb", "abc", "acb", "bac", "bca", "cab", "cba"]),
        ("{9$$a|b}", ["a,b", "b,a"]),
        ("{2$$a|{b|c}}", ["a,b", "a,c", "b,a", "c,a"]),
        ("{3::a|0.5::b|a}", ["a", "b"]),
        ("{a}", ["a"]),
        ("{}", [""]),
        ("{!a|b}", ["a", "b"]),
        ("a __colors__ cat", ["a red cat", "a light blue cat", "a light green cat"]),
        ("{2$$__colors__}", ["red,light blue", "red,light green", "light blue,red", "light green,red"]),
        (r"\{a\|b\} c:\\d \__x__ [a|b] 5$ 100% __ a_b", [r"{a|b} c:\\d __x__ [a|b] 5$ 100% __ a_b"]),
    ],
)
def test_every_combination_is_made_once_in_the_order_of_the_text(text: str, expected: list[str]) -> None:
    assert all_texts(text) == expected


@pytest.mark.parametrize(
    ("text", "offset", "cause"),
    [
        ("a {red|blue cat", 2, "a { without its }"),
        ("a red} cat", 5, "a } without its {"),
        ("a ${x=red} cat", 2, "variable"),
        ("a {b|%{c}}", 5, "wrapper"),
        ("{~a|b}", 0, "sampling mark"),
        ("x {3-2$$a|b|c}", 2, "3-2 is no range"),
        ("x __colours__", 2, "no colours"),
        ("{" * 40 + "}" * 40, 32, "nested deeper"),
    ],
)
def test_mistakes_have_their_place_in_the_text(text: str, offset: int, cause: str) -> None:
    with pytest.raises(DiagnosticError, match=cause.replace("{", r"\{").replace("}", r"\}")) as caught:
        parse_template(text, wildcard)
    assert caught.value.diagnostic.offset == offset


def test_more_combinations_than_any_number_are_counted_and_begun_without_making_them() -> None:
    template = parse_template("{a|b}" * 200, wildcard)
    assert count(template) == MANY
    assert list(islice(texts(parse_template("{a|b}" * 60, wildcard)), 2)) == ["a" * 60, "a" * 59 + "b"]
    assert count(parse_template("{25$$" + "|".join(map(str, range(40))) + "}", wildcard)) == MANY


@given(st.text(alphabet="ab{}|$,_12-:\\ ", max_size=24), st.integers())
def test_any_text_is_a_template_or_a_mistake_within_it(text: str, seed: int) -> None:
    try:
        template = parse_template(text, wildcard)
    except DiagnosticError as error:
        assert 0 <= error.diagnostic.offset < len(text)  # noqa: PT017 - a text is either
        return
    some = list(islice(texts(template), 200))
    assert count(template) == len(some) or count(template) > 200
    assert count(template) > 200 or draw(template, Random(seed)) in some


def test_draws_follow_the_weights_and_the_seed() -> None:
    template = parse_template("{9::a|b|0::c}", wildcard)
    drawn = [draw(template, Random(seed)) for seed in range(300)]
    assert drawn == [draw(template, Random(seed)) for seed in range(300)]
    assert drawn.count("a") > 200 > drawn.count("b") > 0 == drawn.count("c")
