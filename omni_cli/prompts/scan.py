"""A JSON scanner that knows where everything stands and goes on after most mistakes.

`json` stops at the first fault, keeps one of two equal keys without a word, and forgets positions; a report of every problem
of a row with its column needs all three. Offsets count characters from the start of the text.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from omni_cli.prompts.nodes import Fault, Member, Node, Odd
from omni_cli.prompts.shown import quoted

MAX_DEPTH = 64
"""Deepest nesting of a value; far below the interpreter's recursion limit."""

MAX_DIGITS = 40
"""A longer number fits no field, and turning very long ones into integers takes quadratic time."""


class Scan(NamedTuple):
    """Outcome of a scan. `whole` is False if the text broke off or is none of JSON, so that members may be missing."""

    node: Node
    faults: Sequence[Fault]
    whole: bool


def scan(text: str) -> Scan:
    """Scan `text`, which holds one JSON value. Never raises; a value that could not be read at all is an `Odd`."""
    scanner = _Scanner(text)
    start = scanner.blank(0)
    top: list[Member] = []
    is_object = text[start : start + 1] == "{"
    node = Node(start, Odd(text[start : start + 1], "cannot be read"))
    try:
        if is_object:
            end = scanner.members(start + 1, 1, top)
        else:
            node, end = scanner.value(start, 0)
        end = scanner.blank(end)
        if end < len(text):
            raise _Broken(
                end,
                "more text after the end of the request",
                "write one request a line, or separate them with commas in [ ]",
            )
    except _Broken as broken:
        scanner.faults.append(Fault(broken.at, "", broken.message, broken.allowed))
        return Scan(Node(start, tuple(top)) if is_object else node, scanner.faults, whole=False)
    return Scan(Node(start, tuple(top)) if is_object else node, scanner.faults, whole=True)


def number(token: str) -> int | float | Odd | None:
    """The number that `token` writes in JSON, an Odd if it is one that cannot be held, None if it is no number."""
    if _NUMBER.fullmatch(token) is None:
        return Odd(token, "is not a finite number") if token in _NOT_FINITE else None
    if len(token) > MAX_DIGITS and token.lstrip("-").isdecimal():
        return Odd(token, "is too large")
    if token.lstrip("-").isdecimal():
        return int(token)
    value = float(token)
    return value if math.isfinite(value) else Odd(token, "is too large")


class _Broken(Exception):
    """The text cannot be understood from here on."""

    def __init__(self, at: int, message: str, allowed: str = "") -> None:
        super().__init__(message)
        self.at, self.message, self.allowed = at, message, allowed


