"""Read what a pipeline's `__call__` takes from the source of the installed diffusers, without importing it.

class name ── class_source ──> __call__, its own or a base's ──> name: value types
"""

import ast
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from omni_cli.models.class_source import class_source

ValueTypes = frozenset[str]
"""Types of a keyword's value: int, float, bool, str, object, image, tensor, null; with "*" for a list of the type."""

_SCALARS = {"int": "int", "float": "float", "bool": "bool", "str": "str"}
_LISTS = {"list", "List", "tuple", "Tuple", "Sequence", "Iterable"}
_OBJECTS = {"dict", "Dict", "Mapping"}
_IMAGES = {"PipelineImageInput", "PIL.Image.Image", "Image.Image", "Image", "PIL.Image"}
_TENSORS = {"torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "torch.BoolTensor", "torch.IntTensor", "Tensor"}
_TENSORS |= {"np.ndarray", "np.array"}


@cache
def call_parameters(pipeline: str) -> Mapping[str, ValueTypes | None] | None:
    """Return the keywords of the `__call__` of the diffusers class `pipeline` and their value types.

    Value types are None where unknown. Returns None if diffusers does not define the class or its call.
    """
    source = class_source(pipeline)
    call = None if source is None else source.method("__call__")
    if call is None:
        return None
    arguments = [*call.args.posonlyargs, *call.args.args, *call.args.kwonlyargs]
    types = {argument.arg: value_types(argument.annotation) for argument in arguments if argument.arg != "self"}
    return MappingProxyType(types)


def value_types(annotation: ast.expr | None) -> ValueTypes | None:
    """Return the value types that an annotation names; None if one of them is unknown."""
    match annotation:
        case None:
            return None
        case ast.Constant(value=None):
            return frozenset({"null"})
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([value_types(left), value_types(right)])
        case ast.Subscript(value=value, slice=inner):
            return _generic_types(ast.unparse(value).removeprefix("typing."), inner)
        case _:
            return _named_types(ast.unparse(annotation))


def _generic_types(name: str, inner: ast.expr) -> ValueTypes | None:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name == "Optional":
        return _union([value_types(inner), frozenset({"null"})])
    if name == "Union":
        return _union([value_types(part) for part in parts])
    if name in _LISTS:
        items = _union([value_types(part) for part in parts if ast.unparse(part) != "..."])
        return None if items is None else frozenset(f"{item.rstrip('*')}*" for item in items)
    if name in _OBJECTS:
        return frozenset({"object"})
    return None


def _named_types(name: str) -> ValueTypes | None:
    if name in _SCALARS:
        return frozenset({name})
    if name in _OBJECTS:
        return frozenset({"object"})
    if name in _IMAGES:
        return frozenset({"image", "image*"})
    return frozenset({"tensor"}) if name in _TENSORS else None


def _union(parts: list[ValueTypes | None]) -> ValueTypes | None:
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None
