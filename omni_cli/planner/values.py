"""Values of `extra` against the kinds that the pipeline's signature names for them."""

from typing import Any

from omni_cli.inputs import InputFile, replaced_files
from omni_cli.models.signature import Kinds
from omni_cli.prompts.shown import quoted

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "object": "an object",
    "image": '{"image": "file.png"}',
    "tensor": '{"tensor": "file.safetensors"}',
}
_PLAIN = frozenset({"int", "float", "bool", "str", "object"})
"""Kinds that JSON can write, and no file can be."""


def misfit(value: Any, kinds: Kinds | None) -> str | None:
    """What to write instead of `value` for a keyword that takes `kinds`; None if it fits or cannot be judged."""
    if value is None or kinds is None or _fits(value, kinds):
        return None
    words = [
        f"a list of {_WORDS[kind[:-1]]}" if kind.endswith("*") else _WORDS[kind] for kind in sorted(kinds - {"null"})
    ]
    return f"give {' or '.join(words)}"


def shown(value: Any) -> str:
    """`value` in a few words, for "cannot be ..."."""
    match value:
        case bool() | int() | float():
            return str(value).lower()
        case str():
            return f"the text {quoted(value)}"
        case list():
            return "this list" if value else "an empty list"
        case dict() if (file := _file(value)) is not None:
            return f"a file ({file.kind})"
        case _:
            return "an object"


def _fits(value: Any, kinds: Kinds) -> bool:
    match value:
        case None:
            return True
        case bool():
            return "bool" in kinds
        case int():
            return not kinds.isdisjoint(("int", "float"))
        case float():
            return "float" in kinds
        case str():
            return "str" in kinds
        case list():
            items = frozenset(kind[:-1] for kind in kinds if kind.endswith("*"))
            # Lists in lists, and lists of tensors or pictures, are written in more ways than signatures tell.
            return bool(items) and (
                not items <= _PLAIN or all(isinstance(item, list) or _fits(item, items) for item in value)
            )
        case dict() if _file(value) is not None:
            return not frozenset(kind.rstrip("*") for kind in kinds - {"null"}) <= _PLAIN
        case _:
            return "object" in kinds


def _file(value: dict[str, Any]) -> InputFile | None:
    """The file that an object names, if it names one."""
    found = replaced_files(value, "", lambda file: file)
    return found if isinstance(found, InputFile) else None
