"""Compute values in the source of a class of diffusers from its configuration, without importing or running it.

    configuration ──> Instance ── `__init__`, read statement by statement ──> attributes: vae_scale_factor, patch_size

Numbers, texts, lists and None are computed, and conditions on them followed. Everything else is UNKNOWN, and so is what
depends on it: a value that is returned is the one that the class computes.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from omni_cli.models.class_source import ClassSource, class_source
from omni_cli.models.expression_values import (
    ABSENT,
    LARGEST,
    UNKNOWN,
    Owner,
    attribute_of,
    binary,
    boolean,
    call_builtin,
    compare,
    is_same,
    truth_of,
)

_MAX_DEPTH = 20
"""Of attributes that depend on each other."""


_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float,), "str": (str,), "list": (list, tuple)}
"""Types that `isinstance` is followed for. JSON has no tuples: diffusers' configurations hold lists for them."""


Scope = dict[str, Any]
OnExpression = Callable[[ast.AST, Scope], None]


class Config(Owner):
    """A configuration, with the defaults of the class's `__init__` for keys that it lacks; `values` None: unknown."""

    def __init__(self, values: Mapping[str, Any] | None, defaults: Callable[[], Mapping[str, Any]]) -> None:
        self._values, self._defaults = values, defaults

    def attribute(self, name: str) -> Any:
        """Return the value of the key `name`."""
        if self._values is None:
            return UNKNOWN
        return self._values[name] if name in self._values else self._defaults().get(name, ABSENT)


