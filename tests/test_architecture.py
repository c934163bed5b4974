"""The floors of the house: imports run downhill only, and torch stays where it belongs."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "omni_cli"

FLOORS: dict[str, int] = {
    "errors": 0,
    "digest": 0,
    "log": 0,
    "disk": 0,
    "__init__": 0,
    "request": 1,
    "events": 1,
    "media": 1,
    "models": 1,
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
    "batch": 6,
    "planner": 6,
    "bench": 7,
    "api": 7,
    "cli": 8,
    "__main__": 9,
}

HEAVY = {"torch", "diffusers", "transformers", "accelerate", "safetensors"}
HEAVY_ROOMS = {"worker", "platforms"}
"""`executor/inline.py` reaches them through these rooms; the training program is a program of its own."""

PROGRAMS = {"bench/plain.py", "bench/ways.py"}
"""Programs of their own, started with `python -m` and imported by nobody: the plain loop and the ways of transport."""

MAX_LINES = 300
MAX_FUNCTION = 60


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            if node.module == "omni_cli":
                found |= {f"omni_cli.{alias.name}" for alias in node.names}
            else:
                found.add(node.module)
    return found


def own_rooms(path: Path) -> set[str]:
    rooms = {name.split(".")[1] for name in imports_of(path) if name.startswith("omni_cli.")}
    return {room if room in FLOORS else "__init__" for room in rooms}


def is_training(path: Path) -> bool:
    return "train" in path.relative_to(PACKAGE).parts or path.name in {"draw.py"}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_downhill_only(path: Path) -> None:
    room = room_of(path)
    uphill = {other for other in own_rooms(path) - {room} if FLOORS[other] >= FLOORS[room] and FLOORS[room] > 1}
    assert not uphill, f"{path} is on floor {FLOORS[room]} and imports {uphill}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_torch_is_imported_only_in_worker_and_platforms(path: Path) -> None:
    if room_of(path) in HEAVY_ROOMS or is_training(path) or str(path.relative_to(PACKAGE)) in PROGRAMS:
        return
    heavy = {name for name in imports_of(path) if name.split(".")[0] in HEAVY}
    assert not heavy, f"{path} imports {heavy}"


def test_only_the_loader_and_the_runner_know_diffusers() -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in modules()
        if not is_training(path) and any(name.split(".")[0] == "diffusers" for name in imports_of(path))
    }
    assert all(user.startswith(("worker/loader", "worker/seam", "bench/plain")) for user in users), users


def test_nobody_imports_a_program() -> None:
    programs = {f"omni_cli.{name.removesuffix('.py').replace('/', '.')}" for name in PROGRAMS}
    assert not [path for path in modules() if programs & imports_of(path)]


def test_the_check_sees_an_uphill_import(tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_text("from omni_cli.cli import app\nimport omni_cli.batch.desk\n")
    assert own_rooms(path) == {"cli", "batch"}


def test_every_room_has_a_floor() -> None:
    assert {room_of(path) for path in modules()} <= FLOORS.keys()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_stay_readable(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MAX_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            statements = node.body[-1].end_lineno or 0
            assert statements - node.body[0].lineno + 1 <= MAX_FUNCTION, f"{path}:{node.lineno} {node.name}: {length}"
