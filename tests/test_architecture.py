"""The architecture: imports run downhill and never in a circle, torch stays in the worker, names are unique."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "omni_cli"

FLOORS: dict[str, int] = {
    "control_groups": 0,
    "cores": 0,
    "host_memory": 0,
    "errors": 0,
    "text": 0,
    "log": 0,
    "notes": 0,
    "__init__": 0,
    "shape": 0,
    "dependencies": 1,
    "request": 1,
    "events": 1,
    "media": 1,
    "models": 1,
    "storage": 1,
    "child_process": 2,
    "config": 2,
    "inputs": 2,
    "transport": 3,
    "platforms": 3,
    "writers": 3,
    "prompts": 3,
    "journal": 3,
    "trace": 3,
    "worker": 4,
    "executor": 5,
    "view": 5,
    "report": 5,
    "export": 5,
    "batch": 6,
    "planner": 6,
    "bench": 7,
    "api": 7,
    "cli": 8,
    "__main__": 9,
}

HEAVY = {"torch", "diffusers", "transformers", "accelerate"}
HEAVY_ROOMS = {"worker", "platforms"}
"""`executor/inline.py` reaches torch through these packages only."""

PROGRAMS = {"bench/plain_loop.py", "bench/transport_paths.py"}
"""Programs started with `python -m` and imported by nobody: the plain loop and the transport paths of the bench."""

MAX_FUNCTION = 60
"""Lines of a function's body."""

TENSOR = re.compile(r"\b(Tensor|ndarray|NDArray)\b")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def place(path: Path) -> str:
    return str(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else path.name


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room_of(path: Path) -> str:
    """The top-level package or module that `path` belongs to."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports_of(path: Path) -> set[str]:
    """Every name that the module imports, lazily or not: modules, and `module.name` for `from module import name`."""
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def rooms_imported_by(path: Path) -> set[str]:
    rooms = {name.split(".")[1] for name in imports_of(path) if name.startswith("omni_cli.")}
    return {room if room in FLOORS else "__init__" for room in rooms}


def test_every_room_has_a_floor() -> None:
    assert {room_of(path) for path in modules()} <= FLOORS.keys()


def test_imports_run_downhill_only() -> None:
    uphill = [
        f"{place(path)} on floor {FLOORS[room_of(path)]} imports {other} on floor {FLOORS[other]}"
        for path in modules()
        for other in rooms_imported_by(path) - {room_of(path)}
        if FLOORS[other] >= FLOORS[room_of(path)] > 1
    ]
    assert not uphill, "\n".join(uphill)


def test_the_check_sees_an_uphill_import(tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_text("from omni_cli.cli import app\nimport omni_cli.batch.output_writer\n")
    assert rooms_imported_by(path) == {"cli", "batch"}


def test_no_imports_in_a_circle() -> None:
    names = {module_name(path) for path in modules()}
    graph = {module_name(path): (imports_of(path) & names) - {module_name(path)} for path in modules()}
    for name, targets in graph.items():
        # `from package import module` imports the module; the package's own exports are not needed for it.
        targets -= {target for target in targets if any(other.startswith(f"{target}.") for other in targets)}
        targets.discard(name.rpartition(".")[0])
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_torch_is_imported_only_in_worker_and_platforms() -> None:
    heavy = [
        f"{place(path)} imports {name}"
        for path in modules()
        if room_of(path) not in HEAVY_ROOMS and place(path) not in PROGRAMS
        for name in imports_of(path)
        if name.split(".")[0] in HEAVY
    ]
    assert not heavy, "\n".join(heavy)


def test_only_the_loader_and_the_processor_import_diffusers() -> None:
    users = [place(path) for path in modules() if any(name.split(".")[0] == "diffusers" for name in imports_of(path))]
    assert users
    allowed = ("worker/loader", "worker/pipeline/processor", "bench/plain_loop")
    assert not [user for user in users if not user.startswith(allowed)]


def test_nobody_imports_a_program() -> None:
    programs = {f"omni_cli.{name.removesuffix('.py').replace('/', '.')}" for name in PROGRAMS}
    assert not [place(path) for path in modules() if programs & imports_of(path)]


def test_no_class_name_stands_twice() -> None:
    names: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                names[node.name].append(place(path))
    assert not {name: files for name, files in names.items() if len(files) > 1}


def test_no_file_name_stands_twice() -> None:
    names: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        if not path.name.startswith("__"):
            names[path.name].append(place(path))
    assert not {name: files for name, files in names.items() if len(files) > 1}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_functions_stay_readable() -> None:
    long = [
        f"{place(path)}:{function.lineno} {function.name}"
        for path in modules()
        for function in functions(path)
        if (function.body[-1].end_lineno or 0) - function.body[0].lineno + 1 > MAX_FUNCTION
    ]
    assert not long, "\n".join(long)


def public_functions(path: Path) -> Iterator[ast.FunctionDef]:
    """Functions and methods of the module whose names, and those of the classes around them, are public."""
    nodes: list[ast.stmt] = list(tree_of(path).body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            nodes += node.body
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def raised_by(function: ast.FunctionDef) -> set[str]:
    """Names of the exception classes in the `raise` statements of the function."""
    raised = (node.exc for node in ast.walk(function) if isinstance(node, ast.Raise) and node.exc is not None)
    calls = (error.func if isinstance(error, ast.Call) else error for error in raised)
    return {name for call in calls if (name := ast.unparse(call).rpartition(".")[2])[:1].isupper()}


def test_public_functions_name_the_errors_they_raise() -> None:
    silent = [
        f"{place(path)}:{function.lineno} {function.name} raises {name}"
        for path in modules()
        for function in public_functions(path)
        for name in raised_by(function) - {"NotImplementedError", "Exit"}
        if name not in (ast.get_docstring(function) or "")
    ]
    assert not silent, "\n".join(silent)


def test_public_functions_give_the_shapes_of_their_tensors() -> None:
    silent = [
        f"{place(path)}:{function.lineno} {function.name}"
        for path in modules()
        for function in public_functions(path)
        for argument in (*function.args.args, *function.args.kwonlyargs)
        if argument.annotation is not None and TENSOR.search(ast.unparse(argument.annotation))
        if "[" not in (ast.get_docstring(function) or "")
    ]
    assert not silent, "\n".join(silent)
