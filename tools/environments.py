"""Run the quick part of the suite on the lowest and the newest versions of what omni-gen depends on.

    python -m tools.environments constraints                       write tools/constraints-lowest.txt
    python -m tools.environments test lowest                       in a new environment with exactly these versions
    python -m tools.environments test newest --python python3.13   with the newest ones, on another Python

An environment is a folder of temporary files with everything from the package index; it is removed at the end. torch is
the lowest release that is supported in both (`--torch` takes another requirement): a newer one is a CUDA build of
several gigabytes on Linux.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOWEST = ROOT / "tools" / "constraints-lowest.txt"

QUICK = (
    "tests/cli/test_info.py",
    "tests/cli/test_options.py",
    "tests/cli/test_run.py::test_every_request_has_a_row_and_its_files",
    "tests/journal",
    "tests/models",
    "tests/pipelines",
    "tests/planner",
    "tests/prompts",
    "tests/report",
    "tests/storage",
    "tests/test_dependencies.py",
    "tests/transport",
    "tests/view",
    "tests/test_wheel.py",
    "tests/worker",
    "tests/writers",
    "tests/bench/test_plot.py",
)
"""The tests of modules that call another package: the rest of the suite depends on none of these versions."""

CHECKERS = {"mypy", "ruff", "types-PyYAML"}
"""Packages of the `test` extra that no test imports: their lowest versions prove nothing."""


def main() -> None:
    """Write the constraints, or run the tests and exit with pytest's exit code."""
    options = _options()
    if options.action == "constraints":
        LOWEST.write_text(constraints(), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory(prefix="omni-gen-env-") as folder:
        python = _create(Path(folder), options.python, options.torch, lowest=options.versions == "lowest")
        sys.exit(_run_tests(python, options.tests or QUICK))


def constraints() -> str:
    """Return pip constraints that pin each declared package to the lowest version that pyproject.toml admits."""
    lines = sorted(f"{name}=={lowest}" for name, lowest in _lowest_versions().items())
    return "# Written by: python -m tools.environments constraints\n" + "\n".join(lines) + "\n"


def _lowest_versions() -> dict[str, str]:
    """Return the lowest version that is admitted of each package of the project and its extras, without CHECKERS."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {name: lowest for name, lowest in _floors(project) if name not in CHECKERS}


def _floors(project: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and lowest version of each requirement. Raises ValueError for one that is not "name>=version"."""
    extras = project["optional-dependencies"].values()
    for requirement in [*project["dependencies"], *(line for extra in extras for line in extra)]:
        match = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement)
        if match is None:
            raise ValueError(f'pyproject.toml: expected "name>=version", got {requirement!r}')
        yield match[1], match[2]


def _create(folder: Path, base: str, torch: str, *, lowest: bool) -> Path:
    """Create an environment in `folder` with the checkout installed for editing, and return its Python."""
    subprocess.run([base, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, torch], check=True)
    pins = ["-c", str(LOWEST)] if lowest else []
    subprocess.run([*install, *pins, "-e", f"{ROOT}[test]"], check=True)
    subprocess.run([python, "-m", "pip", "list", "--disable-pip-version-check"], check=True)
    return python


def _run_tests(python: Path, tests: tuple[str, ...]) -> int:
    """Run `tests` from the checkout and return pytest's exit code."""
    environ = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run([python, "-m", "pytest", "-q", *tests], cwd=ROOT, env=environ, check=False).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.environments", description=(__doc__ or "").split("\n")[0])
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("constraints", help="write tools/constraints-lowest.txt from pyproject.toml")
    test = actions.add_parser("test", help="create an environment and run tests in it")
    test.add_argument("versions", choices=("lowest", "newest"))
    test.add_argument("tests", nargs="*", help="files and folders for pytest; default: the quick part of the suite")
    test.add_argument("--python", default=sys.executable, help="the Python of the environment")
    test.add_argument("--torch", default=f"torch=={_lowest_versions()['torch']}", help="the torch to install first")
    return parser.parse_args()


if __name__ == "__main__":
    main()
