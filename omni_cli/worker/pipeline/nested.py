"""Values nested in lists, tuples and dicts, such as the arguments and results of pipelines."""

from collections.abc import Callable, Iterator
from typing import Any


def leaves(value: Any) -> Iterator[Any]:
    """Yield everything in `value` that is not a list, tuple or dict. Subclasses of these count as leaves."""
    if type(value) in (list, tuple):
        for item in value:
            yield from leaves(item)
    elif type(value) is dict:
        yield from leaves(list(value.values()))
    else:
        yield value


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a copy of `value` with each leaf replaced by `function(leaf)`."""
    if type(value) in (list, tuple):
        return type(value)(map_leaves(function, item) for item in value)
    if type(value) is dict:
        return {key: map_leaves(function, item) for key, item in value.items()}
    return function(value)