class Instance(Owner):
    """An object of the class `name`, as far as its source and its configuration (None: unknown) tell.

    `parts` are the components of a pipeline: an Instance, or None for one that the pipeline does without. `source` is
    that of a class outside of diffusers.
    """

    def __init__(
        self,
        name: str,
        config: Mapping[str, Any] | None,
        parts: Mapping[str, "Instance | None"] | None = None,
        source: ClassSource | None = None,
    ) -> None:
        self.name, self._source = name, source
        self.parts: dict[str, Any] = dict(parts or {})
        self.config = Config(config, self._init_defaults)
        self._given: dict[str, Any] | None = None if config is None else {**config, **self.parts}
        self._attributes: dict[str, Any] | None = None
        self._depth = 0

    @cached_property
    def source(self) -> ClassSource | None:
        """The source of the class; None if there is none. It is searched for when something needs it."""
        return self._source or class_source(self.name)

    def attribute(self, name: str) -> Any:
        """Return the value of the attribute or property `name`; UNKNOWN if it cannot be computed."""
        if name == "config":
            return self.config
        attributes = self._computed()
        if name in attributes:
            return attributes[name]
        if self.source is None or self._depth > _MAX_DEPTH:
            return UNKNOWN
        method = self.source.method(name)
        if method is None:
            return ABSENT
        if not any(isinstance(item, ast.Name) and item.id == "property" for item in method.decorator_list):
            return UNKNOWN
        self._depth += 1
        try:
            return Reader(self).result(method.body, {"self": self})
        finally:
            self._depth -= 1

    def part(self, name: str) -> "Instance | None":
        """Return the component `name`; None if the pipeline has none."""
        value = self.parts.get(name)
        return value if isinstance(value, Instance) else None

    def is_a(self, name: str) -> Any:
        """Return whether its class is `name` or derived from it; UNKNOWN if its source is."""
        if self.name == name:
            return True
        return UNKNOWN if self.source is None else name in self.source.ancestors()

    def set_attribute(self, name: str, value: Any) -> None:
        """Set the attribute `name`, as a statement of its class does."""
        self._computed()[name] = value

    def defaults(self, function: ast.FunctionDef) -> dict[str, Any]:
        """Return the parameters of `function` with their default values; UNKNOWN where there is none."""
        arguments, reader = function.args, Reader(self)
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        values: dict[str, Any] = dict.fromkeys([*names, *(argument.arg for argument in arguments.kwonlyargs)], UNKNOWN)
        given = list(zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True))
        given += [(a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        return values | {name: reader.value(default, {}) for name, default in given}

    def constant(self, name: str) -> Any:
        """Return the value of the module's constant `name`; UNKNOWN if it cannot be computed."""
        expression = None if self.source is None else self.source.constants.get(name)
        return UNKNOWN if expression is None else Reader(self).value(expression, {})

    def _computed(self) -> dict[str, Any]:
        """Return the attributes that have been set so far; the first call reads `__init__`."""
        if self._attributes is None:
            self._attributes = dict(self.parts)
            self.run_init(self.source)
        return self._attributes

    def _init_defaults(self) -> Mapping[str, Any]:
        init = None if self.source is None else self.source.method("__init__")
        return {} if init is None else self.defaults(init)

    def run_init(self, source: ClassSource | None) -> None:
        """Follow the `__init__` of `source`, this class or a base, with the components and the configuration."""
        owner = None if source is None else source.owner("__init__")
        init = None if owner is None else owner.method("__init__")
        if init is None:
            return
        parameters, given = self.defaults(init), self._given
        if given is None:
            scope = dict.fromkeys(parameters, UNKNOWN)
        else:
            scope = {name: given.get(name, default) for name, default in parameters.items()}
        Reader(self, owner=owner).run(init.body, {**scope, "self": self})


class Reader:
    """Follows the statements of a method of `instance`. `on_expression` sees each one with the values before it."""

    def __init__(
        self, instance: Instance, on_expression: OnExpression | None = None, owner: ClassSource | None = None
    ) -> None:
        """`owner` is the class that defines the method."""
        self._instance, self._on_expression, self._owner = instance, on_expression, owner
        self.returned: Any = UNKNOWN

    def result(self, body: Sequence[ast.stmt], scope: Scope) -> Any:
        """Return what a function with `body` returns; UNKNOWN if that cannot be computed."""
        return self.returned if self.run(body, scope) else UNKNOWN

    def run(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Follow `body`, changing `scope`. Return True if it certainly ends in a return or an error."""
        return any(self.step(statement, scope) for statement in body)

    def step(self, statement: ast.stmt, scope: Scope) -> bool:
        """Follow one statement, as `run` does."""
        match statement:
            case ast.If(test=test):
                return self._branch(statement, self._seen(test, scope), scope)
            case ast.Assign(targets=targets, value=value):
                result = self._seen(value, scope)
                for target in targets:
                    self._assign(target, result, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self._seen(value, scope), scope)
            case ast.Return(value=value):
                self.returned = None if value is None else self._seen(value, scope)
                return True
            case ast.Raise():
                self.returned = UNKNOWN
                return True
            case ast.Expr(value=ast.Call() as call):
                self._seen(call, scope)
                self._run_call(call, scope)
            case ast.FunctionDef() | ast.Pass() | ast.Expr() | ast.Import() | ast.ImportFrom() | ast.Assert():
                pass
            case _:  # a loop, `with`, `try` or the like: what it assigns cannot be computed
                self._forget(statement, scope)
        return False

    def value(self, expression: ast.expr, scope: Scope) -> Any:
        """Return the value of `expression`; UNKNOWN if it cannot be computed."""
        try:
            result = self._value(expression, scope)
        except (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError):
            return UNKNOWN
        is_number = isinstance(result, int | float)
        return UNKNOWN if result is ABSENT or (is_number and not abs(result) <= LARGEST) else result

    def _seen(self, expression: ast.expr, scope: Scope) -> Any:
        if self._on_expression is not None:
            self._on_expression(expression, scope)
        return self.value(expression, scope)

    def _branch(self, statement: ast.If, test: Any, scope: Scope) -> bool:
        truth = truth_of(test)
        if truth is not UNKNOWN:
            return self.run(statement.body if truth else statement.orelse, scope)
        one, other = dict(scope), dict(scope)
        ended = (self.run(statement.body, one), self.run(statement.orelse, other))
        if all(ended):
            self.returned = UNKNOWN
            return True
        # What only one branch assigns is unknown, but of a branch that ends, nothing counts. Attributes are not copied.
        for name in {**one, **other}:
            left, right = one.get(name, UNKNOWN), other.get(name, UNKNOWN)
            kept = right if ended[0] else left if ended[1] else (left if is_same(left, right) else UNKNOWN)
            scope[name] = kept
        self._forget_attributes(statement, scope)
        return False

    def _assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        match target:
            case ast.Name(id=name):
                scope[name] = value
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                self._instance.set_attribute(name, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                fits = isinstance(value, tuple | list) and len(value) == len(parts)
                for index, part in enumerate(parts):
                    self._assign(part, value[index] if fits else UNKNOWN, scope)

    def _forget(self, statement: ast.stmt, scope: Scope) -> None:
        """Make everything that `statement` may assign UNKNOWN."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                scope[node.id] = UNKNOWN
        self._forget_attributes(statement, scope)

    def _forget_attributes(self, statement: ast.stmt, scope: Scope) -> None:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self._assign(node, UNKNOWN, scope)

    def _run_call(self, call: ast.Call, scope: Scope) -> None:
        """Follow a statement that is a call, where it sets attributes."""
        match call.func:
            case ast.Attribute(value=ast.Name(id="self"), attr="register_modules"):
                for keyword in call.keywords:
                    if keyword.arg is not None:
                        self._instance.set_attribute(keyword.arg, self.value(keyword.value, scope))
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
                for base in self._owner.bases if self._owner is not None else ():
                    self._instance.run_init(base)

    def _value(self, node: ast.expr, scope: Scope) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return scope[name] if name in scope else self._instance.constant(name)
            case ast.Attribute(value=owner, attr=name):
                return attribute_of(self.value(owner, scope), name)
            case ast.Tuple(elts=parts):
                return tuple(self.value(part, scope) for part in parts)
            case ast.List(elts=parts):
                return [self.value(part, scope) for part in parts]
            case ast.Subscript(value=owner, slice=index):
                return self.value(owner, scope)[self.value(index, scope)]
            case ast.BinOp(left=left, op=operator, right=right):
                return binary(operator, self.value(left, scope), self.value(right, scope))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand, scope)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = truth_of(self.value(operand, scope))
                return UNKNOWN if truth is UNKNOWN else not truth
            case ast.BoolOp(op=operator, values=parts):
                return boolean(isinstance(operator, ast.And), (self.value(part, scope) for part in parts))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                truth = truth_of(self.value(test, scope))
                return UNKNOWN if truth is UNKNOWN else self.value(body if truth else orelse, scope)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return compare(operator, self.value(left, scope), self.value(right, scope))
            case ast.Call(func=ast.Name(id="isinstance"), args=[item, ast.Name(id=kind)]) if kind in _TYPES:
                value = self.value(item, scope)
                return UNKNOWN if value is UNKNOWN else isinstance(value, _TYPES[kind])
            case ast.Call(func=ast.Name(id="isinstance"), args=[item, ast.Name(id=kind)]):
                value = self.value(item, scope)
                return value.is_a(kind) if isinstance(value, Instance) else UNKNOWN
            case ast.Call(func=function, args=arguments, keywords=[]):
                return call_builtin(ast.unparse(function), [self.value(argument, scope) for argument in arguments])
        return UNKNOWN
