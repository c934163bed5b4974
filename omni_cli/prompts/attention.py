"""Weights in prompts, in the syntax of AUTOMATIC1111's web UI.

(red:1.3)          the weight 1.3; in one another, weights multiply
(red), [red]       the weights 1.1 and 1 / 1.1
\\( \\) \\[ \\] \\\\     these characters themselves

What changes a prompt between steps or joins several is a mistake: `[a:b:0.5]`, `[a|b]`, `AND`, `BREAK`.
"""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from omni_cli.errors import DiagnosticError
from omni_cli.text import quote

ROUND, SQUARE = 1.1, 1 / 1.1
"""Weights of what stands in brackets without a number."""

MAX_BRACKETS = 64


class Weighted(NamedTuple):
    """A part of a prompt and its weight; `offset` is that of the first bracket around it."""

    text: str
    weight: float
    offset: int

    @property
    def shown(self) -> str:
        """The part as it could be written: `(red:1.3)`."""
        return f"({self.text}:{self.weight:.4g})"


class _Bracket(NamedTuple):
    mark: str
    offset: int
    first_part: int


def parse_weights(text: str) -> list[Weighted]:
    """Return the parts of `text` with their weights. Raises DiagnosticError, whose offset is in `text`."""
    parts: list[Weighted] = []
    brackets: list[_Bracket] = []
    for match in _TOKEN.finditer(text):
        mark, at = match.group(), match.start()
        if mark in ("(", "["):
            if len(brackets) >= MAX_BRACKETS:
                raise DiagnosticError(f"brackets nested deeper than {MAX_BRACKETS} levels", offset=at)
            brackets.append(_Bracket(mark, at, len(parts)))
        elif mark in (")", "]") or match["weight"] is not None:
            opened = brackets.pop() if brackets else None
            if opened is None or opened.mark != ("[" if mark == "]" else "("):
                raise DiagnosticError(f"a {mark[-1]} without its bracket", _ESCAPE, offset=match.end() - 1)
            factor = SQUARE if mark == "]" else ROUND if match["weight"] is None else _number(match)
            parts[opened.first_part :] = [
                Weighted(part.text, part.weight * factor, opened.offset) for part in parts[opened.first_part :]
            ]
        elif match["keyword"]:
            raise DiagnosticError(f"{mark} is not read", "give each prompt a row of its own", offset=at)
        elif mark in ("|", ":") and brackets and brackets[-1].mark == "[":
            shown = quote(text[brackets[-1].offset :].partition("]")[0] + "]")
            cause = f"{shown} changes the prompt between steps, which is not read"
            raise DiagnosticError(cause, _ESCAPE, offset=brackets[-1].offset)
        else:
            parts.append(Weighted(match["escaped"] or mark, 1.0, at))
    if brackets:
        raise DiagnosticError(f"a {brackets[-1].mark} that is not closed", _ESCAPE, offset=brackets[-1].offset)
    return _merged(parts)


def first_weight(parts: Sequence[Weighted]) -> Weighted | None:
    """Return the first part whose weight is not 1, None if there is none."""
    return next((part for part in parts if not math.isclose(part.weight, 1)), None)


def _number(match: re.Match[str]) -> float:
    try:
        weight = float(match["weight"])
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise DiagnosticError(
            f"{quote(match['weight'])} is no weight", "write it as in (red:1.3)", offset=match.start()
        )
    return weight


def _merged(parts: list[Weighted]) -> list[Weighted]:
    """Return `parts` with neighbours of one weight as one."""
    groups: list[list[Weighted]] = []
    for part in parts:
        if groups and math.isclose(groups[-1][0].weight, part.weight):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [group[0]._replace(text="".join(part.text for part in group)) for group in groups]


_ESCAPE = "write \\( \\) \\[ \\] for the characters themselves"
_TOKEN = re.compile(
    r"\\(?P<escaped>[()\[\]\\])|:\s*(?P<weight>[+-]?[.0-9]+)\s*\)|[()\[\]|:]"
    r"|\b(?P<keyword>BREAK|AND)\b|(?:(?!\b(?:BREAK|AND)\b)[^\\()\[\]|:])++|\\",
)
