"""The fields of what pipelines return: their names in the source of a class, and what a field of a name holds."""

import ast
from collections.abc import Iterator

from omni_cli.media import Kind
from omni_cli.models.class_source import ClassSource, class_source

_WORDS = (
    ("embed", None),
    ("text", None),
    ("sequence", None),
    ("audio", Kind.AUDIO),
    ("sound", Kind.AUDIO),
    ("wave", Kind.AUDIO),
    ("frame", Kind.VIDEO),
    ("video", Kind.VIDEO),
)
"""Parts of the names of fields, and what such a field holds; any other one holds pictures."""


def field_kind(name: str) -> Kind | None:
    """Return what the field `name` of a pipeline's output holds; None for embeddings and text."""
    return next((kind for word, kind in _WORDS if word in name), Kind.IMAGE)


def returned_fields(source: ClassSource) -> tuple[str, ...]:
    """Return the fields of the output that `__call__` returns, in their order; empty if they cannot be told."""
    call = source.method("__call__")
    for node in ast.walk(call) if call is not None else ():
        match node:
            case ast.Return(value=ast.Call(func=ast.Name(id=name), keywords=keywords, args=args)) if _is_output(name):
                named = [keyword.arg for keyword in keywords if keyword.arg is not None]
                output = class_source(name) if args else None
                declared = [] if output is None else list(_declared_fields(output))
                return (*declared[: len(args)], *named)
    return ()


def _is_output(class_name: str) -> bool:
    return "Output" in class_name or class_name == "SimpleNamespace"


def _declared_fields(output: ClassSource) -> Iterator[str]:
    for node in output.definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
