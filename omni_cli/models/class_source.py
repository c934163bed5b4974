"""Find the definition of a class in the source of the installed diffusers.

    class name ── __init__.py that lists it ──> module ── ast ──> ClassSource: its methods, its bases, its constants

Imports nothing of diffusers, so that it takes milliseconds and needs no torch.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_IMPORTS = re.compile(r'_import_structure\["([\w.]+)"\] = (\[[^\]]*\])')
"""A module and the names of its classes, as the `__init__` files of diffusers list them."""


@dataclass(frozen=True, slots=True)
class ClassSource:
    """The definition of a class; `constants` are the expressions that names of its module are assigned to.

    `module` is its file, None for a class outside of diffusers.
    """

    definition: ast.ClassDef
    constants: Mapping[str, ast.expr]
    module: Path | None = None

    @property
    def bases(self) -> Iterator["ClassSource"]:
        """The definitions of its base classes, those that diffusers defines."""
        for base in self.definition.bases:
            if isinstance(base, ast.Name) and base.id != self.definition.name:
                source = class_source(base.id)
                if source is not None:
                    yield source

    def method(self, name: str) -> ast.FunctionDef | None:
        """Return the definition of the method or property `name`, the class's own or else a base's; None without."""
        owner = self.owner(name)
        return None if owner is None else next(node for node in owner.methods() if node.name == name)

    def owner(self, name: str) -> "ClassSource | None":
        """Return the class that defines the method `name`: this one or else a base; None without."""
        if any(node.name == name for node in self.methods()):
            return self
        return next((found for base in self.bases if (found := base.owner(name)) is not None), None)

    def texts_of(self, name: str) -> set[str]:
        """Return the texts in the list that the class, or else a base, assigns to the attribute `name`."""
        for node in self.definition.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
                return {str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)}
        return next((texts for base in self.bases if (texts := base.texts_of(name))), set())

    def ancestors(self) -> set[str]:
        """Return the names of its base classes, and of theirs as far as diffusers defines them."""
        names = {ast.unparse(base) for base in self.definition.bases}
        return names.union(*(base.ancestors() for base in self.bases))

    def methods(self) -> Iterator[ast.FunctionDef]:
        """Yield the methods that the class defines itself."""
        for node in self.definition.body:
            if isinstance(node, ast.FunctionDef):
                yield node


@cache
def class_source(name: str) -> ClassSource | None:
    """Return the definition of the class `name` in diffusers' pipelines or models; None if there is none."""
    if not name.isidentifier():
        return None
    heads = (f"class {name}(", f"class {name}:")
    for module in _modules(name):
        text = module.read_text(encoding="utf-8")
        if any(head in text for head in heads):
            source = class_in_module(text, name, module)
            if source is not None:
                return source
    return None


def package_classes(source: ClassSource) -> list[str]:
    """Return the names of the classes in the folder of the module that defines `source`."""
    modules = [] if source.module is None else sorted(source.module.parent.glob("*.py"))
    return [name for module in modules for name in _CLASS.findall(module.read_text(encoding="utf-8"))]


def class_in_module(text: str, name: str, module: Path | None = None) -> ClassSource | None:
    """Return the definition of the class `name` in `module`, whose source is `text`; None if it has none."""
    body = ast.parse(text).body
    constants = {
        node.targets[0].id: node.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return ClassSource(node, constants, module)
    return None


def _modules(name: str) -> Iterator[Path]:
    """Yield the modules that may define the class `name`, which an `__init__` of diffusers lists."""
    for folder, text in _packages():
        if f'"{name}"' not in text:
            continue
        if folder.name != "models":
            yield from sorted(folder.glob("*.py"))
            continue
        for module, classes in _IMPORTS.findall(text):  # the one list of all classes in the folders of `models`
            if f'"{name}"' in classes:
                yield folder / f"{module.replace('.', '/')}.py"
    root = _root()
    if root is not None and name.endswith("Output"):
        yield from sorted((root / "pipelines").glob("*.py"))


@cache
def _packages() -> list[tuple[Path, str]]:
    """Return the folders of pipelines and of models, each with the source of its `__init__`."""
    root = _root()
    if root is None:
        return []
    inits = [root / "models" / "__init__.py", *sorted((root / "pipelines").glob("*/__init__.py"))]
    inits += sorted((root / "pipelines").glob("*/*/__init__.py"))
    return [(init.parent, init.read_text(encoding="utf-8")) for init in inits]


def _root() -> Path | None:
    spec = importlib.util.find_spec("diffusers")
    return Path(spec.origin).parent if spec is not None and spec.origin else None
