"""Values of expressions of Python: numbers, texts, lists, None and objects with attributes; the rest is UNKNOWN."""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

LARGEST = 1 << 40
"""Numbers beyond it are UNKNOWN: configurations come from anyone, and 10**10**10 takes forever."""


class Unknown:
    """A value that cannot be computed."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()
ABSENT = Unknown()
"""The value of an attribute that certainly does not exist, which `hasattr` and `getattr` can tell."""


class Owner:
    """An object whose attributes are looked up by name."""

    def attribute(self, name: str) -> Any:
        """Return the attribute `name`: UNKNOWN if it cannot be computed, ABSENT if there certainly is none."""
        raise NotImplementedError


def attribute_of(owner: Any, name: str) -> Any:
    """Return the attribute `name` of `owner`; ABSENT where it certainly has none."""
    return owner.attribute(name) if isinstance(owner, Owner) else UNKNOWN


def truth_of(value: Any) -> bool | Unknown:
    """Return whether `value` counts as true; UNKNOWN for one that cannot be computed."""
    return UNKNOWN if isinstance(value, Unknown) else isinstance(value, Owner) or bool(value)


def is_same(left: Any, right: Any) -> bool:
    """Return whether both are the same value of the same type."""
    return left is right or (type(left) is type(right) and left == right)


def is_number(*values: Any) -> bool:
    """Return whether all `values` are numbers."""
    return all(isinstance(value, int | float) for value in values)


def binary(operator: ast.operator, left: Any, right: Any) -> Any:
    """Return the result of arithmetic on two numbers; UNKNOWN for other values and for large ones."""
    if not is_number(left, right) or abs(left) > LARGEST or abs(right) > LARGEST:
        return UNKNOWN
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return left // right
        case ast.Mod():
            return left % right
        case ast.Pow() if abs(right) <= 64 and abs(left) <= 64:
            return left**right
    return UNKNOWN


def boolean(is_and: bool, values: Iterator[Any]) -> Any:
    """Return `a and b` or `a or b`; values are computed up to the one that decides."""
    result: Any = UNKNOWN
    for result in values:
        truth = truth_of(result)
        if truth is UNKNOWN:
            return UNKNOWN
        if truth is not is_and:
            return result
    return result


def compare(operator: ast.cmpop, left: Any, right: Any) -> Any:
    """Return the result of a comparison; UNKNOWN if one side is."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    match operator:
        case ast.Is() | ast.Eq():
            return left is right if isinstance(left, Owner) or right is None else left == right
        case ast.IsNot() | ast.NotEq():
            return left is not right if isinstance(left, Owner) or right is None else left != right
        case ast.Lt():
            return left < right
        case ast.LtE():
            return left <= right
        case ast.Gt():
            return left > right
        case ast.GtE():
            return left >= right
        case ast.In():
            return left in right
        case ast.NotIn():
            return left not in right
    return UNKNOWN


def call_builtin(function: str, arguments: list[Any]) -> Any:
    """Return what a builtin function returns for `arguments`; UNKNOWN for any other function."""
    match function, arguments:
        case "hasattr", [owner, str(name)]:
            found = attribute_of(owner, name)
            return UNKNOWN if found is UNKNOWN else found is not ABSENT
        case "getattr", [owner, str(name)]:
            return attribute_of(owner, name)
        case "getattr", [owner, str(name), default]:
            found = attribute_of(owner, name)
            return default if found is ABSENT else found
        case _ if any(isinstance(argument, Unknown) for argument in arguments):
            return UNKNOWN
        case "len", [list() | tuple() | str() | dict() as items]:
            return len(items)
        case "sum" | "math.prod", [list() | tuple() as items] if is_number(*items) and len(items) <= 64:
            return _folded(items, function == "sum")
        case "int", [int() | float() as number]:
            return int(number)
        case "float", [int() | float() as number]:
            return float(number)
        case "abs", [int() | float() as number]:
            return abs(number)
        case "max" | "min", [_, _, *_] if is_number(*arguments):
            return max(arguments) if function == "max" else min(arguments)
    return UNKNOWN


def _folded(items: Sequence[Any], is_sum: bool) -> Any:
    result: Any = 0 if is_sum else 1
    for item in items:
        result = binary(ast.Add() if is_sum else ast.Mult(), result, item)
    return result
