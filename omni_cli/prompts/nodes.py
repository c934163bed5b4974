"""What a row says before it is judged: named values with the offset of each, whatever format they were written in."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Odd:
    """A token that stands where a value should, but is none: `text` as written and `why` it cannot be taken."""

    text: str
    why: str


class Node(NamedTuple):
    """A value and the offset of its first character."""

    at: int
    value: "Value"


class Member(NamedTuple):
    """A named value; `at` is the offset of the name."""

    key: str
    at: int
    node: Node


Value = str | int | float | bool | None | Odd | tuple[Member, ...] | list[Node]
"""A JSON value: an object is a tuple of members (equal keys kept), an array a list of nodes."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at an offset of a row, and what would be right."""

    at: int
    field: str
    message: str
    allowed: str = ""
