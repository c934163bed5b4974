"""Alternatives in prompts, in the syntax of the Dynamic Prompts extension of AUTOMATIC1111's web UI.

{red|blue}            one of them; an option may hold alternatives itself, and may be empty
{2$$a|b|c}            two different ones in any order, joined by a comma: a,b  a,c  b,a  ...
{1-2$$ and $$a|b|c}   one or two, joined by " and "
__colors__            a line of the wildcard file colors.txt; {2$$__colors__} takes two of its lines
\\{ \\| \\} \\_           these characters themselves

A weight of an option ("3::red") counts where combinations are drawn. Variables (`${name=...}`), wrappers (`%{...}`) and
the sampling marks `~` and `@` are mistakes.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import factorial
from random import Random

from omni_cli.errors import DiagnosticError

MAX_NESTING = 32
"""Depth of alternatives in one another."""

MANY = 2**63
"""Counts are exact below; any larger one counts as this."""


@dataclass(frozen=True, slots=True)
class Pick:
    """From `least` to `most` different `options` in any order, joined by `separator`.

    `total` is the number of texts, two or more; MANY stands for any larger number.
    """

    options: tuple["Template", ...]
    weights: tuple[float, ...]
    least: int
    most: int
    separator: str
    total: int

    def texts(self) -> Iterator[str]:
        """Yield every text, in the order of the options."""
        for size in range(self.least, self.most + 1):
            for chosen in permutations(self.options, size):
                yield from _joined(chosen, self.separator)

    def draw(self, random: Random) -> str:
        """Return a text: how many options it has is drawn evenly, which ones by their weights."""
        options, weights = list(self.options), list(self.weights)
        chosen = []
        for _ in range(random.randint(self.least, self.most)):
            at = random.choices(range(len(options)), weights if any(weights) else None)[0]
            chosen.append(draw(options.pop(at), random))
            weights.pop(at)
        return self.separator.join(chosen)


Template = tuple[str | Pick, ...]
"""Texts and alternatives, one after the other."""

ReadWildcard = Callable[[str, int], Template]
"""Takes the name of a wildcard and the depth at which it stands; raises DiagnosticError."""


def count(template: Template) -> int:
    """Return the number of texts of `template`, MANY for more."""
    total = 1
    for part in template:
        total *= 1 if isinstance(part, str) else part.total
    return min(total, MANY)


def texts(template: Template) -> Iterator[str]:
    """Yield every text of `template`; the last alternatives vary fastest. Takes no memory for their number."""
    if not template:
        yield ""
        return
    part, rest = template[0], template[1:]
    for head in (part,) if isinstance(part, str) else part.texts():
        for tail in texts(rest):
            yield head + tail


def draw(template: Template, random: Random) -> str:
    """Return one text of `template`."""
    return "".join(part if isinstance(part, str) else part.draw(random) for part in template)


def parse_template(text: str, wildcard: ReadWildcard, depth: int = 0) -> Template:
    """Return the template of `text`, which stands `depth` levels deep in alternatives.

    Raises DiagnosticError, whose offset is in `text`.
    """
    if not _MARKS.search(text):
        return (text,) if text else ()
    parser = _Parser(text, wildcard)
    return parser.template(depth, in_braces=False)


def pick_one(options: Sequence[tuple[Template, float]]) -> Template:
    """Return the choice of one of `options`, each with its weight."""
    return _pick(options, 1, 1, ",")


class _Parser:
    """Recursive descent over `text`; `at` is the offset of what is read next."""

    def __init__(self, text: str, wildcard: ReadWildcard) -> None:
        self.text, self.wildcard, self.at = text, wildcard, 0

    def template(self, depth: int, *, in_braces: bool) -> Template:
        """Read up to the end, or in braces up to the `|` or `}` that ends an option."""
        parts: list[str | Pick] = []
        while self.at < len(self.text):
            if match := _LITERAL.match(self.text, self.at):
                parts.append(match["escaped"] or match.group())
                self.at = match.end()
                continue
            mark = self.text[self.at]
            if mark == "{":
                parts += self._alternatives(depth)
            elif match := _WILDCARD.match(self.text, self.at):
                parts += self._wildcard(match, depth)
            elif match := _UNKNOWN.match(self.text, self.at):
                cause = f"{match.group()} begins a variable or a wrapper of Dynamic Prompts, which are not read"
                raise DiagnosticError(cause, "write the words themselves", offset=self.at)
            elif in_braces and mark in "|}":
                break
            elif mark == "}":
                raise DiagnosticError("a } without its {", "remove it, or write \\}", offset=self.at)
            else:
                parts.append(mark)
                self.at += 1
        return _merged(parts)

    def _wildcard(self, match: re.Match[str], depth: int) -> Template:
        try:
            found = self.wildcard(match["name"].strip(), depth + 1)
        except DiagnosticError as error:
            diagnostic = error.diagnostic
            raise DiagnosticError(diagnostic.cause, diagnostic.remedy, offset=match.start()) from error
        self.at = match.end()
        return found

    def _alternatives(self, depth: int) -> Template:
        start = self.at
        if depth >= MAX_NESTING:
            raise DiagnosticError(f"alternatives nested deeper than {MAX_NESTING} levels", offset=start)
        bounds = _BOUNDS.match(self.text, start)
        assert bounds is not None
        if bounds["sampler"] in ("~", "@"):
            cause = f"{{{bounds['sampler']} is a sampling mark of Dynamic Prompts, which is not read"
            raise DiagnosticError(cause, "remove it: --expand all or --expand N says how", offset=start)
        self.at = bounds.end()
        options: list[tuple[Template, float]] = []
        while True:
            weight = _WEIGHT.match(self.text, self.at)
            self.at = weight.end() if weight else self.at
            options.append((_stripped(self.template(depth + 1, in_braces=True)), float(weight[1]) if weight else 1.0))
            if self.at >= len(self.text):
                raise DiagnosticError("a { without its }", "close it, or write \\{", offset=start)
            self.at += 1
            if self.text[self.at - 1] == "}":
                return self._picked(options, bounds, start)

    def _picked(self, options: list[tuple[Template, float]], bounds: re.Match[str], start: int) -> Template:
        if bounds["bounds"] is None:
            return pick_one(options)
        only = options[0][0]
        if len(options) == 1 and len(only) == 1 and isinstance(only[0], Pick):  # {2$$__colors__}: two of its lines
            options = list(zip(only[0].options, only[0].weights, strict=True))
        least = int(bounds["least"] or 1)
        most = int(bounds["most"]) if bounds["most"] else len(options) if bounds["to"] else least
        if least > most:
            raise DiagnosticError(f"{least}-{most} is no range", "give the smaller number first", offset=start)
        separator = "," if bounds["separator"] is None else bounds["separator"]
        return _pick(options, least, most, separator)


def _pick(options: Sequence[tuple[Template, float]], least: int, most: int, separator: str) -> Template:
    """Return a choice among the different `options`; the text itself where there is only one."""
    unique: dict[Template, float] = {}
    for option, weight in options:
        unique[option] = unique.get(option, 0.0) + weight
    least, most = min(least, len(unique)), min(most, len(unique))
    if most == 0:
        return ()
    if len(unique) == least == 1:
        return next(iter(unique))
    total = _number_of_picks([count(option) for option in unique], least, most)
    return (Pick(tuple(unique), tuple(unique.values()), least, most, separator, total),)


def _number_of_picks(counts: Sequence[int], least: int, most: int) -> int:
    """Return in how many ways `least` to `most` options, the i-th of `counts[i]` texts, can be chosen in any order."""
    sums = [1] + [0] * min(most, _MAX_PICKED)  # the elementary symmetric polynomials of the counts
    for options in counts:
        for size in range(len(sums) - 1, 0, -1):
            sums[size] = min(sums[size] + sums[size - 1] * options, MANY)
    return MANY if least >= len(sums) else min(sum(factorial(n) * sums[n] for n in range(least, len(sums))), MANY)


def _joined(options: Sequence[Template], separator: str) -> Iterator[str]:
    between = (separator,) if separator else ()
    parts = [part for option in options for part in (*between, *option)]
    return texts(tuple(parts[len(between) :]))


def _merged(parts: Sequence[str | Pick]) -> Template:
    """Return `parts` with neighbouring texts as one, and without empty ones."""
    merged: list[str | Pick] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, str) and isinstance(last, str):
            merged[-1] = last + part
        elif part != "":
            merged.append(part)
    return tuple(merged)


def _stripped(option: Template) -> Template:
    """Return an option without the blanks around it."""
    parts = list(option)
    if parts and isinstance(parts[0], str):
        parts[0] = parts[0].lstrip()
    if parts and isinstance(parts[-1], str):
        parts[-1] = parts[-1].rstrip()
    return _merged(parts)


_MAX_PICKED = 21
"""21! exceeds MANY: a choice of as many options needs no exact count."""

_MARKS = re.compile(r"[{}\\]|__|\$\{|%\{")
_LITERAL = re.compile(r"\\(?P<escaped>[{}|_])|\\|[^\\{}|_$%]++")
_WILDCARD = re.compile(r"__(?P<name>(?:(?!__)[^(){}$#|<>\n])+?)__")
_UNKNOWN = re.compile(r"[$%]\{")
_BOUNDS = re.compile(
    r"\{\s*(?P<sampler>[~!@])?"
    r"(?P<bounds>(?P<least>[0-9]{1,6})?(?P<to>-)?(?P<most>(?<=-)[0-9]{1,6})?(?<=[0-9-])\$\$"
    r"(?:(?P<separator>[^${}]*?)\$\$)?)?"
)
_WEIGHT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)::")