class _Scanner:
    """Recursive descent over `text`; mistakes that leave the rest readable go to `faults`, others raise `_Broken`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.faults: list[Fault] = []

    def blank(self, at: int) -> int:
        """The offset after the white space at `at`."""
        found = _BLANK.match(self.text, at)
        assert found is not None
        return found.end()

    def members(self, at: int, depth: int, into: list[Member]) -> int:
        """Read the members of an object whose `{` is just before `at`; the offset after its `}`."""
        at = self.blank(at)
        if self.text[at : at + 1] == "}":
            return at + 1
        while True:
            key, start = self._name(at)
            node, end = self.value(start, depth)
            into.append(Member(key, at, node))
            at, closed = self._next(end, "}")
            if closed:
                return at

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        """Read the value that starts at `at`; its node and the offset after it."""
        first = self.text[at : at + 1]
        if first == '"':
            string, end = self._string(at)
            return Node(at, string), end
        if first and first in "{[" and depth >= MAX_DEPTH:
            raise _Broken(at, f"nested deeper than {MAX_DEPTH} levels")
        if first == "{":
            inner: list[Member] = []
            end = self.members(at + 1, depth + 1, inner)
            return Node(at, tuple(inner)), end
        if first == "[":
            return self._array(at, depth + 1)
        return self._word(at)

    def _array(self, at: int, depth: int) -> tuple[Node, int]:
        items: list[Node] = []
        end = self.blank(at + 1)
        if self.text[end : end + 1] == "]":
            return Node(at, items), end + 1
        while True:
            item, end = self.value(end, depth)
            items.append(item)
            end, closed = self._next(end, "]")
            if closed:
                return Node(at, items), end

    def _name(self, at: int) -> tuple[str, int]:
        """Read a member's name and its colon; the name and the offset of the value."""
        found = _PLAIN_NAME.match(self.text, at)
        if found is not None:
            return found.group(1), found.end()
        if self.text[at : at + 1] != '"':
            raise self._unexpected(at, "put the field's name here, in straight double quotes")
        key, end = self._string(at)
        colon = self.blank(end)
        if self.text[colon : colon + 1] != ":":
            raise self._unexpected(colon, f"put a colon after the name {quoted(key)}")
        return key, self.blank(colon + 1)

    def _next(self, at: int, closer: str) -> tuple[int, bool]:
        """After a member or an item: the offset to go on at, and whether `closer` has been taken."""
        found = _MARK.match(self.text, at)
        if found is not None and found.group(1) == closer:
            return found.end(), True
        if found is not None and found.group(1) == ",":
            following = found.end()
            if self.text[following : following + 1] == closer:
                self.faults.append(Fault(found.start(1), "", f"trailing comma before {closer}", "remove it"))
                return following + 1, True
            return following, False
        at = self.blank(at)
        if self.text[at : at + 1] == '"':
            self.faults.append(Fault(at, "", "missing comma before this", "separate entries with commas"))
            return at, False
        raise self._unexpected(at, f"put a comma or {closer} here")

    def _word(self, at: int) -> tuple[Node, int]:
        """Read true, false, null or a number; a token that is none of them becomes an Odd, for its field to refuse."""
        found = _WORD.match(self.text, at)
        if found is None:
            raise self._unexpected(at, "put a value here")
        token = found.group()
        if token in _LITERALS:
            return Node(at, _LITERALS[token]), found.end()
        value = number(token)
        if value is None:
            value = Odd(token, "is not a JSON value")
        return Node(at, value), found.end()

    def _string(self, at: int) -> tuple[str, int]:
        found = _PLAIN_STRING.match(self.text, at)
        if found is not None:
            return found.group(1), found.end()
        found = _STRING.match(self.text, at)
        if found is None:
            raise _Broken(
                at, "text without its closing double quote", "the row may be cut off; write a line break in text as \\n"
            )
        return self._unescaped(found.group(), at), found.end()

    def _unescaped(self, token: str, at: int) -> str:
        """The text of a quoted `token`; control characters and unknown escapes in it are faults."""
        if _SOUND_STRING.fullmatch(token):
            return str(json.loads(token))
        raw = _CONTROL.search(token)
        if raw is not None:
            self.faults.append(
                Fault(
                    at + raw.start(),
                    "",
                    f"raw control character {quoted(raw.group())} in text",
                    "write it as an escape, such as \\n or \\t",
                )
            )
        for escape in _ESCAPE.finditer(token):
            if escape.lastgroup == "bad":
                self.faults.append(
                    Fault(
                        at + escape.start(),
                        "",
                        f"unknown escape {quoted(escape.group())} in text",
                        "write a backslash as \\\\",
                    )
                )
                return token[1:-1]
        return str(json.loads(token, strict=False))

    def _unexpected(self, at: int, allowed: str) -> _Broken:
        if at >= len(self.text):
            return _Broken(at, "the row breaks off here", allowed)
        return _Broken(at, f"unexpected {quoted(self.text[at])}", allowed)


_LITERALS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_BLANK = re.compile(r"[ \t\n\r]*+")
_WORD = re.compile(r"""[^\s,:"'\[\]{}]++""")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?")
_PLAIN_NAME = re.compile(r'"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+')
_MARK = re.compile(r"[ \t\n\r]*+([,}\]])[ \t\n\r]*+")
_PLAIN_STRING = re.compile(r'"([^"\\\x00-\x1f]*+)"')
_STRING = re.compile(r'"(?:[^"\\\n]++|\\[^\n])*+"')
_SOUND_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|(?P<bad>.))', re.DOTALL)
