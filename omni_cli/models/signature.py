"""What a pipeline's `__call__` takes, read from the source of the installed diffusers: nothing is imported, so it costs
milliseconds and needs no torch.

    class name ──__init__.py that lists it──> module ──ast──> __call__ (or that of a base class) ──> name: accepted kinds
"""

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

Kinds = frozenset[str]
"""Words for what a keyword may be: int float bool str object image tensor null, and the same with "*" for a list of it."""

_SCALARS = {"int": "int", "float": "float", "bool": "bool", "str": "str"}
_LISTS = {"list", "List", "tuple", "Tuple", "Sequence", "Iterable"}
_OBJECTS = {"dict", "Dict", "Mapping"}
_IMAGES = {"PipelineImageInput", "PIL.Image.Image", "Image.Image", "Image", "PIL.Image"}
_TENSORS = {"torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "torch.BoolTensor", "torch.IntTensor", "Tensor"}
_TENSORS |= {"np.ndarray", "np.array"}


@cache
def parameters_of(pipeline: str) -> Mapping[str, Kinds | None] | None:
    """Keywords of the `__call__` of the diffusers class `pipeline` and what each takes; None for what cannot be told.

    None altogether if the class, or its call, is not in the source of diffusers.
    """
    found = _class(pipeline)
    if found is None:
        return None
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__call__":
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            kinds = {argument.arg: kinds_of(argument.annotation) for argument in arguments if argument.arg != "self"}
            return MappingProxyType(kinds)
    bases = (parameters_of(base.id) for base in found.bases if isinstance(base, ast.Name) and base.id != pipeline)
    return next((taken for taken in bases if taken is not None), None)


def kinds_of(annotation: ast.expr | None) -> Kinds | None:
    """The kinds that an annotation names; None where one of them is not known."""
    match annotation:
        case None:
            return None
        case ast.Constant(value=None):
            return frozenset({"null"})
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([kinds_of(left), kinds_of(right)])
        case ast.Subscript(value=value, slice=inner):
            return _generic(ast.unparse(value).removeprefix("typing."), inner)
        case _:
            return _plain(ast.unparse(annotation))


def _generic(name: str, inner: ast.expr) -> Kinds | None:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name == "Optional":
        return _union([kinds_of(inner), frozenset({"null"})])
    if name == "Union":
        return _union([kinds_of(part) for part in parts])
    if name in _LISTS:
        items = _union([kinds_of(part) for part in parts if ast.unparse(part) != "..."])
        return None if items is None else frozenset(f"{item.rstrip('*')}*" for item in items)
    if name in _OBJECTS:
        return frozenset({"object"})
    return None


def _plain(name: str) -> Kinds | None:
    if name in _SCALARS:
        return frozenset({name})
    if name in _OBJECTS:
        return frozenset({"object"})
    if name in _IMAGES:
        return frozenset({"image", "image*"})
    return frozenset({"tensor"}) if name in _TENSORS else None


def _union(parts: list[Kinds | None]) -> Kinds | None:
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _class(name: str) -> ast.ClassDef | None:
    """The definition of a class of the pipelines' part of diffusers."""
    if not name.isidentifier():
        return None
    heads = (f"class {name}(", f"class {name}:")
    for module in _modules(name):
        text = module.read_text(encoding="utf-8")
        if any(head in text for head in heads):
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef) and node.name == name:
                    return node
    return None


def _modules(name: str) -> Iterator[Path]:
    """Modules that may define the class: those of the packages whose `__init__` lists it."""
    spec = importlib.util.find_spec("diffusers")
    root = Path(spec.origin).parent / "pipelines" if spec is not None and spec.origin else None
    for package in sorted(root.rglob("__init__.py")) if root is not None else ():
        if f'"{name}"' in package.read_text(encoding="utf-8") and package.parent != root:
            yield from sorted(package.parent.glob("*.py"))
