"""A JSON scanner that reports every mistake of a text with its position.

`json` stops at the first mistake, silently keeps one of two equal keys, and forgets positions. This scanner keeps equal
keys, keeps positions, and goes on after most mistakes. Offsets count characters from the start of the text.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from omni_cli.errors import Diagnostic, DiagnosticError
from omni_cli.prompts.encoding import MARK
from omni_cli.text import quote

MAX_DEPTH = 64
"""Deepest nesting of a value; far below the interpreter's recursion limit."""

MAX_DIGITS = 40
"""A longer number fits no field, and turning very long ones into integers takes quadratic time."""


class Node(NamedTuple):
    """A value and the offset of its first character."""

    offset: int
    value: "Value"


class Member(NamedTuple):
    """A named value; `offset` is that of the name."""

    key: str
    offset: int
    node: Node


Value = str | int | float | bool | None | Diagnostic | tuple[Member, ...] | list[Node]
"""A JSON value. An object is a tuple of members (equal keys kept), an array a list of nodes.

A token that is no value is the Diagnostic that says why; the field that gets it reports it.
"""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The values of a row in any format, and the mistakes in how they are written.

    `complete` is False if values may be missing because the text breaks off: a missing field is no mistake then.
    `without_effect` are names of values that were left out although they ask for something.
    """

    node: Node
    diagnostics: Sequence[Diagnostic] = ()
    complete: bool = True
    without_effect: tuple[str, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """The named values of an object; empty for any other value."""
        return self.node.value if isinstance(self.node.value, tuple) else ()


def scan(text: str) -> Parsed:
    """Scan `text`, one JSON value, to its end or to the first mistake that cannot be skipped.

    Never raises: a DiagnosticError becomes an entry of `Parsed.diagnostics`.
    """
    scanner = _Scanner(text)
    start = scanner.skip_blanks(text.startswith(MARK))
    members: list[Member] = []
    is_object = text[start : start + 1] == "{"
    node = Node(start, _unreadable(text[start : start + 1], "cannot be read"))
    complete = True
    try:
        if is_object:
            end = scanner.members(start + 1, 1, members)
        else:
            node, end = scanner.value(start, 0)
        end = scanner.skip_blanks(end)
        if end < len(text):
            remedy = "write one request a line, or separate them with commas in [ ]"
            raise DiagnosticError("more text after the end of the request", remedy, offset=end)
    except DiagnosticError as error:
        scanner.diagnostics.append(error.diagnostic)
        complete = False
    return Parsed(Node(start, tuple(members)) if is_object else node, scanner.diagnostics, complete)


def number(token: str) -> int | float | Diagnostic | None:
    """Return the number that `token` is in JSON, None if it is no number, a Diagnostic if it is out of any range."""
    if _NUMBER.fullmatch(token) is None:
        return _unreadable(token, "is not a finite number") if token in _NOT_FINITE else None
    if token.lstrip("-").isdecimal():
        return int(token) if len(token) <= MAX_DIGITS else _unreadable(token, "is too large")
    value = float(token)
    return value if math.isfinite(value) else _unreadable(token, "is too large")


def _unreadable(token: str, why: str) -> Diagnostic:
    return Diagnostic(f"{quote(token)[1:-1]} {why}")


class _Scanner:
    """Recursive descent over `text`.

    The methods take the offset at which they begin and return the offset at which they end. Mistakes that leave the
    rest readable go to `diagnostics`, others are raised as DiagnosticError.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.diagnostics: list[Diagnostic] = []

    def skip_blanks(self, start: int) -> int:
        match = _BLANKS.match(self.text, start)
        assert match is not None
        return match.end()

    def members(self, start: int, depth: int, into: list[Member]) -> int:
        """Append the members of an object, whose `{` is just before `start`, to `into`."""
        start = self.skip_blanks(start)
        if self.text[start : start + 1] == "}":
            return start + 1
        closed = False
        while not closed:
            key, value_start = self._key(start)
            node, end = self.value(value_start, depth)
            into.append(Member(key, start, node))
            start, closed = self._comma(end, "}")
        return start

    def value(self, start: int, depth: int) -> tuple[Node, int]:
        """Read any value."""
        first = self.text[start : start + 1]
        if first == '"':
            string, end = self._string(start)
            return Node(start, string), end
        if first and first in "{[" and depth >= MAX_DEPTH:
            raise DiagnosticError(f"nested deeper than {MAX_DEPTH} levels", offset=start)
        if first == "{":
            members: list[Member] = []
            end = self.members(start + 1, depth + 1, members)
            return Node(start, tuple(members)), end
        if first == "[":
            return self._array(start, depth + 1)
        return self._literal(start)

    def _array(self, start: int, depth: int) -> tuple[Node, int]:
        items: list[Node] = []
        end = self.skip_blanks(start + 1)
        closed = self.text[end : end + 1] == "]"
        if closed:
            return Node(start, items), end + 1
        while not closed:
            item, end = self.value(end, depth)
            items.append(item)
            end, closed = self._comma(end, "]")
        return Node(start, items), end

    def _key(self, start: int) -> tuple[str, int]:
        """Read a member's key and its colon."""
        match = _PLAIN_KEY.match(self.text, start)
        if match is not None:
            return match.group(1), match.end()
        if self.text[start : start + 1] != '"':
            raise self._unexpected(start, "put the field's name here, in straight double quotes")
        key, end = self._string(start)
        colon = self.skip_blanks(end)
        if self.text[colon : colon + 1] != ":":
            raise self._unexpected(colon, f"put a colon after the name {quote(key)}")
        return key, self.skip_blanks(colon + 1)

    def _comma(self, start: int, closer: str) -> tuple[int, bool]:
        """Read the comma or the closing bracket after a member or an item; True for the bracket."""
        match = _COMMA_OR_CLOSER.match(self.text, start)
        if match is not None and match.group(1) == closer:
            return match.end(), True
        if match is not None and match.group(1) == ",":
            end = match.end()
            if self.text[end : end + 1] == closer:
                self._report(f"trailing comma before {closer}", "remove it", match.start(1))
                return end + 1, True
            return end, False
        start = self.skip_blanks(start)
        if self.text[start : start + 1] == '"':
            self._report("missing comma before this", "separate entries with commas", start)
            return start, False
        raise self._unexpected(start, f"put a comma or {closer} here")

    def _literal(self, start: int) -> tuple[Node, int]:
        """Read true, false, null or a number; any other token is left to its field to report."""
        match = _WORD.match(self.text, start)
        if match is None:
            raise self._unexpected(start, "put a value here")
        token = match.group()
        if token in _LITERALS:
            return Node(start, _LITERALS[token]), match.end()
        value = number(token)
        if value is None:
            value = _unreadable(token, "is not a JSON value")
        return Node(start, value), match.end()

    def _string(self, start: int) -> tuple[str, int]:
        match = _PLAIN_STRING.match(self.text, start)
        if match is not None:
            return match.group(1), match.end()
        match = _STRING.match(self.text, start)
        if match is None:
            remedy = "the row may be cut off; write a line break in text as \\n"
            raise DiagnosticError("text without its closing double quote", remedy, offset=start)
        return self._unescape(match.group(), start), match.end()

    def _unescape(self, token: str, start: int) -> str:
        """Return the text of a quoted `token`; report raw control characters and the first unknown escape."""
        if _SOUND_STRING.fullmatch(token):
            return str(json.loads(token))
        raw = _CONTROL.search(token)
        if raw is not None:
            cause = f"raw control character {quote(raw.group())} in text"
            self._report(cause, "write it as an escape, such as \\n or \\t", start + raw.start())
        for escape in _ESCAPE.finditer(token):
            if escape.lastgroup == "bad":
                cause = f"unknown escape {quote(escape.group())} in text"
                self._report(cause, "write a backslash as \\\\", start + escape.start())
                return token[1:-1]
        return str(json.loads(token, strict=False))

    def _report(self, cause: str, remedy: str, offset: int) -> None:
        self.diagnostics.append(Diagnostic(cause, remedy, offset=offset))

    def _unexpected(self, offset: int, remedy: str) -> DiagnosticError:
        rest = self.text[offset : offset + 1]
        cause = f"unexpected {quote(rest)}" if rest else "the row breaks off here"
        return DiagnosticError(cause, remedy, offset=offset)


_LITERALS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_BLANKS = re.compile(r"[ \t\n\r]*+")
_WORD = re.compile(r"""[^\s,:"'\[\]{}]++""")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")
_PLAIN_KEY = re.compile(r'"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+')
_COMMA_OR_CLOSER = re.compile(r"[ \t\n\r]*+([,}\]])[ \t\n\r]*+")
_PLAIN_STRING = re.compile(r'"([^"\\\x00-\x1f]*+)"')
_STRING = re.compile(r'"(?:[^"\\\n]++|\\[^\n])*+"')
_SOUND_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|(?P<bad>.))', re.DOTALL)
